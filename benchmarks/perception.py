"""What the perception learns: beside the latent signal of a planted market, on a null market, and on real days.

The ceiling is the AUC that the simulator's own signal attains on the same validation rows. It is made again here from
the simulator's seed; no stage of the pipeline reads it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from measure import ROOT, Row, green, scratch, show

from alpha_core.shapes import HORIZONS
from alpha_core.training.perception import predict_logits
from alpha_core.training.scoring import HorizonMetrics, aucs
from alpha_pipeline.config import PipelineConfig, load
from alpha_pipeline.evaluation.splits import RowRange, purge_end, split_training
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.ingest.records import Flag
from alpha_pipeline.paths import PROJECT, Workspace
from alpha_pipeline.research.contenders import measured
from alpha_pipeline.research.fitting import fit_alpha
from alpha_pipeline.research.rows import Rows, join
from alpha_pipeline.research.scoring import scored
from alpha_pipeline.run import DAY_STAGES
from alpha_pipeline.simulator import simulate_day, simulate_days
from alpha_pipeline.stages.base import execute, open_scope
from alpha_pipeline.stages.fxcache import FILE
from alpha_pipeline.threads import use_threads

TESTS = ("tests/core/training_perception", "tests/core/nn")
CONTENDERS = ("production", "logistic", "persistence")
RESAMPLES = 200
SHARE = 0.9
"""Of the ceiling's AUC, to be reached at every horizon."""


@dataclass(frozen=True)
class Market:
    """One market's rows, the in-sample ones split as the final fit splits them; `held` are the last days."""

    config: PipelineConfig
    rows: Rows
    train: RowRange
    validation: RowRange
    held: RowRange


def market(config: PipelineConfig, folder: Path, raw: Path) -> Market:
    """Cache the days in `raw`, hold out what the pipeline would hold out, as far as there are days for it."""
    scope = open_scope(config, Workspace(folder), raw=str(raw), report=lambda _: None)
    for day in scope.raw_files:
        for stage in DAY_STAGES:
            execute(stage, scope, day, {})
    days = scope.usable_days()
    rows = join([open_day(scope.store.get("fxcache", day).path / FILE, verify="fast") for day in days], days)
    first_held = max(1, len(days) - config.walk_forward.oos_days)
    boundary = int(np.searchsorted(rows.line.day, first_held))
    stop = purge_end(rows.line, boundary, config.walk_forward) if boundary < len(rows) else boundary
    train, validation = split_training(rows.line, RowRange(0, stop), config.walk_forward)
    return Market(config, rows, train, validation, RowRange(boundary, len(rows)))


def simulated(name: str, folder: Path) -> Market:
    """A shipped market, its held-out days included."""
    config = load(name, Workspace(PROJECT))
    simulate_days(config.simulator, config.instrument, folder / "raw")
    return market(config, folder, folder / "raw")


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


def null_rows(at: Market) -> list[Row]:
    """On the held-out days: the validation rows have chosen the epoch, which lifts their AUC even by chance."""
    use_threads(at.config.threads)
    fit = fit_alpha(at.rows, at.train, at.validation, at.config, on_epoch=None)
    logits = predict_logits(fit, at.rows.sequence)
    parts = (at.held, at.validation)
    held, chosen = (
        scored(logits[p.slice], at.rows, p, resamples=RESAMPLES, seed=at.config.seed) for p in parts
    )
    return [
        Row(
            f"null market, AUC at {score.horizon} snapshots on the held-out days",
            f"{interval(score)} on {score.n} labels (on the validation rows, which chose the epoch: {interval(other)})",
            "0.5 in the interval",
        )
        for score, other in zip(held, chosen, strict=True)
    ]


def real_rows(name: str, at: Market) -> list[Row]:
    found = fits(at, CONTENDERS)
    rows = []
    for column, horizon in enumerate(HORIZONS):
        ours = found["production"][column]
        others = ", ".join(f"{name} {figure(found[name][column].auc)}" for name in CONTENDERS[1:])
        rows.append(
            Row(
                f"real {name}, validation AUC at {horizon} snapshots",
                f"{interval(ours)} on {ours.n} labels ({others})",
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
        rows += null_rows(simulated("demo-null", folder / "null"))
        for name in ("nexousdt", "es") if real.is_dir() else ():
            config = load(name, Workspace(PROJECT))
            rows += real_rows(name, market(config, folder / name, real))
    return rows


if __name__ == "__main__":
    green(*TESTS)
    show(run())
