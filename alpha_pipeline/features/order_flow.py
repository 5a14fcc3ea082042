"""Order-flow imbalance per level, traded flow, and their changes from row to row.

Equation, level k, between consecutive good events (primed = the earlier one), with bids b, B and asks a, A
as price and size:

    e_k = [b >= b'] B - [b <= b'] B' - [a <= a'] A + [a >= a'] A'

Source: Cont, Kukanov, Stoikov 2014 (touch); Xu, Gould, Howison 2019 (deeper levels).

Absent levels: an absent bid is a bid of size 0 below every price, an absent ask is an ask of size 0 above
every price. So a bid that appears adds B and one that vanishes subtracts B'; an ask the other way round;
absent to absent is 0.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_core.shapes import LEVELS, UNDEFINED_TICKS
from alpha_pipeline.features.events import EventBlock, Prints
from alpha_pipeline.features.rows import Rows

FLOWS = 8
"""ofi_1 .. ofi_5, ofi_6_10, signed volume (lots), buys minus sells (trades)."""


class FlowTracker:
    """Sums flows over the interval since the previous row, exactly, in int64."""

    def __init__(self) -> None:
        self._book = np.zeros((LEVELS, 4), np.int32)
        self._pending = np.zeros(FLOWS + 1, np.int64)
        self._previous = np.zeros(FLOWS, np.int64)

    def push(self, block: EventBlock, marks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Flows of the block's rows.

        Args:
            block: the next good events.
            marks: [M] bool, which of them are rows.

        Returns:
            [R, 17] int64: 8 flows, 8 changes of flow since the previous row, number of trades. All 0 on a
            segment's first row.
        """
        out = np.empty((int(marks.sum()), 2 * FLOWS + 1), np.int64)
        _sum_flows(
            block.book, block.first, marks, block.prints, self._book, self._pending, self._previous, out
        )
        return out


def raw_ofi(rows: Rows) -> NDArray[np.int64]:
    """The 8 flows since the previous row, [R, 8], in the order of the catalogue."""
    return rows.flows


def delta_ofi(rows: Rows) -> NDArray[np.int64]:
    """The 8 flows minus their values on the previous row, [R, 8]."""
    return rows.flow_changes


@njit(cache=True)
def _bid_flow(price: np.int64, size: np.int64, old_price: np.int64, old_size: np.int64) -> np.int64:
    """Change of demand at one level; UNDEFINED_TICKS already lies below every price."""
    flow = np.int64(0)
    if price >= old_price:
        flow += size
    if price <= old_price:
        flow -= old_size
    return flow


@njit(cache=True)
def _ask_flow(price: np.int64, size: np.int64, old_price: np.int64, old_size: np.int64) -> np.int64:
    """Change of supply at one level: demand with prices mirrored, an absent ask staying below every price."""
    mirrored = -price if price != UNDEFINED_TICKS else price
    old_mirrored = -old_price if old_price != UNDEFINED_TICKS else old_price
    return _bid_flow(mirrored, size, old_mirrored, old_size)


@njit(cache=True)
def _add_book_flow(book: NDArray[np.int32], old: NDArray[np.int32], pending: NDArray[np.int64]) -> None:
    for level in range(LEVELS):
        now, then = book[level], old[level]
        flow = _bid_flow(np.int64(now[0]), np.int64(now[2]), np.int64(then[0]), np.int64(then[2]))
        flow -= _ask_flow(np.int64(now[1]), np.int64(now[3]), np.int64(then[1]), np.int64(then[3]))
        pending[min(level, 5)] += flow


@njit(cache=True)
def _sum_flows(
    book: NDArray[np.int32],
    first: NDArray[np.bool_],
    marks: NDArray[np.bool_],
    prints: Prints,
    last_book: NDArray[np.int32],
    pending: NDArray[np.int64],
    previous: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    size, side, start = prints.size, prints.side, prints.start
    row = 0
    for j in range(len(first)):
        if first[j]:
            pending[:] = 0
            previous[:] = 0
        else:
            _add_book_flow(book[j], book[j - 1] if j else last_book, pending)
            for t in range(start[j], start[j + 1]):
                pending[6] += side[t] * size[t]
                pending[7] += side[t]
                pending[8] += 1
        if marks[j]:
            for k in range(FLOWS):
                out[row, k] = pending[k]
                out[row, FLOWS + k] = pending[k] - previous[k]
                previous[k] = pending[k]
            out[row, 2 * FLOWS] = pending[8]
            pending[:] = 0
            row += 1
    if len(first):
        last_book[:] = book[-1]
