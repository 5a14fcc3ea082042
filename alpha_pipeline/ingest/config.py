"""Knobs of the ingestion and the thresholds a day must meet."""

from dataclasses import dataclass, fields
from typing import ClassVar

from alpha_core.errors import ConfigError

FRACTIONS = (
    "max_crossed_fraction",
    "max_one_sided_fraction",
    "max_skipped_fraction",
    "max_bad_timestamp_fraction",
    "max_backward_fraction",
    "max_suspect_fraction",
    "max_duplicate_fraction",
    "max_repeated_fraction",
    "max_sequence_gap_fraction",
    "max_off_tick_fraction",
    "max_outside_touch_fraction",
    "max_zero_size_fraction",
    "min_session_coverage",
)


@dataclass(frozen=True, kw_only=True)
class IngestConfig:
    """How records become tables.

    Attributes:
        chunk_records: records held in memory at a time (368 bytes each, several copies in flight).
        max_event_records: longest event believed; beyond it the end-of-event flag is not in use.
        segment_gap_seconds: a silence longer than this starts a new segment.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    chunk_records: int = 16384
    max_event_records: int = 65536
    segment_gap_seconds: float = 600.0

    def __post_init__(self) -> None:
        problems = []
        if not 16 <= self.chunk_records <= 1 << 20:
            problems.append(f"chunk_records was {self.chunk_records}, must be in [16, {1 << 20}]")
        if not 1 <= self.max_event_records <= 1 << 20:
            problems.append(f"max_event_records was {self.max_event_records}, must be in [1, {1 << 20}]")
        if not 0 < self.segment_gap_seconds <= 86400:
            problems.append(f"segment_gap_seconds was {self.segment_gap_seconds}, must be in (0, 86400]")
        if problems:
            raise ConfigError("ingest: " + "; ".join(problems))


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """The section `[source]`: where an instrument's raw files lie.

    Attributes:
        raw: folder or URL (`s3://bucket/prefix`, `file:///folder`); a relative path starts at the workspace. Empty
            for `data/raw/<instrument>`.
        spool_gib: bound on local copies of files that are read by URL, in GiB; those being read may exceed it.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    raw: str = ""
    spool_gib: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.spool_gib < float("inf"):
            raise ConfigError(f"source: spool_gib was {self.spool_gib}, must be positive and finite")


@dataclass(frozen=True, kw_only=True)
class QualityThresholds:
    """What a day must meet before anything is built on it.

    A bound that rejects the day is one behind which features, labels or fills would be wrong; the others warn a
    person (see `quality.RULES`).

    Attributes:
        min_rows: snapshots with a good book; rejects.
        min_trades: trades in the tape; rejects.
        max_crossed_fraction: share of snapshots in session whose book is locked or crossed; rejects.
        max_one_sided_fraction: share of snapshots in session with an empty side; rejects.
        max_suspect_fraction: share of snapshots in session whose book the source marks as possibly wrong; rejects.
        max_skipped_fraction: share of the instrument's records that could not be used (off the price grid,
            unknown action, undefined time); rejects.
        max_off_tick_fraction: share of the instrument's records off the price grid; rejects, since more than a
            stray one means a wrong `tick_size`.
        max_bad_timestamp_fraction: share of the instrument's records whose receive time the source distrusts.
        max_backward_fraction: share of the instrument's records that arrived out of receive-time order.
        max_duplicate_fraction: share of the instrument's records that repeat the one before byte for byte.
        max_repeated_fraction: share of the instrument's records that an earlier file of the day holds as well;
            rejects, since their trades count twice.
        max_sequence_gap_fraction: share of the instrument's records behind a hole in the sequence numbers;
            all of them by default, since a channel shared with other instruments has holes everywhere.
        max_outside_touch_fraction: share of trades above the best ask or below the best bid that they met. An
            order that sweeps levels, or a book that is published more slowly than its trades, brings such trades
            (3 % on a futures feed, 57 % where books come every 100 ms); a tape that does not belong to its book
            brings more.
        max_zero_size_fraction: share of trades of size 0.
        min_session_coverage: share of the date's minutes in session that have a snapshot; not asked for by default,
            since files of a few hours are legitimate.
        max_gap_seconds: longest silence inside a session.
        max_span_hours: hours from the first row to the last; rejects, since two days in one file may lie on both
            sides of the border between training and test. A recorder that cuts by a local date with summer time
            needs 25.
        max_truncated_files: files of the day that may end inside a record or a compressed frame; rejects.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    min_rows: int = 500
    min_trades: int = 10
    max_crossed_fraction: float = 0.05
    max_one_sided_fraction: float = 0.05
    max_suspect_fraction: float = 0.05
    max_skipped_fraction: float = 0.001
    max_off_tick_fraction: float = 0.0001
    max_bad_timestamp_fraction: float = 0.01
    max_backward_fraction: float = 0.01
    max_duplicate_fraction: float = 0.001
    max_repeated_fraction: float = 0.001
    max_sequence_gap_fraction: float = 1.0
    max_outside_touch_fraction: float = 0.75
    max_zero_size_fraction: float = 0.001
    min_session_coverage: float = 0.0
    max_gap_seconds: float = 3600.0
    max_span_hours: float = 24.0
    max_truncated_files: int = 0

    def __post_init__(self) -> None:
        problems = [
            f"{field.name} was {getattr(self, field.name)}, must be in [0, 1]"
            for field in fields(self)
            if field.name in FRACTIONS and not 0 <= getattr(self, field.name) <= 1
        ]
        problems += [
            f"{name} was {getattr(self, name)}, must be at least 0"
            for name in ("min_rows", "min_trades", "max_truncated_files")
            if getattr(self, name) < 0
        ]
        problems += [
            f"{name} was {getattr(self, name)}, must be positive and finite"
            for name in ("max_gap_seconds", "max_span_hours")
            if not 0 < getattr(self, name) < float("inf")
        ]
        if problems:
            raise ConfigError("quality: " + "; ".join(problems))
