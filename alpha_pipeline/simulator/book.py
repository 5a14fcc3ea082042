"""The ten-level book of queues and the tape of its records: compiled primitives, no market model here.

Level i lies i ticks behind the touch. Side 0 is the bid, side 1 the ask. From the opening on, each queue
holds at least one lot and one order, and never more orders than lots.
"""

from typing import NamedTuple

import numba
import numpy as np

LEVELS = 10
BID, ASK = 0, 1
ADD, CANCEL, MODIFY, TRADE, CLEAR = 65, 67, 77, 84, 82  # ASCII of the record actions
SIDE_LETTERS = (66, 65)  # B, A
NO_SIDE = 78  # N

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_INVERSE_2_53 = 1.0 / 9007199254740992.0


class Tape(NamedTuple):
    """Columns the simulation fills, one row a record, N rows at most.

    Attributes:
        rows: int64 [1], rows written.
        event: int32 [N], index of the event the record belongs to.
        action, side: uint8 [N], ASCII.
        price: int64 [N] ticks.
        size: uint32 [N] lots.
        depth: uint8 [N], level touched.
        last: bool [N], end of its event.
        touch: int64 [N, 2], best bid and ask after the record, in ticks; a trade shows the book before it.
        queues: uint32 [N, 10, 4], as in Market.
    """

    rows: np.ndarray
    event: np.ndarray
    action: np.ndarray
    side: np.ndarray
    price: np.ndarray
    size: np.ndarray
    depth: np.ndarray
    last: np.ndarray
    touch: np.ndarray
    queues: np.ndarray


class Market(NamedTuple):
    """The state of a running simulation; arrays, because compiled code changes them in place.

    Attributes:
        tape: what happened so far.
        event: int64 [1], index of the event in progress.
        rng: uint64 [1], state of the random stream.
        queues: int64 [10, 4], bid size, ask size, bid orders, ask orders.
        touch: int64 [2], best bid and best ask in ticks.
        heat: float64 [3], excitation of moves, of trades, mean of recent trade signs.
    """

    tape: Tape
    event: np.ndarray
    rng: np.ndarray
    queues: np.ndarray
    touch: np.ndarray
    heat: np.ndarray


def new_market(rows: int, seed: np.ndarray, bid: int) -> Market:
    """An empty book with a one-tick spread and a tape with room for `rows` records.

    Args:
        rows: capacity.
        seed: uint64 [1].
        bid: best bid in ticks.
    """
    tape = Tape(
        rows=np.zeros(1, np.int64),
        event=np.empty(rows, np.int32),
        action=np.empty(rows, np.uint8),
        side=np.empty(rows, np.uint8),
        price=np.empty(rows, np.int64),
        size=np.empty(rows, np.uint32),
        depth=np.empty(rows, np.uint8),
        last=np.empty(rows, np.bool_),
        touch=np.empty((rows, 2), np.int64),
        queues=np.empty((rows, LEVELS, 4), np.uint32),
    )
    return Market(
        tape=tape,
        event=np.zeros(1, np.int64),
        rng=seed.astype(np.uint64),
        queues=np.zeros((LEVELS, 4), np.int64),
        touch=np.array([bid, bid + 1], np.int64),
        heat=np.zeros(3),
    )


@numba.njit(cache=True)
def uniform(rng: np.ndarray) -> float:
    """Next number in [0, 1) of SplitMix64 (Steele, Lea, Flood 2014); `rng` is its uint64 [1] state."""
    rng[0] += _GOLDEN
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * _INVERSE_2_53


@numba.njit(cache=True)
def exponential(rng: np.ndarray, mean: float) -> float:
    """Exponential variate."""
    return -mean * np.log(1.0 - uniform(rng))


@numba.njit(cache=True)
def normal(rng: np.ndarray) -> float:
    """Sum of twelve uniforms, mean 0 and variance 1: what an OU process needs, bounded and quick."""
    total = -6.0
    for _ in range(12):
        total += uniform(rng)
    return total


@numba.njit(cache=True)
def price_at(touch: np.ndarray, side: int, level: int) -> int:
    """Price in ticks of a level."""
    return touch[side] - level if side == BID else touch[side] + level


@numba.njit(cache=True)
def write(market: Market, action: int, letter: int, price: int, lots: int) -> int:
    """Append a record with the book as it stands, of level 0 and not its event's last; returns its row."""
    tape = market.tape
    row = tape.rows[0]
    tape.rows[0] = row + 1
    tape.event[row] = market.event[0]
    tape.action[row] = action
    tape.side[row] = letter
    tape.price[row] = price
    tape.size[row] = lots
    tape.depth[row] = 0
    tape.last[row] = False
    for side in range(2):
        tape.touch[row, side] = market.touch[side]
    for level in range(LEVELS):
        for k in range(4):
            tape.queues[row, level, k] = market.queues[level, k]
    return row


@numba.njit(cache=True)
def fresh_queue(market: Market, level: int, side: int, target: float) -> None:
    """Draw a queue of half of `target` lots on average, with an order for each three to six lots."""
    lots = 1 + int(target * (0.1 + 1.2 * uniform(market.rng) ** 2))
    market.queues[level, side] = lots
    market.queues[level, 2 + side] = 1 + int((lots - 1) * (0.15 + 0.2 * uniform(market.rng)))


@numba.njit(cache=True)
def insert_level(market: Market, side: int) -> None:
    """Open a level one tick inside the touch of `side`; its queue is the caller's to fill."""
    for level in range(LEVELS - 1, 0, -1):
        market.queues[level, side] = market.queues[level - 1, side]
        market.queues[level, 2 + side] = market.queues[level - 1, 2 + side]
    market.touch[side] += 1 if side == BID else -1


@numba.njit(cache=True)
def remove_level(market: Market, side: int) -> None:
    """Drop the touch of `side`; the queue of the tenth level is the caller's to fill."""
    for level in range(LEVELS - 1):
        market.queues[level, side] = market.queues[level + 1, side]
        market.queues[level, 2 + side] = market.queues[level + 1, 2 + side]
    market.touch[side] -= 1 if side == BID else -1


@numba.njit(cache=True)
def take(queues: np.ndarray, side: int, lots: int) -> None:
    """Trade `lots` from the touch, fewer than it holds; orders leave in proportion and at least one stays."""
    before = queues[0, side]
    orders = queues[0, 2 + side] - int(queues[0, 2 + side] * lots / before)
    queues[0, side] = before - lots
    queues[0, 2 + side] = max(1, min(before - lots, orders))
