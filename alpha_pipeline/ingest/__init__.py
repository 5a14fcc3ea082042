"""From raw market-data files to the canonical snapshot and trade tables."""

from alpha_pipeline.ingest.config import IngestConfig, QualityThresholds
from alpha_pipeline.ingest.day import ingest_day
from alpha_pipeline.ingest.report import FileReport, IngestReport, read_report
from alpha_pipeline.ingest.tables import REPORT, SNAPSHOTS, TRADES, open_table

__all__ = [
    "REPORT",
    "SNAPSHOTS",
    "TRADES",
    "FileReport",
    "IngestConfig",
    "IngestReport",
    "QualityThresholds",
    "ingest_day",
    "open_table",
    "read_report",
]
