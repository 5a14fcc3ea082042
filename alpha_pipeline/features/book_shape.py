"""Features of one book, without memory: spread, microprice, imbalances, depth, book aggression.

b_i, a_i are prices in ticks and B_i, A_i sizes at level i; m = (b_1 + a_1) / 2. An absent level has size 0,
hence no weight. Every ratio of the form (x - y) / (x + y) is 0 when x + y is 0.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_core.shapes import LEVELS
from alpha_pipeline.features.rows import Rows

COLUMNS = 11


def book_shape(rows: Rows) -> NDArray[np.float64]:
    """The 11 book-shape features, [R, 11], in the order of the catalogue."""
    out = np.empty((rows.size, COLUMNS), np.float64)
    _describe(rows.book, rows.orders, out)
    return out


@njit(cache=True)
def _contrast(x: float, y: float) -> float:
    total = x + y
    return (x - y) / total if total != 0.0 else 0.0


@njit(cache=True)
def _per(amount: float, count: float) -> float:
    return amount / count if count > 0.0 else 0.0


@njit(cache=True)
def _side_sums(
    book: NDArray[np.int32], orders: NDArray[np.int32], side: int
) -> tuple[np.int64, np.int64, np.int64]:
    """Size, size x distance from the mid (half ticks), and order count of one side, exactly."""
    mid2 = np.int64(book[0, 0]) + np.int64(book[0, 1])
    depth, moment, count = np.int64(0), np.int64(0), np.int64(0)
    for level in range(LEVELS):
        size = np.int64(book[level, 2 + side])
        if size > 0:
            depth += size
            moment += size * abs(2 * np.int64(book[level, side]) - mid2)
            count += orders[level, side]
    return depth, moment, count


@njit(cache=True)
def _describe(book: NDArray[np.int32], orders: NDArray[np.int32], out: NDArray[np.float64]) -> None:
    for r in range(len(book)):
        touch = book[r, 0]
        spread = float(touch[1] - touch[0])
        out[r, 0] = spread
        out[r, 1] = 0.5 * spread * _contrast(float(touch[2]), float(touch[3]))
        for level in range(5):
            out[r, 2 + level] = _contrast(float(book[r, level, 2]), float(book[r, level, 3]))
        bid_depth, bid_moment, bid_count = _side_sums(book[r], orders[r], 0)
        ask_depth, ask_moment, ask_count = _side_sums(book[r], orders[r], 1)
        out[r, 7] = _contrast(float(bid_depth), float(ask_depth))
        out[r, 8] = np.log1p(float(bid_depth + ask_depth))
        out[r, 9] = _contrast(
            _per(float(ask_moment), float(ask_depth)), _per(float(bid_moment), float(bid_depth))
        )
        if bid_count > 0 and ask_count > 0:
            out[r, 10] = _contrast(bid_depth / bid_count, ask_depth / ask_count)
        else:
            out[r, 10] = 0.0
