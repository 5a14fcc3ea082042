"""An ingested day as frames."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from alpha_pipeline.ingest import SNAPSHOTS, TRADES, IngestReport, open_table
from alpha_pipeline.ingest.quality import DayFacts
from alpha_pipeline.ingest.table_tally import SnapshotTally, TradeTally


@dataclass(frozen=True)
class Day:
    """An ingested day."""

    report: IngestReport
    snapshots: pl.DataFrame
    trades: pl.DataFrame


def slices(table: pl.DataFrame) -> list[pl.DataFrame]:
    """A table in three or four pieces."""
    step = max(1, table.height // 3)
    return [table[low : low + step] for low in range(0, table.height, step)]


def tallied(snapshots: pl.DataFrame, day: str = "2024-03-06", calendar: str = "24/7") -> SnapshotTally:
    """What the quality rules see of a snapshot table, shown to them in slices."""
    tally = SnapshotTally(calendar, day)
    for part in slices(snapshots):
        tally.see(part)
    return tally


def facts(day: Day, key: str = "2024-03-06", calendar: str = "24/7") -> DayFacts:
    """What the quality rules see of a day."""
    tape = TradeTally()
    for part in slices(day.trades):
        tape.see(part)
    return DayFacts(report=day.report, snapshots=tallied(day.snapshots, key, calendar), trades=tape)


def load(out: Path, report: IngestReport) -> Day:
    snapshots, trades = (pl.from_arrow(open_table(out / name)) for name in (SNAPSHOTS, TRADES))
    assert isinstance(snapshots, pl.DataFrame)
    assert isinstance(trades, pl.DataFrame)
    return Day(report, snapshots, trades)
