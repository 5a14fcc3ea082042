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
