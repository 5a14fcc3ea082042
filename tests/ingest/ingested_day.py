"""An ingested day as frames."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from alpha_pipeline.ingest import SNAPSHOTS, TRADES, IngestReport, open_table
from alpha_pipeline.ingest.table_tally import TableTally


@dataclass(frozen=True)
class Day:
    """An ingested day."""

    report: IngestReport
    snapshots: pl.DataFrame
    trades: pl.DataFrame


def tallied(snapshots: pl.DataFrame, day: str = "2024-03-06", calendar: str = "24/7") -> TableTally:
    """What the quality rules see of a snapshot table, shown to them in three slices."""
    tally = TableTally(calendar, day)
    step = max(1, snapshots.height // 3)
    for low in range(0, snapshots.height, step):
        tally.see(snapshots[low : low + step])
    return tally


def load(out: Path, report: IngestReport) -> Day:
    snapshots, trades = (pl.from_arrow(open_table(out / name)) for name in (SNAPSHOTS, TRADES))
    assert isinstance(snapshots, pl.DataFrame)
    assert isinstance(trades, pl.DataFrame)
    return Day(report, snapshots, trades)
