"""The instrument's usable records over all files of a day, in file order or sorted, chunk by chunk."""

import hashlib
import mmap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np

from alpha_pipeline.ingest.events import ACTION_INDEX, SIDE_INDEX
from alpha_pipeline.ingest.raw import Chunks, RawFile
from alpha_pipeline.ingest.records import MBP10_DTYPE, take, words
from alpha_pipeline.ingest.report import OTHER, FileReport
from alpha_pipeline.ingest.source import open_raw
from alpha_pipeline.ingest.symbology import Listing
from alpha_pipeline.instrument import InstrumentSpec

REASONS = ("usable", OTHER, "undefined_timestamp", "outside_mapping", "unknown_action")
"""What `record_scan.judge` says of a record, by number."""

UNMAPPED = "unmapped_instrument"
"""Records of ids that no mapping of their file names: they may be the instrument's, and nobody knows."""

KNOWN_LETTERS = np.stack([ACTION_INDEX >= 0, SIDE_INDEX >= 0])


class RecordReader:
    """Reads the files once and keeps account of what it leaves out.

    Attributes:
        sources: reports of the files read to their end.
        instruments: MBP-10 records by instrument id.
        skipped: MBP-10 records left out, by reason.
        given: usable records given out so far.
        starts: what was given before each file that was begun.
        left_out_ns: first and last receive time of the instrument's records that have one and are left out.
    """

    def __init__(
        self,
        listings: Mapping[Path, Sequence[Listing]],
        digests: Mapping[Path, str],
        spec: InstrumentSpec,
        chunk_records: int,
    ) -> None:
        self._listings = listings
        self._spec = spec
        self._digests = digests
        self._chunk_records = chunk_records
        self.sources: list[FileReport] = []
        self.instruments: Counter[int] = Counter()
        self.skipped: Counter[str] = Counter()
        self.given = 0
        self.starts: list[int] = []
        self.left_out_ns: tuple[int, int] | None = None

    def records(self) -> Chunks:
        """Chunks [n] MBP10_DTYPE, n > 0; a chunk holds while the next is made, not longer."""
        for path, listings in self._listings.items():
            self.starts.append(self.given)
            intervals, before = _intervals(listings), self.instruments.copy()
            with open_raw(path, self._spec, list(self._listings)) as file:
                for records in file.chunks(self._chunk_records):
                    kept = self._usable(np.ascontiguousarray(records), intervals)
                    self.given += len(kept)
                    if len(kept):
                        yield kept
                self._tell_unmapped(self.instruments - before, {one.instrument_id for one in file.listings})
                self.sources.append(self._report(file))

    def _report(self, file: RawFile) -> FileReport:
        return FileReport(
            name=file.path.name,
            bytes=file.path.stat().st_size,
            sha256=self._digests[file.path],
            version=file.version,
            records=file.records_read,
            skipped_by_type=dict(file.skipped_by_type),
            trailing_bytes=file.trailing_bytes,
            truncated=file.truncated,
            counts=dict(file.counts),
        )

    def _tell_unmapped(self, instruments: Counter[int], mapped: Set[int]) -> None:
        """Of a whole file's records of other ids, those that no mapping names; some come in its body."""
        unmapped = sum(count for number, count in instruments.items() if number not in mapped)
        if unmapped:
            self.skipped[UNMAPPED] += unmapped
            self.skipped[OTHER] -= unmapped
            self.skipped = +self.skipped

    def _usable(self, records: np.ndarray, intervals: np.ndarray) -> np.ndarray:
        """The records to be used, without a copy when that is all of them."""
        from alpha_pipeline.ingest.record_scan import OUTSIDE_MAPPING, judge

        verdicts = np.empty(len(records), dtype=np.uint8)
        alike = judge(words(records, np.int64), intervals, KNOWN_LETTERS, verdicts)
        self._count_instruments(records["instrument_id"][: 1 if alike else None], len(records))
        if not verdicts.any():
            return records
        counts = np.bincount(verdicts).tolist()
        self.skipped.update({reason: n for reason, n in zip(REASONS[1:], counts[1:], strict=False) if n})
        self._note_times(records["ts_recv"][verdicts >= OUTSIDE_MAPPING])
        return take(records, np.flatnonzero(verdicts == 0))

    def _note_times(self, times: np.ndarray) -> None:
        if len(times):
            known = self.left_out_ns or (int(times[0]), int(times[0]))
            self.left_out_ns = min(known[0], int(times.min())), max(known[1], int(times.max()))

    def _count_instruments(self, ids: np.ndarray, records: int) -> None:
        """`ids` of all records, or the one that all of them have."""
        if len(ids) == 1:
            self.instruments[int(ids[0])] += records
            return
        for value, count in zip(*np.unique(ids, return_counts=True), strict=True):
            self.instruments[int(value)] += int(count)


def _intervals(listings: Sequence[Listing]) -> np.ndarray:
    """Instrument id and times of each listing, [L, 3] uint64."""
    rows = [(listing.instrument_id, listing.start_ns, listing.end_ns) for listing in listings]
    return np.array(rows, dtype=np.uint64).reshape(len(rows), 3)


def as_given(chunks: Iterator[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same chunks, each with the places of its records in the whole, [n] int64."""
    given = 0
    for records in chunks:
        yield records, np.arange(given, given + len(records))
        given += len(records)


def sorted_by_time(
    chunks: Iterator[np.ndarray], spool: Path, chunk_records: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same records in receive-time order, ties in the order given, with the places they had.

    The records lie on disk meanwhile; memory holds one time and one index per record (16 bytes).

    Args:
        chunks: [n] MBP10_DTYPE each.
        spool: path of a temporary file, which the caller removes.
        chunk_records: records per chunk given back.
    """
    times = [np.empty(0, np.uint64)]
    with spool.open("wb") as file:
        for records in chunks:
            times.append(np.array(records["ts_recv"]))
            file.write(np.ascontiguousarray(records).data)
    order = np.argsort(np.concatenate(times), kind="stable")
    del times
    if not len(order):
        return
    with spool.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        stored = np.frombuffer(pages, dtype=MBP10_DTYPE)
        for start in range(0, len(order), chunk_records):
            places = order[start : start + chunk_records]
            chunk = take(stored, places)
            pages.madvise(
                mmap.MADV_DONTNEED
            )  # pages that were looked at would count as memory of the process
            yield chunk, places
        del stored


def ahead(chunks: Chunks) -> Iterator[np.ndarray]:
    """The same chunks, the next one made by a thread while the caller works on the last."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ingest-decode") as pool, closing(chunks):
        try:
            following = pool.submit(next, chunks, None)
            while (chunk := following.result()) is not None:
                following = pool.submit(next, chunks, None)
                yield chunk
        finally:
            # a generator cannot be closed while the thread is inside it
            pool.shutdown()


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
