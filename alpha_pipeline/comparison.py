"""`alpha compare`: every contender for the perception on one market's in-sample days, each a run of its own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from alpha_pipeline.paths import Workspace
from alpha_pipeline.research.contenders import Measured, chosen_names, league_table, measured
from alpha_pipeline.run import DAY_STAGES, run_market, scope_of
from alpha_pipeline.stages.base import Scope
from alpha_pipeline.stages.models import in_sample
from alpha_pipeline.tracked import measured_runs
from alpha_pipeline.tracking import Tracker

LEAGUE = "league"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What `alpha compare` tells.

    Attributes:
        table: one line per contender and horizon.
        url: page of the parent run.
    """

    table: pl.DataFrame
    url: str

    def text(self) -> str:
        """One table per horizon and the address of the runs."""
        parts = ["\n".join(_lines(part)) for part in self.table.partition_by("horizon", maintain_order=True)]
        return "\n\n".join([*parts, f"runs: {self.url}"])


def compare(
    instrument: str,
    workspace: Workspace,
    *,
    raw: Path | str | None,
    names: Sequence[str],
    say: Callable[[str], None],
) -> Comparison:
    """Bring the cache up to date, then train and measure all contenders on the rows of the final fit.

    Args:
        instrument: name of a configuration file.
        workspace: where everything lies.
        raw: folder or URL of raw files, None for the configured one.
        names: contenders beside production and the baselines, all when empty.
        say: receives lines of progress.

    Raises:
        AlphaError: a name, the input or the configuration cannot serve; in one sentence.
    """
    contenders = chosen_names(names)
    run_market(instrument, workspace, raw=raw, until=DAY_STAGES[-1].name, say=say)
    scope = scope_of(instrument, workspace, raw=raw, say=say)
    tracker = Tracker.default(workspace.dagster_home, workspace.root / "data")
    with tracker.pipeline_run(f"{instrument} comparison", {"instrument": instrument}) as parent:
        found = list(_tracked(scope, tracker, parent.run_id, contenders, say))
        table = league_table(found)
        parent.log_table(LEAGUE, table)
    return Comparison(table=table, url=parent.url)


def _tracked(
    scope: Scope, tracker: Tracker, parent: str, contenders: Sequence[str], say: Callable[[str], None]
) -> Iterator[Measured]:
    """Each contender in a child run of its own; what ran before a failure stays recorded."""
    config, sample = scope.config, in_sample(scope)

    def measure(name: str) -> Measured:
        return measured(name, sample.rows, sample.train, sample.validation, config)

    for one in measured_runs(scope, tracker, parent, contenders, measure):
        aucs = ", ".join(f"{s.horizon}: {_number(s.auc)}" for s in one.scores)
        say(f"{one.name}: {one.result.metrics['seconds']:.0f} s, validation AUC {aucs}")
        yield one


def _lines(part: pl.DataFrame) -> Iterator[str]:
    """The table of one horizon."""
    yield f"{part['horizon'][0]} snapshots, {part['n'][0]} labels"
    yield f"  {'':<14} {'AUC':>7}  {'95 % interval':<17} {'Brier':>7} {'MCC':>7}"
    for line in part.iter_rows(named=True):
        interval = f"[{_number(line['auc_low'])}, {_number(line['auc_high'])}]"
        yield (
            f"  {line['contender']:<14} {_number(line['auc']):>7}  {interval:<17} {_number(line['brier']):>7} "
            f"{_number(line['mcc']):>7}"
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
