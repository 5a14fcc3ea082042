"""One day of one instrument: its files in, two tables and a report out, all of them or none.

The day is read in chunks and never held whole. Three things cost a further pass, and only when needed:
several symbols match (their traded volume decides), a file maps its symbols in the body, or records are not
in receive-time order (they are then spooled to disk and sorted by time, file order breaking ties).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.config import IngestConfig
from alpha_pipeline.ingest.events import CLOSED, CROSSED, EMPTY_SIDE, LOCKED, SUSPECT, EventFolder
from alpha_pipeline.ingest.reader import RecordReader, ahead, as_given, digest, sorted_by_time
from alpha_pipeline.ingest.repeats import Repeats
from alpha_pipeline.ingest.report import EMPTY, OK, IngestReport
from alpha_pipeline.ingest.segments import Segmenter
from alpha_pipeline.ingest.selection import Selection, choose
from alpha_pipeline.ingest.tables import DayWriter
from alpha_pipeline.ingest.tally import FileOrderTally
from alpha_pipeline.instrument import InstrumentSpec

NANOS_PER_SECOND = 10**9
SPOOL = "records"


def ingest_day(
    paths: Sequence[Path], spec: InstrumentSpec, out: Path, *, config: IngestConfig | None = None
) -> IngestReport:
    """Write `snapshots.arrow`, `trades.arrow` and `ingest_report.json` of one day into `out`.

    Args:
        paths: all files of the day, in order; records are sorted by receive time when they need it.
        spec: the instrument.
        out: folder of the day, made when absent; what it holds is replaced only by a whole day.
        config: knobs, the defaults when None.

    Raises:
        InputError: a file cannot be read as MBP-10, does not list the instrument, does not mark event ends,
            lies off the instrument's price grid, or repeats another one. Nothing is left behind in `out`.
    """
    config = config or IngestConfig()
    digests = _digests(paths, spec)
    selection = choose(paths, spec, config.chunk_records)
    for by_time in (False, True):
        report = _Pass(selection, digests, spec, config, by_time=by_time).run(out)
        if report is not None:
            return report
    raise AssertionError("records sorted by time are in order")


class _Pass:
    """One reading of the files, given up when it turns out that the records must be sorted first."""

    def __init__(
        self,
        selection: Selection,
        digests: Mapping[Path, str],
        spec: InstrumentSpec,
        config: IngestConfig,
        *,
        by_time: bool,
    ) -> None:
        label = " and ".join(str(path) for path in digests)
        self._selection = selection
        self._spec = spec
        self._config = config
        self._by_time = by_time
        self._label = label
        self._reader = RecordReader(selection.listings, digests, spec, config.chunk_records)
        self._tally = FileOrderTally()
        self._repeats = Repeats(len(digests), self._reader.starts)
        self._segmenter = Segmenter(spec.calendar, round(config.segment_gap_seconds * NANOS_PER_SECOND))
        self._folder = EventFolder(spec.tick_nanos, config.max_event_records, label)

    def run(self, out: Path) -> IngestReport | None:
        """Write the day; None, and nothing written, when records must be sorted first."""
        with DayWriter(out) as writer:
            for records, places in self._chunks(writer):
                if not self._by_time and self._disordered:
                    return None
                self._repeats.see(records, places)
                for name, batch in self._folder.push(records, self._segmenter.stretches(records)):
                    writer.write(name, batch)
            if not self._by_time and self._disordered:
                return None
            for name, batch in self._folder.finish():
                writer.write(name, batch)
            self._refuse_repeats()
            report = self._report()
            self._refuse_wrong_grid(report)
            writer.publish(report.to_dict())
        return report

    @property
    def _disordered(self) -> bool:
        return self._tally.counts["ts_recv_backward"] > 0

    def _chunks(self, writer: DayWriter) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if not self._by_time:
            return as_given(self._seen())
        return sorted_by_time(self._seen(), writer.scratch(SPOOL), self._config.chunk_records)

    def _seen(self) -> Iterator[np.ndarray]:
        for records in ahead(self._reader.records()):
            self._tally.see(records)
            yield records

    def _refuse_repeats(self) -> None:
        self._repeats.finish()
        bounds = [*self._reader.starts, self._reader.given]
        kept = [after - before for before, after in pairwise(bounds)]
        self._repeats.refuse(dict(zip(self._selection.listings, kept, strict=True)))

    def _report(self) -> IngestReport:
        folder, segmenter, sources = self._folder, self._segmenter, tuple(self._reader.sources)
        skipped = self._reader.skipped + folder.skipped
        by_type = sum((Counter(source.skipped_by_type) for source in sources), Counter[str]())
        read = sum(source.records for source in sources)
        first, last = folder.times or (None, None)
        return IngestReport(
            instrument=self._spec.name,
            status=OK if folder.snapshots else EMPTY,
            sources=sources,
            symbol=self._selection.symbol,
            instrument_ids=self._selection.instrument_ids,
            candidates={symbol: asdict(done) for symbol, done in self._selection.candidates.items()},
            instruments={str(number): count for number, count in sorted(self._reader.instruments.items())},
            records_read=read,
            records_kept=read - skipped.total() - by_type.total(),
            skipped=dict(skipped),
            skipped_by_type=dict(by_type),
            snapshots=folder.snapshots,
            trades=folder.trades,
            trades_without_price=folder.trades_without_price,
            one_sided=folder.rows_in(EMPTY_SIDE),
            locked=folder.rows_in(LOCKED),
            crossed=folder.rows_in(CROSSED),
            suspect=folder.rows_in(SUSPECT),
            closed=folder.rows_in(CLOSED),
            **self._tally.counts,
            repeats=self._repeats.count,
            reordered=self._by_time,
            segments=folder.segments,
            breaks={reason: count for reason, count in segmenter.breaks.items() if count},
            largest_gap_ns=segmenter.largest_gap_ns,
            largest_gap_at=segmenter.largest_gap_at,
            outside_session=segmenter.outside_session,
            first_ts_recv=first,
            last_ts_recv=last,
            utc_dates=_utc_dates(folder.times),
            left_out_dates=_utc_dates(self._reader.left_out_ns),
            session_dates=self._session_dates(first, last),
        )

    def _session_dates(self, first: int | None, last: int | None) -> tuple[str, ...]:
        if first is None or last is None:
            return ()
        return tuple(dict.fromkeys(self._segmenter.sessions.dates_of(first, last)))

    def _refuse_wrong_grid(self, report: IngestReport) -> None:
        off = report.skipped.get("off_tick", 0)
        if off and report.empty:
            raise InputError(
                f"{self._label} has no record whose prices lie on the tick {self._spec.tick_size} of "
                f"instrument {self._spec.name} ({off} lie off it): mend `tick_size`"
            )


def _utc_dates(ends_ns: tuple[int, int] | None) -> tuple[str, ...]:
    """The UTC dates of a first and a last time."""
    dates = [f"{datetime.fromtimestamp(ns // NANOS_PER_SECOND, UTC):%Y-%m-%d}" for ns in ends_ns or ()]
    return tuple(dict.fromkeys(dates))


def _digests(paths: Sequence[Path], spec: InstrumentSpec) -> dict[Path, str]:
    """Digest of each file; the same bytes twice would count every trade twice."""
    if not paths:
        raise InputError(f"no file was given for {spec.name}: name at least one")
    digests: dict[Path, str] = {}
    known: dict[str, Path] = {}
    for path in paths:
        try:
            value = digest(path)
        except OSError as error:
            raise InputError(
                f"{path} cannot be read ({error}): check that it exists and may be read"
            ) from error
        if value in known:
            raise InputError(f"{path} holds the same bytes as {known[value]}: remove one of them")
        digests[path] = value
        known[value] = path
    return digests
