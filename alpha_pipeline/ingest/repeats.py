"""Records that several files of one day hold: an unpacked copy, two downloads that overlap."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.records import MBP10_DTYPE, take

WHOLE_RECORD = np.dtype((np.void, MBP10_DTYPE.itemsize))
MOST_HELD = 1 << 16
"""Records of one receive time beyond which they are compared with those of their own chunks only."""


class Repeats:
    """Compares records of one receive time across files; memory holds those of one time beside a chunk.

    Two records of one file are never compared: a source may tell the same thing twice and mean it.
    """

    def __init__(self, files: int, starts: Sequence[int]) -> None:
        """`starts` are the numbers of records before each of the files, added to as the files are read."""
        self._starts = starts
        self._shared = np.zeros((files, files), dtype=np.int64)
        self._held = np.empty(0, dtype=MBP10_DTYPE)
        self._held_files = np.empty(0, dtype=np.int64)

    @property
    def count(self) -> int:
        """Records of a file that a file before it holds as well."""
        return int(self._shared.sum())

    def see(self, records: np.ndarray, places: np.ndarray) -> None:
        """Compare the next records.

        Args:
            records: [n] MBP10_DTYPE, n > 0, by receive time.
            places: [n] int64, the place of each in the order of the files.
        """
        if len(self._shared) < 2:
            return
        files = np.searchsorted(np.asarray(self._starts), places, side="right") - 1
        records = np.concatenate([self._held, records])
        files = np.concatenate([self._held_files, files])
        times = records["ts_recv"]
        last = int(np.searchsorted(times, times[-1]))
        last = last if len(times) - last <= MOST_HELD else len(times)
        self._compare(records[:last], files[:last])
        self._held, self._held_files = records[last:].copy(), files[last:]

    def finish(self) -> None:
        """Compare what was held back until the next receive time."""
        self._compare(self._held, self._held_files)
        self._held = self._held[:0]

    def refuse(self, kept: Mapping[Path, int]) -> None:
        """Refuse a file that tells nothing which another one does not.

        Args:
            kept: the instrument's records by file, in order.

        Raises:
            InputError: names both.
        """
        paths = list(kept)
        for one, other in np.argwhere(self._shared):
            less, more = sorted((paths[other], paths[one]), key=kept.__getitem__)
            if self._shared[one, other] == kept[less]:
                raise InputError(
                    f"{less} repeats {kept[less]} records, all that it has of the instrument, which {more} holds as "
                    "well: remove it"
                )

    def _compare(self, records: np.ndarray, files: np.ndarray) -> None:
        """Count by pair of files what both hold, each copy once; whole receive times only."""
        if not len(files) or files.min() == files.max():
            return
        begins = np.flatnonzero(np.diff(records["ts_recv"], prepend=records["ts_recv"][0] + np.uint64(1)))
        mixed = np.minimum.reduceat(files, begins) < np.maximum.reduceat(files, begins)
        rows = np.flatnonzero(np.repeat(mixed, np.diff(begins, append=len(files))))
        if not len(rows):
            return
        whole = np.ascontiguousarray(take(records, rows)).view(WHOLE_RECORD)
        _, content = np.unique(whole, return_inverse=True)
        code, copies = np.unique(content * len(self._shared) + files[rows], return_counts=True)
        content, file = np.divmod(code, len(self._shared))
        first = np.searchsorted(content, content)
        later = np.flatnonzero(first < np.arange(len(first)))
        pairs = file[first[later]], file[later]
        np.add.at(self._shared, pairs, np.minimum(copies[first[later]], copies[later]))
