"""Counters over the instrument's records in file order."""

from dataclasses import dataclass

import numpy as np

from alpha_pipeline.ingest.records import Flag


@dataclass
class FileOrderTally:
    """Order of times and sequence numbers, and flags, as the files have them; fields as in IngestReport."""

    bad_ts_recv: int = 0
    maybe_bad_book: int = 0
    snapshot_records: int = 0
    duplicates: int = 0
    ts_recv_backward: int = 0
    largest_backward_ns: int = 0
    ts_event_backward: int = 0
    sequence_gaps: int = 0
    largest_sequence_gap: int = 0
    sequence_resets: int = 0

    def __post_init__(self) -> None:
        self._last: np.ndarray | None = None

    def see(self, records: np.ndarray) -> None:
        """Count the next records, [n] MBP10_DTYPE with n > 0."""
        self._flags(records["flags"])
        last = records[:0] if self._last is None else self._last
        recv = _steps(last, records, "ts_recv")
        event = _steps(last, records, "ts_event")
        sequence = _steps(last, records, "sequence")
        self._times(recv, event)
        self._sequence(sequence)
        self._duplicates(last, records, np.flatnonzero((recv == 0) & (event == 0) & (sequence == 0)))
        self._last = records[-1:].copy()

    def _flags(self, flags: np.ndarray) -> None:
        self.bad_ts_recv += int(np.count_nonzero(flags & Flag.BAD_TS_RECV))
        self.maybe_bad_book += int(np.count_nonzero(flags & Flag.MAYBE_BAD_BOOK))
        self.snapshot_records += int(np.count_nonzero(flags & Flag.SNAPSHOT))

    def _times(self, recv: np.ndarray, event: np.ndarray) -> None:
        self.ts_recv_backward += int(np.count_nonzero(recv < 0))
        self.largest_backward_ns = max(self.largest_backward_ns, -int(recv.min(initial=0)))
        self.ts_event_backward += int(np.count_nonzero(event < 0))

    def _sequence(self, steps: np.ndarray) -> None:
        """Signed 64-bit steps: a restart of the 32-bit counter is a step back, never a gap of 2**32."""
        self.sequence_gaps += int(np.count_nonzero(steps > 1))
        self.largest_sequence_gap = max(self.largest_sequence_gap, int(steps.max(initial=0)))
        self.sequence_resets += int(np.count_nonzero(steps < 0))

    def _duplicates(self, last: np.ndarray, records: np.ndarray, suspects: np.ndarray) -> None:
        """Compare whole records, but only where times and sequence do not differ."""
        if not len(suspects):
            return
        second = suspects + 1 - len(last)
        pairs = np.stack([records[second - 1], records[second]])
        if second[0] == 0:
            pairs[0, 0] = last[0]
        same = pairs.view(np.uint8).reshape(2, len(suspects), -1)
        self.duplicates += int(np.count_nonzero((same[0] == same[1]).all(axis=1)))


def _steps(last: np.ndarray, records: np.ndarray, field: str) -> np.ndarray:
    """Differences int64 from each record to the next, the last one of before included."""
    return np.diff(np.concatenate([last[field], records[field]]).astype(np.int64))
