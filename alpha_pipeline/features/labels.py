"""Labels: the change of the mid in half ticks over h good snapshots.

Horizons count the day's good snapshots, not rows. A label is null when its horizon leaves the segment. A
change of 0 is a tie: it is kept here, counted, and masked where labels are used.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alpha_core.shapes import HORIZONS


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Changes [R, 5] int32 in half ticks, 0 where `valid` [R, 5] bool is False."""

    change: NDArray[np.int32]
    valid: NDArray[np.bool_]

    def ties(self) -> dict[int, int]:
        """Number of valid labels without change, by horizon."""
        flat = self.valid & (self.change == 0)
        return {h: int(flat[:, k].sum()) for k, h in enumerate(HORIZONS)}

    def nulls(self) -> dict[int, int]:
        """Number of labels whose horizon leaves the segment, by horizon."""
        return {h: int((~self.valid[:, k]).sum()) for k, h in enumerate(HORIZONS)}


def compute_labels(
    mid2: NDArray[np.int32], segment_starts: NDArray[np.int64], event_index: NDArray[np.int64]
) -> Labels:
    """Looks up the mid of each row and of the good snapshot h later.

    Args:
        mid2: [G] int32, mids of all good snapshots of the day in half ticks.
        segment_starts: [S] int64, index of each segment's first good snapshot, increasing.
        event_index: [R] int64, index of each row among the good snapshots.
    """
    ends = np.append(segment_starts[1:], len(mid2))
    end = (
        ends[np.searchsorted(segment_starts, event_index, side="right") - 1]
        if len(event_index)
        else event_index
    )
    change = np.zeros((len(event_index), len(HORIZONS)), np.int32)
    valid = np.zeros((len(event_index), len(HORIZONS)), np.bool_)
    for k, horizon in enumerate(HORIZONS):
        ahead = event_index + horizon
        valid[:, k] = ahead < end
        inside = valid[:, k]
        change[inside, k] = mid2[ahead[inside]] - mid2[event_index[inside]]
    return Labels(change=change, valid=valid)


class LabelTracker:
    """The same labels block by block: those of a row are known once the longest horizon, or the end of the
    row's segment, is. Keeps the mids from the oldest waiting row on, and those alone.

    Attributes:
        ties: valid labels without change so far, by horizon.
        nulls: labels whose horizon leaves the segment so far, by horizon.
    """

    def __init__(self) -> None:
        self._mid2 = np.empty(0, np.int32)
        self._base = 0
        self._starts = np.empty(0, np.int64)
        self._waiting = np.empty(0, np.int64)
        self.ties = dict.fromkeys(HORIZONS, 0)
        self.nulls = dict.fromkeys(HORIZONS, 0)

    def push(
        self, mid2: NDArray[np.int32], first: NDArray[np.bool_], event_index: NDArray[np.int64]
    ) -> Labels:
        """Labels of the rows that the next events complete, in row order.

        Args:
            mid2: [M] int32, mids of the next good events in half ticks.
            first: [M] bool, whether each opens its segment.
            event_index: [R] int64, index of each row among them, counted from the day's first good event.
        """
        start = self._base + len(self._mid2)
        self._mid2 = np.concatenate([self._mid2, mid2])
        self._starts = np.concatenate([self._starts, start + np.flatnonzero(first)])
        self._waiting = np.concatenate([self._waiting, event_index])
        known = start + len(mid2) - HORIZONS[-1]
        closed = int(self._starts[-1]) if len(self._starts) else 0
        return self._emit(int(np.searchsorted(self._waiting, max(known, closed))))

    def finish(self) -> Labels:
        """Labels of the rows that still wait, at the end of the day."""
        return self._emit(len(self._waiting))

    def _emit(self, count: int) -> Labels:
        done, self._waiting = self._waiting[:count], self._waiting[count:]
        labels = compute_labels(self._mid2, self._starts - self._base, done - self._base)
        self.ties = {h: n + self.ties[h] for h, n in labels.ties().items()}
        self.nulls = {h: n + self.nulls[h] for h, n in labels.nulls().items()}
        self._forget()
        return labels

    def _forget(self) -> None:
        """Drop what no waiting row, and no row to come, looks at; the last segment's start stays."""
        oldest = int(self._waiting[0]) if len(self._waiting) else self._base + len(self._mid2)
        self._mid2 = self._mid2[oldest - self._base :]
        self._base = oldest
        needed = max(int(np.searchsorted(self._starts, oldest, side="right")) - 1, 0)
        self._starts = self._starts[needed:]
