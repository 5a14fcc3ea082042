"""Whether a day may be built on: rules on its records, and the schema of its snapshot table."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from alpha_pipeline.ingest.quality import RULES, DayFacts, assess_day
from alpha_pipeline.ingest.report import IngestReport, read_report
from alpha_pipeline.ingest.sessions import ALWAYS_OPEN
from alpha_pipeline.ingest.table_tally import SnapshotTally, TradeTally
from alpha_pipeline.ingest.tables import SNAPSHOTS, TRADES, read_slices
from alpha_pipeline.report.market_data import day_figures, day_tables
from alpha_pipeline.results import Check, StageResult
from alpha_pipeline.schemas import validate_slices
from alpha_pipeline.stages.base import Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of

VERSION = "3"


def run(context: StageContext) -> StageResult:
    """Hold the day against the instrument's thresholds; a blocking failure keeps it, and only it, from use."""
    folder = context.upstream("mbp10_snapshots", context.partition)
    report = read_report(folder)
    snapshots = SnapshotTally(context.config.instrument.calendar, context.partition)
    schema = validate_slices("snapshots", _seen(folder / SNAPSHOTS, snapshots))
    tape = context.upstream("trades", context.partition) / TRADES
    facts = DayFacts(report=report, snapshots=snapshots, trades=_tape(tape))
    quality = assess_day(facts, context.config.quality)
    return StageResult(
        metrics={check.name: float(check.figure) for check in quality.checks if check.figure is not None}
        | {
            "rows": float(snapshots.rows),
            "records_read": float(report.records_read),
            "records_kept": float(report.records_kept),
        },
        params={
            "symbol": report.symbol or "none",
            "sessions": _sessions(context, report),
        },
        tables={"rules": quality.table, **day_tables(report, snapshots)},
        figures=day_figures(snapshots) if snapshots.rows else {},
        documents={"ingest_report": report.to_dict()},
        checks=[*schema, *quality.checks, _day_check(report, context.partition)],
        status=quality.status,
    )


def _sessions(context: StageContext, report: IngestReport) -> str:
    always = context.config.instrument.calendar == ALWAYS_OPEN
    return "always open" if always else ", ".join(report.session_dates) or "none"


def _seen(path: Path, tally: SnapshotTally) -> Iterator[pl.DataFrame]:
    for snapshots in read_slices(path):
        tally.see(snapshots)
        yield snapshots


def _tape(path: Path) -> TradeTally:
    tally = TradeTally()
    for trades in read_slices(path):
        tally.see(trades)
    return tally


def _day_check(report: IngestReport, day: str) -> Check:
    """A file whose name lies about its day could put the same records into training and test."""
    dates = report.utc_dates or report.left_out_dates
    holds = not dates or day in dates
    return Check(
        name="day_of_records",
        passed=holds,
        figure=float(not holds),
        threshold=0.0,
        description=f"whether name and records disagree: the file's name says {day}, its records are of "
        f"{' to '.join(dates) or 'no day'}",
        blocking=True,
    )


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
