"""Counters over the instrument's records in file order."""

import numpy as np

from alpha_pipeline.ingest.records import MBP10_DTYPE, words

COUNTS = (
    "bad_ts_recv",
    "maybe_bad_book",
    "snapshot_records",
    "duplicates",
    "ts_recv_backward",
    "largest_backward_ns",
    "ts_event_backward",
    "sequence_gaps",
    "largest_sequence_gap",
    "sequence_resets",
)
"""Fields of IngestReport, in the order of the compiled counters."""


class FileOrderTally:
    """Order of times and sequence numbers, and flags, as the files have them."""

    def __init__(self) -> None:
        from alpha_pipeline.ingest.record_scan import tally

        self._tally = tally
        self._counts = np.zeros(len(COUNTS), dtype=np.int64)
        self._last = np.empty(0, dtype=MBP10_DTYPE)

    @property
    def counts(self) -> dict[str, int]:
        """Each of COUNTS."""
        return dict(zip(COUNTS, self._counts.tolist(), strict=True))

    def see(self, records: np.ndarray) -> None:
        """Count the next records, [n] MBP10_DTYPE with n > 0."""
        self._tally(words(records, np.int64), words(self._last, np.int64), self._counts)
        self._last = records[-1:].copy()
