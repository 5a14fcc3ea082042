"""What happened to every record of a day. Nothing is left out of the tables without a line here."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alpha_core.errors import InputError
from alpha_pipeline.ingest.tables import REPORT

OK, EMPTY = "ok", "empty"

OTHER = "other_instrument"
"""Reason for leaving out a record that its file maps to another symbol: no loss, unlike all other reasons."""

LISTS = ("instrument_ids", "utc_dates", "left_out_dates", "session_dates")
"""Fields of IngestReport that are tuples here and lists in JSON."""


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """One source file.

    Attributes:
        name: file name without folder.
        bytes: size of the file.
        sha256: digest of the file's bytes.
        version: version of the file format.
        records: records of all types.
        skipped_by_type: records of other types than MBP-10.
        trailing_bytes: bytes after the last whole record.
        truncated: the file ends inside a record or a compressed frame.
        counts: what else the source counted, by name (orders it does not know, updates it dropped, ...).
    """

    name: str
    bytes: int
    sha256: str
    version: int
    records: int
    skipped_by_type: Mapping[str, int]
    trailing_bytes: int
    truncated: bool
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class IngestReport:
    """One day of one instrument. Times are nanoseconds since 1970 UTC, None when there are no rows.

    `records_read` = `records_kept` + sum of `skipped` + sum of `skipped_by_type`.

    Attributes:
        instrument: name of the instrument.
        status: "ok", or "empty" when no snapshot came out (a holiday, another instrument's day).
        sources: the files, in the order read.
        symbol: the raw symbol used; None when no file maps one.
        instrument_ids: ids that symbol had.
        candidates: traded volume and records of each symbol that matched, when there were several.
        instruments: records by instrument id, over all MBP-10 records of the files.
        records_read: records of all types.
        records_kept: records of the instrument that went into an event.
        skipped: MBP-10 records left out, by reason; "other_instrument" are those that the file maps to another
            symbol, "unmapped_instrument" those whose id it maps to none.
        skipped_by_type: records of other types.
        snapshots: rows of the snapshot table.
        trades: rows of the trade tape.
        trades_without_price: trade records with an undefined price.
        one_sided: snapshots in session with an empty side.
        locked: snapshots in session whose best bid equals the best ask.
        crossed: snapshots in session whose best bid is above the best ask.
        suspect: snapshots in session whose book the source marks as possibly wrong.
        closed: snapshots outside of any session, whatever their book.
        bad_ts_recv: records whose receive time the source distrusts.
        maybe_bad_book: records that the source marks as possibly wrong after a loss.
        snapshot_records: records that come from a snapshot rather than from an event.
        duplicates: records equal in all bytes to the one before (kept).
        repeats: records that an earlier file of the day holds as well (kept).
        ts_recv_backward: records received before the one that precedes them in the file.
        largest_backward_ns: largest such step.
        ts_event_backward: records whose event time lies before that of the one that precedes them.
        reordered: whether rows were sorted by receive time, file order breaking ties.
        sequence_gaps: forward jumps of the sequence number by more than one, usual in a shared channel.
        largest_sequence_gap: largest such jump.
        sequence_resets: steps back of the sequence number.
        segments: uninterrupted stretches.
        breaks: what interrupted them, by reason.
        largest_gap_ns: longest silence inside a session.
        largest_gap_at: when it began.
        outside_session: records outside of any session.
        first_ts_recv: receive time of the first snapshot.
        last_ts_recv: receive time of the last snapshot.
        utc_dates: UTC dates of the first and the last snapshot.
        left_out_dates: UTC dates of the first and the last of the instrument's records that have a time and were
            left out as unknown or outside the dates of its mapping.
        session_dates: dates of the sessions that the snapshots touch.
    """

    instrument: str
    status: str
    sources: tuple[FileReport, ...]
    symbol: str | None = None
    instrument_ids: tuple[int, ...] = ()
    candidates: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    instruments: Mapping[str, int] = field(default_factory=dict)
    records_read: int = 0
    records_kept: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    skipped_by_type: Mapping[str, int] = field(default_factory=dict)
    snapshots: int = 0
    trades: int = 0
    trades_without_price: int = 0
    one_sided: int = 0
    locked: int = 0
    crossed: int = 0
    suspect: int = 0
    closed: int = 0
    bad_ts_recv: int = 0
    maybe_bad_book: int = 0
    snapshot_records: int = 0
    duplicates: int = 0
    repeats: int = 0
    ts_recv_backward: int = 0
    largest_backward_ns: int = 0
    ts_event_backward: int = 0
    reordered: bool = False
    sequence_gaps: int = 0
    largest_sequence_gap: int = 0
    sequence_resets: int = 0
    segments: int = 0
    breaks: Mapping[str, int] = field(default_factory=dict)
    largest_gap_ns: int = 0
    largest_gap_at: int | None = None
    outside_session: int = 0
    first_ts_recv: int | None = None
    last_ts_recv: int | None = None
    utc_dates: tuple[str, ...] = ()
    left_out_dates: tuple[str, ...] = ()
    session_dates: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of the snapshot table."""
        return self.snapshots

    @property
    def empty(self) -> bool:
        """Whether the day has no snapshot."""
        return self.status == EMPTY

    @property
    def span_ns(self) -> int:
        """Time from the first snapshot to the last."""
        first, last = self.first_ts_recv, self.last_ts_recv
        return 0 if first is None or last is None else last - first

    @property
    def truncated(self) -> bool:
        """Whether any source file was cut."""
        return any(source.truncated for source in self.sources)

    @property
    def source_digests(self) -> dict[str, str]:
        """SHA-256 of each source file by name."""
        return {source.name: source.sha256 for source in self.sources}

    @property
    def records_of_instrument(self) -> int:
        """Records of the instrument, used or not; those that no mapping names count, since they may be."""
        return self.records_read - sum(self.skipped_by_type.values()) - self.skipped.get(OTHER, 0)

    @property
    def losses(self) -> dict[str, int]:
        """The instrument's records that could not be used, by reason, the most frequent first."""
        lost = [(reason, count) for reason, count in self.skipped.items() if reason != OTHER and count]
        return dict(sorted(lost, key=lambda one: -one[1]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; integers stay exact."""
        return asdict(self)


def read_report(day: Path) -> IngestReport:
    """The report stored beside a day's tables.

    Args:
        day: the folder that `ingest_day` wrote.

    Raises:
        InputError: there is none, so the folder holds no whole day, or it is not a report of this version.
    """
    path = day / REPORT
    try:
        raw = json.loads(path.read_text())
        sources = tuple(FileReport(**source) for source in raw.pop("sources"))
        lists = {name: tuple(raw.pop(name)) for name in LISTS}
        return IngestReport(sources=sources, **lists, **raw)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is not a readable ingest report ({error}): ingest the day again") from error
