"""Decision points: what the functions of the feature catalogue may look at."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alpha_pipeline.features.bars import TIME


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Consecutive decision points, with what each segment's past has left in them. Nothing here lies ahead
    of its row.

    Attributes:
        ts: [R] int64, ts_recv in ns.
        ts_event: [R] int64 ns.
        segment: [R] int32.
        first: [R] bool, whether the row opens its segment.
        event_index: [R] int64, index among the day's good snapshots.
        book: [R, 10, 4] int32, per level (bid price, ask price in ticks, bid size, ask size in lots).
        orders: [R, 10, 2] int32, order counts (bid, ask), to be ignored where the size is 0.
        mid2: [R] int32 half ticks.
        interval: [R, 11] int64, `bars.IntervalTracker.COLUMNS`.
        flows: [R, 8] int64 since the previous row, `order_flow.FLOWS`.
        flow_changes: [R, 8] int64, flows minus those of the previous row.
        dynamics: [R, 5] float64, `dynamics.DynamicsTracker`.
    """

    ts: NDArray[np.int64]
    ts_event: NDArray[np.int64]
    segment: NDArray[np.int32]
    first: NDArray[np.bool_]
    event_index: NDArray[np.int64]
    book: NDArray[np.int32]
    orders: NDArray[np.int32]
    mid2: NDArray[np.int32]
    interval: NDArray[np.int64]
    flows: NDArray[np.int64]
    flow_changes: NDArray[np.int64]
    dynamics: NDArray[np.float64]

    @property
    def size(self) -> int:
        return len(self.ts)

    @property
    def duration_ns(self) -> NDArray[np.int64]:
        """[R] int64, time since the previous row, 0 on a segment's first."""
        return np.ascontiguousarray(self.interval[:, TIME])
