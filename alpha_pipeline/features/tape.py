"""What trades and cancels did between a row and the next: the `tape` block that the market environment
replays.

Layout: `alpha_core.market.data.TAPE_WIDTH`. A tape row looks ahead of its decision point by design: the
environment reveals it only after the decision.

Cancelled size at the touch price p of row i, on its side: the sum, over the events of the interval, of
decreases of the displayed size at p that trades at p do not explain. A trade explains a decrease in its own
event or, where a venue sends the trade before the book change, the next change of the displayed size at p.
Trades of the opposite or unknown aggressor explain. p is visible while it is a level, or lies inside the
range of levels shown (then its size is 0); while it is not visible nothing is counted.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_core.errors import DataError
from alpha_core.market.data import TAPE_OFFSETS, TAPE_SIDE, TAPE_WIDTH
from alpha_core.shapes import LEVELS, UNDEFINED_TICKS
from alpha_pipeline.features.events import EventBlock, Prints
from alpha_pipeline.features.tables import INT32_MAX

CANCELS = 2 * TAPE_SIDE
EXTREME = TAPE_OFFSETS
COUNT = TAPE_OFFSETS + 1

OPEN, PRICE, SHOWN, CREDIT = 0, 1, 3, 5
"""Places in the state: is a row open; then, per side, touch price, displayed size, unmatched traded size."""


def empty_tape(rows: int) -> NDArray[np.int32]:
    """[rows, 22] int32, intervals in which nothing happened."""
    tape = np.zeros((rows, TAPE_WIDTH), np.int32)
    tape[:, [EXTREME, TAPE_SIDE + EXTREME]] = UNDEFINED_TICKS
    return tape


class TapeTracker:
    """Emits the tape of each row once the next row of its segment, or the end of the segment, is known."""

    def __init__(self) -> None:
        self._state = np.zeros(7, np.int64)
        self._current = empty_tape(1)[0].astype(np.int64)

    def push(self, block: EventBlock, marks: NDArray[np.bool_]) -> NDArray[np.int32]:
        """[K, 22] int32, the tapes that the block completes, in row order.

        Raises:
            DataError: a volume in one interval exceeds int32.
        """
        out = np.empty((int(marks.sum()) + 1, TAPE_WIDTH), np.int64)
        done = _replay(block.book, block.first, marks, block.prints, self._state, self._current, out)
        if out[:done].max(initial=0) > INT32_MAX:
            raise DataError(
                "the size traded or cancelled between two rows exceeds 2147483647 lots; use a finer sampler, "
                "or a larger lot_size if the source is a depth log"
            )
        return out[:done].astype(np.int32)

    def finish(self) -> NDArray[np.int32]:
        """[0 or 1, 22] int32, the empty tape of the day's last row."""
        return empty_tape(int(self._state[OPEN]))


@njit(cache=True)
def _displayed(book: NDArray[np.int32], j: int, side: int, price: np.int64) -> np.int64:
    """Size that event j shows at a price, -1 when its book does not reach that far."""
    sign = 1 - 2 * side
    for level in range(LEVELS):
        quoted = np.int64(book[j, level, side])
        if quoted == price:
            return np.int64(book[j, level, 2 + side])
        if quoted == UNDEFINED_TICKS or sign * quoted < sign * price:
            return np.int64(0)
    return np.int64(-1)


@njit(cache=True)
def _add_trade(
    current: NDArray[np.int64], state: NDArray[np.int64], price: np.int64, size: np.int64, side: np.int64
) -> None:
    if side <= 0 and price == state[PRICE]:
        state[CREDIT] += size
    if side >= 0 and price == state[PRICE + 1]:
        state[CREDIT + 1] += size
    if side == 0:
        return
    base = 0 if side > 0 else TAPE_SIDE
    offset = price - state[PRICE + 1] if side > 0 else state[PRICE] - price
    if offset >= 0:
        current[base + min(offset, TAPE_OFFSETS - 1)] += size
    extreme = current[base + EXTREME]
    if current[base + COUNT] == 0 or side * price > side * extreme:
        current[base + EXTREME] = price
    current[base + COUNT] += 1


@njit(cache=True)
def _add_cancel(
    current: NDArray[np.int64], state: NDArray[np.int64], book: NDArray[np.int32], j: int, side: int
) -> None:
    shown = _displayed(book, j, side, state[PRICE + side])
    before = state[SHOWN + side]
    if shown == before:
        return
    if 0 <= shown < before:
        decrease = before - shown
        current[CANCELS + side] += decrease - min(decrease, state[CREDIT + side])
    state[CREDIT + side] = 0
    state[SHOWN + side] = shown


@njit(cache=True)
def _emit(current: NDArray[np.int64], out: NDArray[np.int64], done: int) -> int:
    for k in range(TAPE_WIDTH):
        out[done, k] = current[k]
    return done + 1


@njit(cache=True)
def _clear(current: NDArray[np.int64]) -> None:
    for k in range(TAPE_WIDTH):
        current[k] = 0
    current[EXTREME] = current[TAPE_SIDE + EXTREME] = UNDEFINED_TICKS


@njit(cache=True)
def _open_row(state: NDArray[np.int64], book: NDArray[np.int32], j: int) -> None:
    """Follows the touch of a new row; unmatched trades stay when the price is still the same."""
    for side in range(2):
        if state[OPEN] == 0 or state[PRICE + side] != book[j, 0, side]:
            state[PRICE + side] = book[j, 0, side]
            state[CREDIT + side] = 0
        state[SHOWN + side] = book[j, 0, 2 + side]
    state[OPEN] = 1


@njit(cache=True)
def _replay(
    book: NDArray[np.int32],
    first: NDArray[np.bool_],
    marks: NDArray[np.bool_],
    prints: Prints,
    state: NDArray[np.int64],
    current: NDArray[np.int64],
    out: NDArray[np.int64],
) -> int:
    price, size, side, start = prints
    done = 0
    for j in range(len(first)):
        if first[j]:
            if state[OPEN]:
                _clear(current)
                done = _emit(current, out, done)
            state[OPEN] = 0
        elif state[OPEN]:
            for t in range(start[j], start[j + 1]):
                _add_trade(current, state, np.int64(price[t]), size[t], np.int64(side[t]))
            _add_cancel(current, state, book, j, 0)
            _add_cancel(current, state, book, j, 1)
        if marks[j]:
            if state[OPEN]:
                done = _emit(current, out, done)
            _clear(current)
            _open_row(state, book, j)
    return done
