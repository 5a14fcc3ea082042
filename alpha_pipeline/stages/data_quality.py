"""Whether a day may be built on: rules on its records, and the schema of its snapshot table."""

import polars as pl

from alpha_pipeline.ingest.quality import RULES, assess_day
from alpha_pipeline.ingest.report import IngestReport, read_report
from alpha_pipeline.ingest.tables import SNAPSHOTS
from alpha_pipeline.report.figures import bar_figure
from alpha_pipeline.results import Check, StageResult
from alpha_pipeline.schemas import validate
from alpha_pipeline.stages.base import Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of

VERSION = "1"
_SPREADS_SHOWN = 15


def run(context: StageContext) -> StageResult:
    """Hold the day against the instrument's thresholds; a blocking failure keeps it, and only it, from use."""
    folder = context.upstream("mbp10_snapshots", context.partition)
    snapshots = pl.read_ipc(folder / SNAPSHOTS)
    report = read_report(folder)
    quality = assess_day(snapshots, report, context.config.quality)
    return StageResult(
        metrics={check.name: float(check.figure) for check in quality.checks if check.figure is not None}
        | {"rows": float(snapshots.height)},
        tables={"rules": quality.table},
        figures={"spreads": bar_figure(_spreads(snapshots), "Spread in ticks", "snapshots")}
        if snapshots.height
        else {},
        checks=[*validate("snapshots", snapshots), *quality.checks, _day_check(report, context.partition)],
        status=quality.status,
    )


def _day_check(report: IngestReport, day: str) -> Check:
    """A file whose name lies about its day could put the same records into training and test."""
    holds, dates = report.empty or day in report.utc_dates, " to ".join(report.utc_dates) or "no day"
    return Check(
        name="day_of_records",
        passed=holds,
        figure=float(not holds),
        threshold=0.0,
        description=f"whether name and records disagree: the file's name says {day}, its records are of {dates}",
        blocking=True,
    )


def _spreads(snapshots: pl.DataFrame) -> pl.DataFrame:
    """How many snapshots had each of the most frequent spreads; columns ticks and snapshots."""
    spread = (snapshots["ask_px_00"] - snapshots["bid_px_00"]).drop_nulls().alias("ticks")
    counts = spread.value_counts(name="snapshots", sort=True).head(_SPREADS_SHOWN).sort("ticks")
    return counts.with_columns(pl.col("ticks").cast(pl.String))


STAGE = Stage(
    name="data_quality",
    description="Rules a day must meet before anything is built on it. A failing day stops itself and no other.",
    group="market_data",
    kinds=frozenset({"polars", "pandera"}),
    per_day=True,
    upstream=(Upstream(stage="mbp10_snapshots"), Upstream(stage="trades")),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda config: config.quality,
    run=run,
    checks={"snapshots_schema": True, "day_of_records": True} | {rule.name: rule.blocking for rule in RULES},
)
