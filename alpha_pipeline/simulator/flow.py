"""The order flow: which event comes next, how a latent signal tilts it, why the mid is else a martingale.

Limit orders, cancellations and small market orders change queues, at rates that depend on the queue's size
(in the spirit of Huang, Lehalle, Rosenbaum 2015), but never empty the touch. The price moves by a process of
its own. At times that excite each other and follow a volatility regime, a market order sweeps one queue of
the touch: the mid goes half a tick, the spread is two ticks. Some events later a new queue opens inside the
spread, on either side: the mid goes another half tick. The side swept and the side that opens are

    coins with P(up) = 1/2 + clip(rho * move_tilt * x, -0.4, 0.4),

x an Ornstein-Uhlenbeck signal of variance 1. The coins are independent of all else, so at rho = 0 the mid is
a martingale given every past book, trade and latent state.
"""

from typing import NamedTuple

import numba
import numpy as np

from alpha_pipeline.simulator.book import (
    ADD,
    ASK,
    BID,
    CANCEL,
    CLEAR,
    LEVELS,
    MODIFY,
    NO_SIDE,
    SIDE_LETTERS,
    TRADE,
    Market,
    exponential,
    fresh_queue,
    insert_level,
    normal,
    price_at,
    remove_level,
    take,
    uniform,
    write,
)

RECORDS_PER_EVENT = 5
OPENING_RECORDS = 1 + 2 * LEVELS
RESOLVE_RATE = 0.6  # chance per event that a two-tick spread closes
MODIFY_SHARE = 0.15  # of removals that shrink an order instead of cancelling it
ORDER_LOTS, TRADE_LOTS = 7.0, 5.0  # mean sizes beyond the first lot
LEVEL_SCALE = 2.8  # mean distance from the touch of limit orders, in levels
DEEP_SLOPE = 0.12  # relative growth of the target queue per level
WIDEST_TILT = 0.4
WIDEST_LEAN = 0.8
HIGHEST_RATE = 0.45  # per event, of moves and of market orders: the Hawkes processes here stay far below
SIGN_MEMORY = 0.3  # weight of the newest trade in the mean of recent signs
ACTIVITY = 3.0  # events come faster while trades are excited


class Flow(NamedTuple):
    """Parameters of one day, all float64, rates per event; tilts already carry the factor rho."""

    move_tilt: float
    trade_tilt: float
    queue_tilt: float
    signal_decay: float
    signal_noise: float
    move_base: float
    trade_base: float
    jump: float
    excitation_decay: float
    sign_persistence: float
    queue_lots: float
    regime_hazard: float


@numba.njit(cache=True)
def coin_up(rng: np.ndarray, tilt: float) -> bool:
    """A coin with P(up) = 1/2 + tilt, the tilt held within +-WIDEST_TILT."""
    return uniform(rng) < 0.5 + min(max(tilt, -WIDEST_TILT), WIDEST_TILT)


@numba.njit(cache=True)
def queue_target(flow: Flow, level: int, side: int, signal: float) -> float:
    """Lots a queue reverts to: more on the bid and less on the ask when the signal points up."""
    lean = min(max(flow.queue_tilt * signal, -WIDEST_LEAN), WIDEST_LEAN)
    return flow.queue_lots * (1.0 + DEEP_SLOPE * level) * (1.0 + lean if side == BID else 1.0 - lean)


@numba.njit(cache=True)
def open_book(market: Market, flow: Flow) -> None:
    """Event 0: a clear, then one order added per level and side."""
    row = write(market, CLEAR, NO_SIDE, 0, 0)
    for level in range(LEVELS):
        for side in (BID, ASK):
            fresh_queue(market, level, side, queue_target(flow, level, side, 0.0))
            market.queues[level, 2 + side] = 1
            price = price_at(market.touch, side, level)
            row = write(market, ADD, SIDE_LETTERS[side], price, market.queues[level, side])
            market.tape.depth[row] = level
    market.tape.last[row] = True


@numba.njit(cache=True)
def shrink(market: Market, level: int, side: int) -> tuple[int, int]:
    """Remove lots from a queue that stays. Returns (action, size of the record) or (0, 0)."""
    queues, rng = market.queues, market.rng
    spare = queues[level, side] - queues[level, 2 + side]
    lots = 1 + int(exponential(rng, ORDER_LOTS))
    if queues[level, 2 + side] > 1 and uniform(rng) >= MODIFY_SHARE:
        lots = min(lots, spare + 1)
        queues[level, side] -= lots
        queues[level, 2 + side] -= 1
        return CANCEL, lots
    if spare > 0:
        lots = min(lots, spare)
        queues[level, side] -= lots
        return MODIFY, 1 + int(uniform(rng) * (spare - lots + 1))
    return 0, 0


@numba.njit(cache=True)
def quiet_event(market: Market, flow: Flow, signal: float) -> None:
    """A limit order joins a queue or lots leave it; the queue's size against its target decides which."""
    rng, queues = market.rng, market.queues
    side = BID if uniform(rng) < 0.5 else ASK
    level = int(exponential(rng, LEVEL_SCALE)) % LEVELS
    target = queue_target(flow, level, side, signal)
    action, lots = 0, 0
    if uniform(rng) * (target + queues[level, side]) >= target:
        action, lots = shrink(market, level, side)
    if action == 0:
        action, lots = ADD, 1 + int(exponential(rng, ORDER_LOTS))
        queues[level, side] += lots
        queues[level, 2 + side] += 1
    row = write(market, action, SIDE_LETTERS[side], price_at(market.touch, side, level), lots)
    market.tape.depth[row] = level
    market.tape.last[row] = True


@numba.njit(cache=True)
def print_trades(market: Market, side: int, lots: int, most: int) -> None:
    """Trade records, `most` at most, that add up to `lots` at the touch of the resting `side`."""
    left = lots
    for k in range(most):
        part = left if k == most - 1 else min(left, 1 + int(uniform(market.rng) * left))
        write(market, TRADE, SIDE_LETTERS[1 - side], market.touch[side], part)
        left -= part
        if left == 0:
            return


@numba.njit(cache=True)
def small_trade(market: Market, side: int) -> None:
    """A market order that leaves at least one lot at the touch of the resting `side`."""
    lots = min(1 + int(exponential(market.rng, TRADE_LOTS)), market.queues[0, side] - 1)
    print_trades(market, side, lots, 1 + int(uniform(market.rng) * 1.4))
    take(market.queues, side, lots)
    row = write(market, CANCEL, SIDE_LETTERS[side], market.touch[side], lots)
    market.tape.last[row] = True


@numba.njit(cache=True)
def sweep(market: Market, flow: Flow, side: int) -> None:
    """A market order takes the touch of `side`; what it leaves is cancelled in the same event."""
    rng, price, whole = market.rng, market.touch[side], market.queues[0, side]
    traded = whole if uniform(rng) < 0.5 else max(1, int(whole * (0.6 + 0.4 * uniform(rng))))
    print_trades(market, side, traded, 1 + int(uniform(rng) * 3.0))
    rest = whole
    if traded < whole:
        take(market.queues, side, traded)
        write(market, CANCEL, SIDE_LETTERS[side], price, traded)
        rest = whole - traded
    remove_level(market, side)
    fresh_queue(market, LEVELS - 1, side, queue_target(flow, LEVELS, side, 0.0))
    row = write(market, CANCEL, SIDE_LETTERS[side], price, rest)
    market.tape.last[row] = True


@numba.njit(cache=True)
def close_spread(market: Market, flow: Flow, side: int) -> None:
    """A new queue of one order opens inside a two-tick spread."""
    insert_level(market, side)
    fresh_queue(market, 0, side, flow.queue_lots)
    market.queues[0, 2 + side] = 1
    row = write(market, ADD, SIDE_LETTERS[side], market.touch[side], market.queues[0, side])
    market.tape.last[row] = True


@numba.njit(cache=True)
def price_event(market: Market, flow: Flow, signal: float) -> None:
    """The mid goes half a tick up or down: a wide spread closes, or a sweep opens it."""
    up = coin_up(market.rng, flow.move_tilt * signal)
    if market.touch[ASK] - market.touch[BID] > 1:
        close_spread(market, flow, BID if up else ASK)
        return
    sweep(market, flow, ASK if up else BID)
    market.heat[0] += flow.jump
    remember_sign(market.heat, 1.0 if up else -1.0)


@numba.njit(cache=True)
def trade_event(market: Market, flow: Flow, signal: float) -> bool:
    """A small market order, unless the touch holds a single lot; returns whether it came."""
    heat = market.heat
    buys = coin_up(market.rng, flow.trade_tilt * signal + 0.5 * flow.sign_persistence * heat[2])
    side = ASK if buys else BID
    if market.queues[0, side] < 2:
        return False
    small_trade(market, side)
    heat[1] += flow.jump
    remember_sign(heat, 1.0 if buys else -1.0)
    return True


@numba.njit(cache=True)
def remember_sign(heat: np.ndarray, sign: float) -> None:
    """Fold one trade's sign into the mean of recent signs."""
    heat[2] += SIGN_MEMORY * (sign - heat[2])


@numba.njit(cache=True)
def next_event(market: Market, flow: Flow, signal: float, volatility: float) -> None:
    """Draw one event and apply it."""
    heat = market.heat
    wide = market.touch[ASK] - market.touch[BID] > 1
    move = RESOLVE_RATE if wide else min(flow.move_base * volatility + heat[0], HIGHEST_RATE)
    trade = 0.0 if wide else min(flow.trade_base + heat[1], HIGHEST_RATE)
    heat[0] *= flow.excitation_decay
    heat[1] *= flow.excitation_decay
    draw = uniform(market.rng)
    if draw < move:
        price_event(market, flow, signal)
        return
    if draw < move + trade and trade_event(market, flow, signal):
        return
    quiet_event(market, flow, signal)


@numba.njit(cache=True)
def run_day(market: Market, flow: Flow, volatility: np.ndarray, signal: np.ndarray, gaps: np.ndarray) -> None:
    """Fill the market's tape with `len(signal)` events.

    Args:
        market: fresh, with room for OPENING_RECORDS + RECORDS_PER_EVENT per event.
        flow: parameters.
        volatility: float64 [regimes], factor on the rate of moves and of events in time.
        signal: float64 [events], out: the latent signal that drove each event.
        gaps: float64 [events], out: time before each event in arbitrary units.
    """
    rng, heat = market.rng, market.heat
    latent = normal(rng)
    regime = int(uniform(rng) * len(volatility))
    open_book(market, flow)
    signal[0], gaps[0] = latent, 0.0
    for event in range(1, len(signal)):
        market.event[0] = event
        latent = flow.signal_decay * latent + flow.signal_noise * normal(rng)
        if uniform(rng) < flow.regime_hazard:
            regime = int(uniform(rng) * len(volatility))
        signal[event] = latent
        gaps[event] = exponential(rng, 1.0 / (volatility[regime] * (1.0 + ACTIVITY * heat[1])))
        next_event(market, flow, latent, volatility[regime])
