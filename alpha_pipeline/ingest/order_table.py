"""Open orders by instrument and order id: a compiled hash table with open addressing, without tombstones.

A row of the table is one order, so that finding it touches one line of the processor's cache. An order belongs
to a side of a book in one era: when the whole side is cleared its era changes, and all orders of earlier eras
are void without being looked up. They leave the table when it is next rebuilt.
"""

from typing import NamedTuple

import numba
import numpy as np

ID, OWNER, LEVEL, SIZE = range(4)
"""Columns: order id (the bits of the unsigned number), owner, node of the level it rests at, open size."""

EMPTY = -1
"""Owner of a slot without an order."""

_SIDE_BITS = 32
_SIDE_MASK = (1 << _SIDE_BITS) - 1
_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xBF58476D1CE4E5B9)


class Orders(NamedTuple):
    """The table.

    Attributes:
        slots: int64 [C, 4], C a power of two.
        used: int64 [1], slots in use, void orders included.
    """

    slots: np.ndarray
    used: np.ndarray


def new_orders(capacity: int) -> Orders:
    """An empty table of `capacity` slots, a power of two."""
    slots = np.zeros((capacity, 4), np.int64)
    slots[:, OWNER] = EMPTY
    return Orders(slots=slots, used=np.zeros(1, np.int64))


def with_room(orders: Orders, owners: np.ndarray, more: int) -> Orders:
    """A table that stays at most half full when `more` orders come: the same one, or a rebuilt one.

    Args:
        orders: the table.
        owners: int64 [sides], the present owner number of each side.
        more: orders to come.
    """
    if 2 * (orders.used[0] + more) <= len(orders.slots):
        return orders
    owner = orders.slots[:, OWNER]
    valid = int(
        np.count_nonzero(
            (owner != EMPTY) & (owner == owners[np.where(owner == EMPTY, 0, owner & _SIDE_MASK)])
        )
    )
    # room for as many again, so that rebuilding stays rare whatever the table holds
    rebuilt = new_orders(1 << (4 * (valid + more) - 1).bit_length())
    _copy(orders.slots, owners, rebuilt.slots, rebuilt.used)
    return rebuilt


@numba.njit(cache=True)
def _copy(orders: np.ndarray, owners: np.ndarray, slots: np.ndarray, used: np.ndarray) -> None:
    for order in orders:
        owner = order[OWNER]
        if owner != EMPTY and owner == owners[side_of(owner)]:
            slot = slot_of(slots, side_of(owner) >> 1, order[ID])
            put(slots, used, slot, order[ID], owner, order[LEVEL], order[SIZE])


@numba.njit(cache=True)
def side_of(owner: int) -> int:
    """Number of the side: twice that of the book, plus one for asks."""
    return owner & _SIDE_MASK


@numba.njit(cache=True)
def next_era(owner: int) -> int:
    """Owner number of the same side after it was cleared."""
    return owner + (1 << _SIDE_BITS)


@numba.njit(cache=True)
def _first_slot(book: int, order_id: int, mask: int) -> int:
    bits = (np.uint64(order_id) + np.uint64(book) * _MIX_1) * _MIX_2
    bits = (bits ^ (bits >> np.uint64(29))) * _MIX_1
    return int(np.int64(bits >> np.uint64(20))) & mask


@numba.njit(cache=True)
def slot_of(slots: np.ndarray, book: int, order_id: int) -> int:
    """Slot of an order, void or not, or the free slot where it would go."""
    mask = len(slots) - 1
    slot = _first_slot(book, order_id, mask)
    while slots[slot, OWNER] != EMPTY and (
        slots[slot, ID] != order_id or side_of(slots[slot, OWNER]) >> 1 != book
    ):
        slot = (slot + 1) & mask
    return slot


@numba.njit(cache=True)
def put(
    slots: np.ndarray, used: np.ndarray, slot: int, order_id: int, owner: int, level: int, size: int
) -> None:
    """Fill a slot that `slot_of` gave for this order."""
    used[0] += slots[slot, OWNER] == EMPTY
    slots[slot, ID] = order_id
    slots[slot, OWNER] = owner
    slots[slot, LEVEL] = level
    slots[slot, SIZE] = size


@numba.njit(cache=True)
def take_out(slots: np.ndarray, used: np.ndarray, slot: int) -> None:
    """Free a slot and move up the orders behind it that would no longer be found (Knuth, vol. 3, 6.4 R)."""
    mask = len(slots) - 1
    hole = slot
    at = (slot + 1) & mask
    while slots[at, OWNER] != EMPTY:
        first = _first_slot(side_of(slots[at, OWNER]) >> 1, slots[at, ID], mask)
        # the order may move to the hole unless its first slot lies behind the hole, cyclically
        if (at - first) & mask >= (at - hole) & mask:
            slots[hole] = slots[at]
            hole = at
        at = (at + 1) & mask
    slots[hole, OWNER] = EMPTY
    used[0] -= 1
