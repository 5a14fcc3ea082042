"""Sorted price levels of many book sides in one pool of nodes: compiled skip lists (Pugh 1990).

A side is a list of levels, best first. Finding, adding and removing a level costs O(log n) on any input, and
the ten best are the first ten nodes of the list. Compiled functions take the arrays of `Levels` one by one:
taken as a tuple they would be counted in and out at every call, which costs more than the work.
"""

from typing import NamedTuple

import numba
import numpy as np

NONE = -1
"""No node."""

HEIGHT = 12
"""Chains of a list at most; with one node in four rising, good for 4**12 levels."""

BID, ASK = 0, 1
KEY, SIZE, ORDERS = range(3)
"""Columns of a node: sort key (the price of an ask, its complement for a bid), open size, open orders."""

FIRST_FREE, FREE, DRAWN, PATH = range(4)
"""Entries of the pool: first free node, number of free nodes, heights drawn; from PATH on, by chain, the last
node before the key that was looked up."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Levels(NamedTuple):
    """N nodes; a node is a level, the head of a side's list, or free.

    Attributes:
        nodes: int64 [N, 3]; keys rise from the best price on.
        after: int32 [N, HEIGHT], following node of each chain; free nodes are chained by the first.
        pool: int64 [PATH + HEIGHT].
    """

    nodes: np.ndarray
    after: np.ndarray
    pool: np.ndarray


def new_levels(capacity: int) -> Levels:
    """A pool of `capacity` free nodes."""
    none = Levels(
        nodes=np.empty((0, 3), np.int64),
        after=np.empty((0, HEIGHT), np.int32),
        pool=np.full(PATH + HEIGHT, NONE),
    )
    none.pool[[FREE, DRAWN]] = 0
    return grown_levels(none, capacity)


def grown_levels(levels: Levels, capacity: int) -> Levels:
    """The same levels in a pool of `capacity` nodes, more than before."""
    used, more = len(levels.nodes), capacity - len(levels.nodes)
    after = np.full((more, HEIGHT), NONE, np.int32)
    after[:-1, 0] = np.arange(used + 1, capacity)
    after[-1, 0] = levels.pool[FIRST_FREE]
    pool = levels.pool.copy()
    pool[FIRST_FREE] = used
    pool[FREE] += more
    return Levels(
        nodes=np.concatenate([levels.nodes, np.zeros((more, 3), np.int64)]),
        after=np.concatenate([levels.after, after]),
        pool=pool,
    )


@numba.njit(cache=True)
def key_of(side: int, price: int) -> int:
    """Sort key of a price; the complement reverses the order of bids and cannot overflow."""
    return ~price if side == BID else price


@numba.njit(cache=True)
def new_node(nodes: np.ndarray, after: np.ndarray, pool: np.ndarray) -> int:
    """Take a free node; the caller has made sure that there is one."""
    node = pool[FIRST_FREE]
    pool[FIRST_FREE] = after[node, 0]
    pool[FREE] -= 1
    nodes[node] = 0
    after[node] = NONE
    return node


@numba.njit(cache=True)
def _release(after: np.ndarray, pool: np.ndarray, node: int) -> None:
    after[node, 0] = pool[FIRST_FREE]
    pool[FIRST_FREE] = node
    pool[FREE] += 1


@numba.njit(cache=True)
def _random_height(pool: np.ndarray) -> int:
    """1 + the number of times that two bits in a row are zero; a Weyl sequence, mixed, gives the bits."""
    pool[DRAWN] += 1
    bits = np.uint64(pool[DRAWN]) * _GOLDEN
    bits = (bits ^ (bits >> np.uint64(32))) * _GOLDEN
    bits ^= bits >> np.uint64(29)
    height = 1
    while height < HEIGHT and bits & np.uint64(3) == np.uint64(0):
        height += 1
        bits >>= np.uint64(2)
    return height


@numba.njit(cache=True)
def _find(nodes: np.ndarray, after: np.ndarray, pool: np.ndarray, head: int, key: int) -> int:
    """Node with that key or NONE; the path then holds the nodes before it."""
    node = head
    following = NONE
    for chain in range(HEIGHT - 1, -1, -1):
        following = after[node, chain]
        while following != NONE and nodes[following, KEY] < key:
            node = following
            following = after[node, chain]
        pool[PATH + chain] = node
    return following if following != NONE and nodes[following, KEY] == key else NONE


@numba.njit(cache=True)
def level_at(nodes: np.ndarray, after: np.ndarray, pool: np.ndarray, head: int, key: int) -> int:
    """The level with that key, made when absent."""
    node = _find(nodes, after, pool, head, key)
    if node != NONE:
        return node
    node = new_node(nodes, after, pool)
    nodes[node, KEY] = key
    for chain in range(_random_height(pool)):
        before = pool[PATH + chain]
        after[node, chain] = after[before, chain]
        after[before, chain] = node
    return node


@numba.njit(cache=True)
def remove_level(nodes: np.ndarray, after: np.ndarray, pool: np.ndarray, head: int, node: int) -> None:
    """Take a level out of its list."""
    _find(nodes, after, pool, head, nodes[node, KEY])
    for chain in range(HEIGHT):
        before = pool[PATH + chain]
        if after[before, chain] != node:
            break
        after[before, chain] = after[node, chain]
    _release(after, pool, node)


@numba.njit(cache=True)
def remove_all(after: np.ndarray, pool: np.ndarray, head: int) -> None:
    """Empty one list."""
    node = after[head, 0]
    while node != NONE:
        following = after[node, 0]
        _release(after, pool, node)
        node = following
    after[head] = NONE


@numba.njit(cache=True)
def levels_before(nodes: np.ndarray, after: np.ndarray, head: int, key: int, limit: int) -> int:
    """Number of levels better than that key, `limit` at most."""
    count = 0
    node = after[head, 0]
    while count < limit and node != NONE and nodes[node, KEY] < key:
        count += 1
        node = after[node, 0]
    return count
