"""What the perception learns: beside the latent signal of a planted market, on a null market, and on real days.

The ceiling is the AUC that the simulator's own signal attains on the same validation rows. It is made again here from
the simulator's seed; no stage of the pipeline reads it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from measure import ROOT, Row, green, scratch, show

from alpha_core.shapes import HORIZONS
from alpha_core.training.scoring import HorizonMetrics, aucs
from alpha_pipeline.config import PipelineConfig, load
from alpha_pipeline.evaluation.splits import RowRange, purge_end, split_training
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.ingest.records import Flag
from alpha_pipeline.paths import PROJECT, Workspace
from alpha_pipeline.research.contenders import measured
from alpha_pipeline.research.rows import Rows, join
from alpha_pipeline.run import DAY_STAGES
from alpha_pipeline.simulator import simulate_day, simulate_days
from alpha_pipeline.stages.base import execute, open_scope
from alpha_pipeline.stages.fxcache import FILE
from alpha_pipeline.threads import use_threads

TESTS = ("tests/core/training_perception", "tests/core/nn")
CONTENDERS = ("production", "deeplob", "logistic", "persistence")
SHARE = 0.9
"""Of the ceiling's AUC, to be reached at every horizon."""


@dataclass(frozen=True)
class Market:
    """One market's in-sample rows, split as the final fit splits them."""

    config: PipelineConfig
    rows: Rows
    train: RowRange
    validation: RowRange


def market(config: PipelineConfig, folder: Path, raw: Path) -> Market:
    """Cache the days in `raw`, hold out what the pipeline would hold out, as far as there are days for it."""
    scope = open_scope(config, Workspace(folder), raw=str(raw), report=lambda _: None)
    for day in scope.raw_files:
        for stage in DAY_STAGES:
            execute(stage, scope, day, {})
    days = scope.usable_days()
    held = min(config.walk_forward.oos_days, len(days) - 1)
    days = days[: len(days) - held]
    rows = join([open_day(scope.store.get("fxcache", day).path / FILE, verify="fast") for day in days], days)
    stop = purge_end(rows.line, len(rows), config.walk_forward) if held else len(rows)
    train, validation = split_training(rows.line, RowRange(0, stop), config.walk_forward)
    return Market(config, rows, train, validation)


def simulated(name: str, folder: Path) -> Market:
    """The shipped market's in-sample days, and one that stands for those held out."""
    config = load(name, Workspace(PROJECT))
    simulator, held = config.simulator, config.walk_forward.oos_days
    days = [simulator.day(index) for index in range(simulator.days - held + 1)]
    simulate_days(simulator, config.instrument, folder / "raw", days)
    one = config.model_copy(update={"walk_forward": replace(config.walk_forward, oos_days=1)})
    return market(one, folder, folder / "raw")


def ceiling(at: Market) -> list[float | None]:
    """AUC per horizon of the latent signal on the validation rows."""
    signal = np.concatenate([_signal(at, index) for index in range(len(at.rows.days))])
    logits = torch.from_numpy(signal[at.validation.slice])[:, None].repeat(1, len(HORIZONS))
    return aucs(logits, at.rows.part(at.validation))


def _signal(at: Market, index: int) -> np.ndarray:
    """The signal at each row of a day, found by receive time; [n] float32."""
    simulator, day = at.config.simulator, at.rows.days[index]
    made = simulate_day(simulator, at.config.instrument.tick_nanos, day, simulator.index(day))
    ends = np.flatnonzero(made.records["flags"] & np.uint8(Flag.LAST))
    times = made.records["ts_recv"][ends].astype(np.int64)
    wanted = at.rows.times_ns[at.rows.line.day == index]
    found = np.searchsorted(times, wanted, "right") - 1
    assert np.array_equal(times[found], wanted), "the rows are not those of the market made again"
    return made.truth[found]


def fits(at: Market, names: Sequence[str]) -> dict[str, Sequence[HorizonMetrics]]:
    use_threads(at.config.threads)
    return {name: measured(name, at.rows, at.train, at.validation, at.config).scores for name in names}


def planted_rows(at: Market) -> list[Row]:
    best, found = ceiling(at), fits(at, CONTENDERS)
    rows = []
    for column, (horizon, top) in enumerate(zip(HORIZONS, best, strict=True)):
        ours = found["production"][column]
        others = ", ".join(f"{name} {found[name][column].auc:.4f}" for name in CONTENDERS[1:])
        rows.append(
            Row(
                f"planted market, validation AUC at {horizon} snapshots, as a share of the latent signal's",
                f"{ours.auc / top:.1%} ({interval(ours)} of {top:.4f}; share of what lies above 0.5: "
                f"{(ours.auc - 0.5) / (top - 0.5):.0%}; {others})",
                f"{SHARE:.0%}",
            )
        )
    return rows


def plain_rows(title: str, at: Market, bar: str = "") -> list[Row]:
    found = fits(at, CONTENDERS)
    rows = []
    for column, horizon in enumerate(HORIZONS):
        ours = found["production"][column]
        others = ", ".join(f"{name} {figure(found[name][column].auc)}" for name in CONTENDERS[1:])
        rows.append(
            Row(
                f"{title}, validation AUC at {horizon} snapshots",
                f"{interval(ours)} on {ours.n} labels ({others})",
                bar,
            )
        )
    return rows


def interval(score: HorizonMetrics) -> str:
    return f"{figure(score.auc)} [{figure(score.auc_low)}, {figure(score.auc_high)}]"


def figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def run() -> list[Row]:
    real = Path(os.environ.get("ALPHA_REAL_DATA", ROOT.parent / "shared" / "data")) / "mbp10-derived"
    rows = []
    with scratch() as folder:
        rows += planted_rows(simulated("demo", folder / "planted"))
        rows += plain_rows("null market", simulated("demo-null", folder / "null"), "0.5 in the interval")
        for name in ("nexousdt", "es") if real.is_dir() else ():
            config = load(name, Workspace(PROJECT))
            rows += plain_rows(f"real {name}", market(config, folder / name, real))
    return rows


if __name__ == "__main__":
    green(*TESTS)
    show(run())
