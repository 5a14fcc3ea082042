"""The compiled part of event folding: every record is read once and goes straight into the columns.

A record is seen as the 46 words of 8 bytes that it takes in memory. Integers only, and without Python's lock.
Arguments that most functions share: `records` int64 [n, 46] and the index `i` of one; `row` of the columns it goes to.
"""

from typing import NamedTuple

import numba
import numpy as np

from alpha_core.shapes import LEVELS
from alpha_pipeline.ingest.event_columns import (
    ACTION,
    ASK,
    ASK_CT,
    ASK_SZ,
    BID,
    BID_CT,
    BID_SZ,
    EVENT,
    FLAGS,
    INSTRUMENT_ID,
    PRICE,
    RECV,
    SEQUENCE,
    SIDE,
    SIZE,
    STATE,
    TOUCH_ASK,
    TOUCH_BID,
    SnapshotColumns,
    TradeColumns,
)
from alpha_pipeline.ingest.events import (
    ACTION_INDEX,
    AGGRESSOR,
    CLOSED,
    CROSSED,
    EMPTY_SIDE,
    GOOD,
    LOCKED,
    SIDE_INDEX,
    SUSPECT,
    TRADE,
)
from alpha_pipeline.ingest.records import (
    ACTION_BIT,
    BYTE,
    EVENT_WORD,
    FLAGS_BIT,
    ID_WORD,
    LEVEL_WORD,
    LEVEL_WORDS,
    PRICE_WORD,
    RECV_WORD,
    SEQUENCE_WORD,
    SIDE_BIT,
    UNDEF_PRICE,
    UPPER_BIT,
    WHAT_WORD,
)

LAST, MAYBE_BAD_BOOK = 0x80, 0x04
TOO_LONG = -1
COUNTERS = 18
(
    ROWS,  # rows of the snapshot columns in use
    TAPE,  # rows of the trade columns that belong to ended events
    PENDING,  # rows behind them, whose event has not ended
    OPEN,  # records of the event that has not ended
    OPENED,  # sequence number of its first record
    SNAPSHOTS,  # rows of the snapshot table so far
    TRADES,  # rows of the trade tape so far
    SEGMENT,  # number of the current segment, -1 before the first
    EPOCH,  # epoch of the last snapshot
    OFF_GRID,  # records that show a price between two ticks
    UNFINISHED,  # trades that a break separates from the end of their event
    PRICELESS,  # trades without a price
    STATES,  # snapshots by book state, from here on
) = range(13)


class Grid(NamedTuple):
    """The multiples of a tick, and how to divide by it without a division.

    An odd number has an inverse modulo 2**64, so that one multiplication finds the only candidate for the
    quotient; it is the quotient when it lies where quotients of 64-bit numbers do.
    Source: Granlund and Montgomery 1994, section 9; Warren, Hacker's Delight, 10-17.

    Attributes:
        shift: the tick is an odd number shifted to the left so far.
        inverse: of that odd number.
        lowest: its least quotient.
        highest: its greatest quotient.
    """

    shift: int
    inverse: int
    lowest: int
    highest: int

    @classmethod
    def of(cls, tick: int) -> "Grid":
        """The grid of a tick of at least 1."""
        shift = (tick & -tick).bit_length() - 1
        odd = tick >> shift
        inverse = pow(odd, -1, 1 << 64)
        signed = inverse - (1 << 64) if inverse >> 63 else inverse
        return cls(shift=shift, inverse=signed, lowest=-((1 << 63) // odd), highest=((1 << 63) - 1) // odd)


@numba.njit(cache=True, nogil=True)
def fold(
    records: np.ndarray,
    epochs: np.ndarray,
    closed: np.ndarray,
    at: int,
    snapshots: SnapshotColumns,
    trades: TradeColumns,
    rooms: tuple[int, int],
    progress: np.ndarray,
    grid: Grid,
    longest: int,
) -> int:
    """Fold records from `at` on until all are done or the next one may find no room.

    Args:
        records: int64 [n, 46].
        epochs: int64 [n].
        closed: bool [n].
        at: first record to fold.
        snapshots: filled from progress[ROWS] on.
        trades: filled behind the rows in use.
        rooms: rows that the columns of snapshots and of trades have.
        progress: int64 [COUNTERS], see above.
        grid: of the instrument's tick.
        longest: records that an event may have.

    Returns:
        Number of records done, or TOO_LONG.
    """
    times, prices, numbers, sizes, letters, segments = snapshots
    for i in range(at, len(records)):
        what = records[i, WHAT_WORD]
        trade, ends = (what >> ACTION_BIT) & BYTE == TRADE, (what >> FLAGS_BIT) & LAST != 0
        row, place = progress[ROWS], progress[TAPE] + progress[PENDING]
        if row == rooms[0] or place == rooms[1]:
            return i
        on_grid = not ends or _put_book(records, i, prices, row, grid)
        if trade:
            on_grid &= _put_touch(records, i, trades.prices, place, grid)
        if not on_grid:
            progress[OFF_GRID] += 1
            continue
        if not progress[OPEN]:
            progress[OPENED] = records[i, SEQUENCE_WORD] >> UPPER_BIT
        progress[OPEN] += 1
        if trade:
            _put_head(records, i, trades.times, trades.numbers, place)
            trades.aggressors[0, place] = AGGRESSOR[(what >> SIDE_BIT) & BYTE]
            trades.epochs[0, place] = epochs[i]
            progress[PENDING] += 1
        if ends:
            if progress[PENDING] and not _settle(
                trades.epochs, trades.prices, trades.rows, progress, epochs[i]
            ):
                _sift(trades, progress, epochs[i])
            _put_head(records, i, times, numbers, row)
            _put_letters(what, letters, row)
            _put_sizes(records, i, sizes, row)
            if epochs[i] != progress[EPOCH]:
                progress[EPOCH] = epochs[i]
                progress[SEGMENT] += 1
            suspect = (what >> FLAGS_BIT) & MAYBE_BAD_BOOK != 0
            state = CLOSED if closed[i] else SUSPECT if suspect else _state(prices, sizes, row)
            letters[STATE, row] = state
            segments[0, row] = progress[SEGMENT]
            progress[STATES + state] += 1
            progress[SNAPSHOTS] += 1
            progress[ROWS] += 1
            progress[OPEN] = 0
        elif progress[OPEN] > longest:
            return TOO_LONG
    return len(records)


@numba.njit(cache=True, nogil=True, inline="always")
def _put_book(records: np.ndarray, i: int, prices: np.ndarray, row: int, grid: Grid) -> bool:
    """The prices of a snapshot; False when one lies off the grid."""
    on_grid = _put_ticks(records[i, PRICE_WORD], prices, PRICE, row, grid)
    for level in range(LEVELS):
        word = LEVEL_WORD + LEVEL_WORDS * level
        on_grid &= _put_ticks(records[i, word], prices, BID + level, row, grid)
        on_grid &= _put_ticks(records[i, word + 1], prices, ASK + level, row, grid)
    return on_grid


@numba.njit(cache=True, nogil=True, inline="always")
def _put_touch(records: np.ndarray, i: int, prices: np.ndarray, row: int, grid: Grid) -> bool:
    """The prices of a trade; False when one lies off the grid."""
    on_grid = _put_ticks(records[i, PRICE_WORD], prices, PRICE, row, grid)
    on_grid &= _put_ticks(records[i, LEVEL_WORD], prices, TOUCH_BID, row, grid)
    return on_grid & _put_ticks(records[i, LEVEL_WORD + 1], prices, TOUCH_ASK, row, grid)


@numba.njit(cache=True, nogil=True, inline="always")
def _put_ticks(price: int, prices: np.ndarray, column: int, row: int, grid: Grid) -> bool:
    """One price in ticks, an undefined one as it is; False when it lies off the grid."""
    shifted = price >> grid.shift
    ticks = shifted * grid.inverse
    undefined = price == UNDEF_PRICE
    prices[column, row] = UNDEF_PRICE if undefined else ticks
    return undefined | ((shifted << grid.shift == price) & (grid.lowest <= ticks) & (ticks <= grid.highest))


@numba.njit(cache=True, nogil=True, inline="always")
def _put_letters(what: int, letters: np.ndarray, row: int) -> None:
    letters[ACTION, row] = ACTION_INDEX[(what >> ACTION_BIT) & BYTE]
    letters[SIDE, row] = SIDE_INDEX[(what >> SIDE_BIT) & BYTE]
    letters[FLAGS, row] = (what >> FLAGS_BIT) & BYTE


@numba.njit(cache=True, nogil=True, inline="always")
def _put_sizes(records: np.ndarray, i: int, sizes: np.ndarray, row: int) -> None:
    for level in range(LEVELS):
        word = LEVEL_WORD + LEVEL_WORDS * level
        size, count = records[i, word + 2], records[i, word + 3]
        sizes[BID_SZ + level, row] = size
        sizes[ASK_SZ + level, row] = size >> UPPER_BIT
        sizes[BID_CT + level, row] = count
        sizes[ASK_CT + level, row] = count >> UPPER_BIT


@numba.njit(cache=True, nogil=True, inline="always")
def _put_head(records: np.ndarray, i: int, times: np.ndarray, numbers: np.ndarray, row: int) -> None:
    times[EVENT, row] = records[i, EVENT_WORD]
    times[RECV, row] = records[i, RECV_WORD]
    numbers[SEQUENCE, row] = records[i, SEQUENCE_WORD] >> UPPER_BIT
    numbers[INSTRUMENT_ID, row] = records[i, ID_WORD] >> UPPER_BIT
    numbers[SIZE, row] = records[i, WHAT_WORD]


@numba.njit(cache=True, nogil=True, inline="always")
def _settle(
    epochs: np.ndarray, prices: np.ndarray, rows: np.ndarray, progress: np.ndarray, epoch: int
) -> bool:
    """Give the pending trades the row of the snapshot to come; False when some of them must be sifted out first."""
    first, end = progress[TAPE], progress[TAPE] + progress[PENDING]
    for place in range(first, end):
        if epochs[0, place] != epoch or prices[PRICE, place] == UNDEF_PRICE:
            return False
        rows[0, place] = progress[SNAPSHOTS]
    progress[TAPE] = end
    progress[TRADES] += end - first
    progress[PENDING] = 0
    return True


@numba.njit(cache=True, nogil=True)
def _sift(trades: TradeColumns, progress: np.ndarray, epoch: int) -> None:
    """The same, without trades that have no price or that a break separates from the end of their event."""
    first, count = progress[TAPE], progress[PENDING]
    progress[PENDING] = 0
    for source in range(first, first + count):
        if trades.epochs[0, source] != epoch:
            progress[UNFINISHED] += 1
        elif trades.prices[PRICE, source] == UNDEF_PRICE:
            progress[PRICELESS] += 1
        else:
            _move(trades, source, progress[TAPE])
            trades.rows[0, progress[TAPE]] = progress[SNAPSHOTS]
            progress[TAPE] += 1
            progress[TRADES] += 1


@numba.njit(cache=True, nogil=True)
def _move(trades: TradeColumns, source: int, target: int) -> None:
    """Copy what the table has of a trade, but its row."""
    for column in range(len(trades.times)):
        trades.times[column, target] = trades.times[column, source]
    for column in range(len(trades.prices)):
        trades.prices[column, target] = trades.prices[column, source]
    for column in range(len(trades.numbers)):
        trades.numbers[column, target] = trades.numbers[column, source]
    trades.aggressors[0, target] = trades.aggressors[0, source]


@numba.njit(cache=True, nogil=True, inline="always")
def _state(prices: np.ndarray, sizes: np.ndarray, row: int) -> int:
    """State of a book by its touch; a side is empty without a price or without a size there."""
    bid, ask = prices[BID, row], prices[ASK, row]
    if UNDEF_PRICE in (bid, ask) or sizes[BID_SZ, row] == 0 or sizes[ASK_SZ, row] == 0:
        return EMPTY_SIDE
    return GOOD if bid < ask else LOCKED if bid == ask else CROSSED
