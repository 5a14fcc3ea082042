"""Samplers, and what a row says about the interval since the row before it.

A row closes the interval (previous row, this row] of its segment. A segment's first row has no interval: it
opens with its own mid, lasts 0 ns, and has no raw_open.
"""

from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_pipeline.features.config import SamplerConfig
from alpha_pipeline.features.events import EventBlock


class Sampler(Protocol):
    """Chooses rows among good events, seeing each once and none ahead; a segment's first event is a row."""

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        """[M] bool, whether each event of the next block is a row."""
        ...


class EveryEvent:
    """Every n-th good event of a segment: its positions 0, n, 2n, ..."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._position = 0

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        index = np.arange(block.size)
        opened = np.maximum.accumulate(np.where(block.first, index, -1))
        position = np.where(opened >= 0, index - opened, index + self._position)
        if block.size:
            self._position = int(position[-1]) + 1
        return position % self._n == 0


class ClockGrid:
    """The first good event in each cell of a grid of the given width, anchored at the UTC epoch, by ts_recv.

    The *last* event of a cell would need the next event to be recognised, hence look ahead.
    """

    def __init__(self, milliseconds: int) -> None:
        self._width = milliseconds * 1_000_000
        self._cell = 0

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        cell = block.ts // self._width
        marked = block.first | (np.diff(cell, prepend=self._cell) != 0)
        if block.size:
            self._cell = int(cell[-1])
        return marked


def make_sampler(config: SamplerConfig) -> Sampler:
    """The sampler a configuration names, at the start of a day."""
    return EveryEvent(config.n) if config.kind == "every_event" else ClockGrid(config.milliseconds)


class IntervalTracker:
    """Follows opens, last trade and duration from row to row.

    The state holds, as int64: whether a trade came since the last row, the first such price, whether the
    segment has traded, its last price, and the mid (half ticks) and time (ns) of the last row.
    """

    COLUMNS = ("has_open", "raw_open", "has_last", "last_trade", "mid_open", "duration_ns")

    def __init__(self) -> None:
        self._state = np.zeros(6, np.int64)

    def push(self, block: EventBlock, marks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """[R, 6] int64, COLUMNS of the block's rows; prices in ticks, mid_open in half ticks."""
        out = np.empty((int(marks.sum()), 6), np.int64)
        _follow(
            block.ts, block.mid2, block.first, marks, block.trades.price, block.trade_start, self._state, out
        )
        return out


@njit(cache=True)
def _follow(
    ts: NDArray[np.int64],
    mid2: NDArray[np.int32],
    first: NDArray[np.bool_],
    marks: NDArray[np.bool_],
    price: NDArray[np.int32],
    trade_start: NDArray[np.int64],
    state: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    row = 0
    for j in range(len(ts)):
        if first[j]:
            state[0] = state[2] = 0
            state[4], state[5] = mid2[j], ts[j]
        begin, end = trade_start[j], trade_start[j + 1]
        if end > begin:
            if state[0] == 0 and not first[j]:
                state[0], state[1] = 1, price[begin]
            state[2], state[3] = 1, price[end - 1]
        if marks[j]:
            out[row, 0] = state[0]
            out[row, 1] = state[1] if state[0] else 0
            out[row, 2] = state[2]
            out[row, 3] = state[3] if state[2] else 0
            out[row, 4] = state[4]
            out[row, 5] = ts[j] - state[5]
            state[0], state[4], state[5] = 0, mid2[j], ts[j]
            row += 1
