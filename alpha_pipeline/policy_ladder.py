"""`alpha train policy --ladder`: every step of the ladder of policies on one market, each training a run of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from alpha_core.errors import ConfigError
from alpha_pipeline.artifacts import WHOLE
from alpha_pipeline.paths import Workspace
from alpha_pipeline.research.ladder import RULES, RUNGS, Climbed, Ground, climbed, ladder_table, parted
from alpha_pipeline.run import run_market, scope_of
from alpha_pipeline.stages.base import Scope, StageContext
from alpha_pipeline.stages.models import baseline_of, in_sample, published_backtest
from alpha_pipeline.tracked import measured_runs
from alpha_pipeline.tracking import Tracker

LADDER = "ladder"
STABLE = tuple(name for name in RULES if name != "random")


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """What the command tells.

    Attributes:
        table: one line a rung.
        url: page of the parent run.
    """

    table: pl.DataFrame
    url: str

    def text(self) -> str:
        """The table and the address of the runs."""
        return "\n".join([*_lines(self.table), "", f"runs: {self.url}"])


def climb(
    instrument: str, workspace: Workspace, *, raw: Path | str | None, seeds: int, say: Callable[[str], None]
) -> Ladder:
    """Bring everything up to the perception up to date, then train and judge every rung.

    Args:
        instrument: name of a configuration file.
        workspace: where everything lies.
        raw: folder or URL of raw files, None for the configured one.
        seeds: trainings of each network, from the configured seed on.
        say: receives lines of progress.

    Raises:
        AlphaError: the input or the configuration cannot serve; in one sentence.
    """
    if seeds < 1:
        raise ConfigError(f"--seeds was {seeds}, must be at least 1")
    run_market(instrument, workspace, raw=raw, until="perception_model", say=say)
    scope = scope_of(instrument, workspace, raw=raw, say=say)
    tracker = Tracker.default(workspace.dagster_home, workspace.root / "data")
    with tracker.pipeline_run(f"{instrument} ladder", {"instrument": instrument}) as parent:
        found = list(_tracked(scope, tracker, parent.run_id, seeds, say))
        table = ladder_table(found)
        parent.log_table(LADDER, table)
    return Ladder(table=table, url=parent.url)


def _tracked(
    scope: Scope, tracker: Tracker, parent: str, seeds: int, say: Callable[[str], None]
) -> Iterator[Climbed]:
    ground, first = _ground(scope), scope.config.seed
    tries = {
        f"{rung}, seed {first + i}": (rung, first + i)
        for rung in RUNGS
        for i in range(1 if rung in STABLE else seeds)
    }

    def measure(name: str) -> Climbed:
        return climbed(*tries[name], ground, scope.config)

    for one in measured_runs(scope, tracker, parent, tries, measure):
        say(
            f"{one.rung}, seed {one.seed}: {one.pnl_ticks.mean():.2f} ticks per episode, {one.trades:.1f} trades"
        )
        yield one


def _ground(scope: Scope) -> Ground:
    sample = in_sample(scope)
    train, judge = parted(sample.validation, scope.config)
    with TemporaryDirectory() as nowhere:
        context = StageContext(scope=scope, partition=WHOLE, out=Path(nowhere), work=Path(nowhere))
        return Ground(
            rows=sample.rows,
            train=train,
            judge=judge,
            backtest=published_backtest(context, sample.rows),
            baseline=baseline_of(context),
        )


def _lines(table: pl.DataFrame) -> Iterator[str]:
    yield f"{table['episodes'][0]} episodes that no policy saw, half a tick per lot and side, ticks x lots per episode"
    yield f"  {'':<14} {'mean':>8}  {'95 % interval':<18} {'sd of seeds':>11} {'trades':>7}  over the step before"
    for line in table.iter_rows(named=True):
        yield (
            f"  {line['rung']:<14} {_number(line['pnl_ticks']):>8}  {_interval(line['low'], line['high']):<18} "
            f"{_number(line['seed_sd']):>11} {line['trades']:>7.1f}  {_number(line['over_previous'])} "
            f"{_interval(line['over_previous_low'], line['over_previous_high'])}"
        )


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None else f"[{_number(low)}, {_number(high)}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
