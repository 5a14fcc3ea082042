"""Books kept from single orders, and what a ten-level feed would show of them: compiled.

Add, modify, cancel and clear change a book; trade, fill and none never do. A record that cannot be applied as
it stands (an order id that is not known, a price that is not defined, ...) is counted by its reason.

Arrays that most functions share, see their owners: `sides` of Books; `nodes`, `after`, `pool` of Levels; `slots`,
`used` of Orders; `counts`. Below `fold`, functions that take the owners themselves are compiled into their caller:
called, they would count the arrays in and out, which costs more than the work.
"""

from typing import NamedTuple

import numba
import numpy as np

from alpha_pipeline.ingest.order_table import (
    EMPTY,
    LEVEL,
    OWNER,
    Orders,
    next_era,
    put,
    side_of,
    slot_of,
    take_out,
)
from alpha_pipeline.ingest.order_table import SIZE as OPEN_SIZE
from alpha_pipeline.ingest.price_levels import (
    ASK,
    BID,
    KEY,
    NONE,
    ORDERS,
    SIZE,
    Levels,
    key_of,
    level_at,
    levels_before,
    new_node,
    remove_all,
    remove_level,
)

DEPTH = 10
ADD, CANCEL, MODIFY, TRADE, CLEAR = 65, 67, 77, 84, 82  # ASCII of the actions
SIDE_A, SIDE_B = 65, 66
LAST, TOB, SNAPSHOT, MAYBE_BAD_BOOK = 0x80, 0x40, 0x20, 0x04
UNDEF_PRICE = 2**63 - 1
MAX_SIZE = 2**32 - 1
ROW_WORDS, LADDER_WORDS, ORDER_WORDS = 46, 40, 7
LADDER = ROW_WORDS - LADDER_WORDS
LENGTH_AND_TYPE = 92 | 0x0A << 8
"""First two bytes of an MBP-10 record."""

COUNTS = (
    "unknown_orders_cancelled",
    "unknown_orders_modified",
    "known_orders_added",
    "cancelled_beyond_size",
    "orders_without_side",
    "orders_without_price",
    "orders_without_size",
    "level_sizes_beyond_32_bits",
    "events_without_visible_change",
)
(
    UNKNOWN_CANCELLED,
    UNKNOWN_MODIFIED,
    KNOWN_ADDED,
    BEYOND_SIZE,
    NO_SIDE,
    NO_PRICE,
    NO_SIZE,
    BEYOND_32_BITS,
    NOT_VISIBLE,
) = range(len(COUNTS))


SIDE_COLUMNS = 2
HEAD, OWNER_NOW = range(SIDE_COLUMNS)
"""Columns of a side: head node of its levels, present owner number of its orders (see order_table)."""

STATE_COLUMNS = 4
WAITING, SHOWN, SUSPECT, WAS_SUSPECT = range(STATE_COLUMNS)
"""Columns of a book's state: records since the last event end, those of snapshots not counted; whether the event
in progress has given a record; whether one of its records is flagged MAYBE_BAD_BOOK, as that flag; the same of
the last event end that was shown."""


class Books(NamedTuple):
    """State of B books; side 2 b + s belongs to book b, s is 0 for bids and 1 for asks.

    Attributes:
        sides: int64 [2 B, 2].
        states: int64 [B, 4].
        ladders: int64 [B, 40], the ten levels at the last event end that was shown.
        last: int64 [B, 7], last record of the event in progress.
    """

    sides: np.ndarray
    states: np.ndarray
    ladders: np.ndarray
    last: np.ndarray


@numba.njit(cache=True)
def open_book(books: Books, levels: Levels, book: int) -> None:
    """Begin an empty book."""
    for side in (2 * book + BID, 2 * book + ASK):
        books.sides[side, HEAD] = new_node(levels.nodes, levels.after, levels.pool)
        books.sides[side, OWNER_NOW] = side
    show_ladder(levels.nodes, levels.after, books.sides, book, books.ladders[book])


@numba.njit(cache=True)
def fold(
    books: Books,
    levels: Levels,
    orders: Orders,
    counts: np.ndarray,
    records: np.ndarray,
    numbers: np.ndarray,
    rows: np.ndarray,
    longest: int,
) -> int:
    """Apply records and write the MBP-10 records that they give.

    Args:
        books: changed, like all that follows but the records.
        levels: with room for a level a record.
        orders: with room for an order a record.
        counts: int64 [len(COUNTS)].
        records: int64 [n, 7], MBO records as words.
        numbers: int32 [n], book of each record.
        rows: int64 [n, 46], MBP-10 records as words, filled from the start.
        longest: records that an event may have.

    Returns:
        Number of rows written, or -1 - i when record i makes an event longer than that.
    """
    sides, states, ladders, last = books.sides, books.states, books.ladders, books.last
    nodes, after = levels.nodes, levels.after
    written = 0
    for i in range(len(records)):
        book, record = numbers[i], records[i]
        state, row = states[book], rows[written]
        flags, action = (record[4] >> 32) & 0xFF, (record[4] >> 48) & 0xFF
        ends, shows = flags & LAST, action in (TRADE, CLEAR)
        state[SUSPECT] |= flags & MAYBE_BAD_BOOK
        if action in (ADD, CANCEL, MODIFY, CLEAR):
            _apply(books, levels, orders, counts, book, record)
        if shows or ends:
            _write_fields(nodes, after, sides, book, record, flags | state[SUSPECT], row)
            counts[BEYOND_32_BITS] += show_ladder(nodes, after, sides, book, row[LADDER:])
            news = ends and _is_news(state, row[LADDER:], ladders[book])
            written += shows or news
            counts[NOT_VISIBLE] += not (shows or news)
        if ends:
            state[WAITING] = state[SHOWN] = state[SUSPECT] = 0
            continue
        state[SHOWN] |= shows
        state[WAITING] += not flags & SNAPSHOT
        last[book] = record
        if state[WAITING] > longest:
            return -1 - i
    return written


@numba.njit(cache=True)
def write_unfinished(books: Books, levels: Levels, counts: np.ndarray, book: int, row: np.ndarray) -> bool:
    """Write the last record of an event that has not ended; False when there is none."""
    state, record = books.states[book], books.last[book]
    if not state[WAITING]:
        return False
    flags = (record[4] >> 32) & 0xFF | state[SUSPECT]
    _write_fields(levels.nodes, levels.after, books.sides, book, record, flags, row)
    counts[BEYOND_32_BITS] += show_ladder(levels.nodes, levels.after, books.sides, book, row[LADDER:])
    return True


@numba.njit(cache=True)
def _is_news(state: np.ndarray, ladder: np.ndarray, shown: np.ndarray) -> bool:
    """Whether the end of an event has something to show, which is then noted as shown."""
    news = state[SHOWN] != 0 or state[SUSPECT] != state[WAS_SUSPECT]
    for at in range(LADDER_WORDS):
        news |= ladder[at] != shown[at]
    if news:
        shown[:] = ladder
        state[WAS_SUSPECT] = state[SUSPECT]
    return news


@numba.njit(cache=True)
def _side_of_letter(letter: int) -> int:
    return BID if letter == SIDE_B else ASK if letter == SIDE_A else NONE


@numba.njit(cache=True, inline="always")
def _apply(
    books: Books, levels: Levels, orders: Orders, counts: np.ndarray, book: int, record: np.ndarray
) -> None:
    sides, (nodes, after, pool) = books.sides, levels
    action, flags = (record[4] >> 48) & 0xFF, (record[4] >> 32) & 0xFF
    if action == CLEAR:
        _clear_side(sides, after, pool, 2 * book + BID)
        _clear_side(sides, after, pool, 2 * book + ASK)
    elif flags & TOB and (action != CANCEL or record[3] == UNDEF_PRICE):
        _replace_side(sides, nodes, after, pool, counts, book, record)
    elif action == CANCEL:
        _cancel(books, levels, orders, counts, book, record)
    else:
        _place(books, levels, orders, counts, book, record)


@numba.njit(cache=True)
def _clear_side(sides: np.ndarray, after: np.ndarray, pool: np.ndarray, side: int) -> None:
    remove_all(after, pool, sides[side, HEAD])
    sides[side, OWNER_NOW] = next_era(sides[side, OWNER_NOW])


@numba.njit(cache=True)
def _replace_side(
    sides: np.ndarray,
    nodes: np.ndarray,
    after: np.ndarray,
    pool: np.ndarray,
    counts: np.ndarray,
    book: int,
    record: np.ndarray,
) -> None:
    """A top-of-book record is the whole side: one level of no known orders, or none without a price."""
    size, which, price = record[4] & MAX_SIZE, _side_of_letter((record[4] >> 56) & 0xFF), record[3]
    if which == NONE:
        counts[NO_SIDE] += 1
        return
    side = 2 * book + which
    _clear_side(sides, after, pool, side)
    if price == UNDEF_PRICE:
        return
    if size == 0:
        counts[NO_SIZE] += 1
        return
    nodes[level_at(nodes, after, pool, sides[side, HEAD], key_of(which, price)), SIZE] = size


@numba.njit(cache=True)
def _is_open(sides: np.ndarray, owner: int) -> bool:
    return owner != EMPTY and owner == sides[side_of(owner), OWNER_NOW]


@numba.njit(cache=True)
def _leave_level(
    sides: np.ndarray, nodes: np.ndarray, after: np.ndarray, pool: np.ndarray, order: np.ndarray
) -> None:
    """Take an order off its level, and the level away when nothing rests there any more."""
    node = order[LEVEL]
    nodes[node, SIZE] -= order[OPEN_SIZE]
    nodes[node, ORDERS] -= 1
    if nodes[node, SIZE] == 0:
        remove_level(nodes, after, pool, sides[side_of(order[OWNER]), HEAD], node)


@numba.njit(cache=True, inline="always")
def _cancel(
    books: Books, levels: Levels, orders: Orders, counts: np.ndarray, book: int, record: np.ndarray
) -> None:
    sides, (nodes, after, pool), (slots, used) = books.sides, levels, orders
    size, slot = record[4] & MAX_SIZE, slot_of(slots, book, record[2])
    order = slots[slot]
    if not _is_open(sides, order[OWNER]):
        counts[UNKNOWN_CANCELLED] += 1
        return
    if size < order[OPEN_SIZE]:
        order[OPEN_SIZE] -= size
        nodes[order[LEVEL], SIZE] -= size
        return
    counts[BEYOND_SIZE] += size > order[OPEN_SIZE]
    _leave_level(sides, nodes, after, pool, order)
    take_out(slots, used, slot)


@numba.njit(cache=True, inline="always")
def _place(
    books: Books, levels: Levels, orders: Orders, counts: np.ndarray, book: int, record: np.ndarray
) -> None:
    """Give an order the side, price and size of an add or a modify, whether it was known or not."""
    sides, (nodes, after, pool), (slots, used) = books.sides, levels, orders
    size, which, price = record[4] & MAX_SIZE, _side_of_letter((record[4] >> 56) & 0xFF), record[3]
    is_add = (record[4] >> 48) & 0xFF == ADD
    slot = slot_of(slots, book, record[2])
    order = slots[slot]
    known = _is_open(sides, order[OWNER])
    counts[KNOWN_ADDED] += is_add and known
    counts[UNKNOWN_MODIFIED] += not (is_add or known)
    if known:
        which = which if which != NONE else side_of(order[OWNER]) & 1
        _leave_level(sides, nodes, after, pool, order)
    if which == NONE or price == UNDEF_PRICE or size == 0:
        counts[NO_SIDE if which == NONE else NO_PRICE if price == UNDEF_PRICE else NO_SIZE] += 1
        if known:
            take_out(slots, used, slot)
        return
    side = 2 * book + which
    node = level_at(nodes, after, pool, sides[side, HEAD], key_of(which, price))
    nodes[node, SIZE] += size
    nodes[node, ORDERS] += 1
    put(slots, used, slot, record[2], sides[side, OWNER_NOW], node, size)


@numba.njit(cache=True)
def _write_fields(
    nodes: np.ndarray,
    after: np.ndarray,
    sides: np.ndarray,
    book: int,
    record: np.ndarray,
    flags: int,
    row: np.ndarray,
) -> None:
    """The fields that an MBP-10 record has of its MBO record; `depth` counts the levels better than its price."""
    action, letter, price = (record[4] >> 48) & 0xFF, (record[4] >> 56) & 0xFF, record[3]
    which = _side_of_letter(letter)
    depth = 0
    if action in (ADD, CANCEL, MODIFY) and which != NONE and price != UNDEF_PRICE:
        depth = levels_before(nodes, after, sides[2 * book + which, HEAD], key_of(which, price), DEPTH)
    row[0] = record[0] & ~0xFFFF | LENGTH_AND_TYPE
    row[1] = record[1]
    row[2] = price
    row[3] = record[4] & MAX_SIZE | action << 32 | letter << 40 | flags << 48 | depth << 56
    row[4] = record[5]
    row[5] = record[6]


@numba.njit(cache=True)
def show_ladder(
    nodes: np.ndarray, after: np.ndarray, sides: np.ndarray, book: int, ladder: np.ndarray
) -> int:
    """Write the ten levels of a book into int64 [40]; returns how many sizes did not fit their field."""
    cut = 0
    bid, ask = sides[2 * book + BID, HEAD], sides[2 * book + ASK, HEAD]
    for at in range(0, LADDER_WORDS, LADDER_WORDS // DEPTH):
        bid_price = ask_price = UNDEF_PRICE
        bid_size = ask_size = bid_orders = ask_orders = 0
        bid = after[bid, 0] if bid != NONE else NONE
        ask = after[ask, 0] if ask != NONE else NONE
        if bid != NONE:
            bid_price, bid_size, bid_orders = ~nodes[bid, KEY], nodes[bid, SIZE], nodes[bid, ORDERS]
        if ask != NONE:
            ask_price, ask_size, ask_orders = nodes[ask, KEY], nodes[ask, SIZE], nodes[ask, ORDERS]
        cut += int(bid_size > MAX_SIZE) + int(ask_size > MAX_SIZE)
        ladder[at] = bid_price
        ladder[at + 1] = ask_price
        ladder[at + 2] = min(bid_size, MAX_SIZE) | min(ask_size, MAX_SIZE) << 32
        ladder[at + 3] = bid_orders | ask_orders << 32
    return cut
