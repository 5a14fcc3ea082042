"""What a row says about the interval since the row before it: the columns of a bar.

A row closes the interval (previous row, this row] of its segment. A segment's first row has no interval: it
opens with its own mid, lasts 0 ns, and has no trades.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_core.errors import DataError
from alpha_pipeline.features.events import EventBlock, Prints

TRADED, RAW_OPEN, HIGH, LOW, VOLUME, NOTIONAL, SIGNED, HAS_LAST, LAST, MID, TIME = range(11)
"""Places in the state. TRADED to SIGNED are of the open interval: number of trades, first, highest and lowest
price, lots, ticks times lots, lots bought minus lots sold. The others are of the segment: whether it has traded,
its last price, and the mid (half ticks) and time (ns) of the last row."""

NOTIONAL_MAX = 2**62
"""Below it one more trade (price and size within their own bounds) cannot wrap int64."""


class IntervalTracker:
    """Follows what is traded, opens and durations from row to row, exactly, in int64.

    A bar's close is `last_trade` where `trades` is not 0, its volume-weighted price `notional / volume`.
    """

    COLUMNS = (
        "trades",
        "raw_open",
        "high",
        "low",
        "volume",
        "notional",
        "signed_volume",
        "has_last",
        "last_trade",
        "mid_open",
        "duration_ns",
    )

    def __init__(self) -> None:
        self._state = np.zeros(len(self.COLUMNS), np.int64)

    def push(self, block: EventBlock, marks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """[R, 11] int64, COLUMNS of the block's rows; prices in ticks, mid_open in half ticks; 0 where absent.

        Raises:
            DataError: the notional of one interval exceeds NOTIONAL_MAX.
        """
        out = np.empty((int(marks.sum()), len(self.COLUMNS)), np.int64)
        if not _follow(block.ts, block.mid2, block.first, marks, block.prints, self._state, out):
            raise DataError(
                f"ticks times lots traded between two rows exceed {NOTIONAL_MAX}; use a finer sampler, or a "
                "larger lot_size if the source is a depth log"
            )
        return out


@njit(cache=True)
def _add(state: NDArray[np.int64], price: np.int64, size: np.int64, side: np.int64) -> bool:
    if state[TRADED] == 0:
        state[RAW_OPEN] = state[HIGH] = state[LOW] = price
    state[TRADED] += 1
    state[HIGH] = max(state[HIGH], price)
    state[LOW] = min(state[LOW], price)
    state[VOLUME] += size
    state[NOTIONAL] += price * size
    state[SIGNED] += side * size
    return abs(state[NOTIONAL]) <= NOTIONAL_MAX


@njit(cache=True)
def _follow(
    ts: NDArray[np.int64],
    mid2: NDArray[np.int32],
    first: NDArray[np.bool_],
    marks: NDArray[np.bool_],
    prints: Prints,
    state: NDArray[np.int64],
    out: NDArray[np.int64],
) -> bool:
    price, size, side, start = prints
    row, fits = 0, True
    for j in range(len(ts)):
        if first[j]:
            state[:] = 0
            state[MID], state[TIME] = mid2[j], ts[j]
        begin, end = start[j], start[j + 1]
        if not first[j]:
            for t in range(begin, end):
                fits &= _add(state, np.int64(price[t]), size[t], np.int64(side[t]))
        if end > begin:
            state[HAS_LAST], state[LAST] = 1, price[end - 1]
        if marks[j]:
            out[row] = state
            out[row, TIME] = ts[j] - state[TIME]
            state[:HAS_LAST] = 0
            state[MID], state[TIME] = mid2[j], ts[j]
            row += 1
    return fits
