"""An ingested day as frames."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from alpha_pipeline.ingest import SNAPSHOTS, TRADES, IngestReport, open_table


@dataclass(frozen=True)
class Day:
    """An ingested day."""

    report: IngestReport
    snapshots: pl.DataFrame
    trades: pl.DataFrame


def load(out: Path, report: IngestReport) -> Day:
    snapshots, trades = (pl.from_arrow(open_table(out / name)) for name in (SNAPSHOTS, TRADES))
    assert isinstance(snapshots, pl.DataFrame)
    assert isinstance(trades, pl.DataFrame)
    return Day(report, snapshots, trades)
