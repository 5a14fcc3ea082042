"""The environment once more, one episode at a time in plain Python: the judge of the batched one.

It reads the raw book and tape of MarketData, not the rearranged tables, and says each rule of `matching` and
`environment` the way one would say it aloud. Only numbers whose float32 rounding has to agree bit for bit
(the hazards of the fill model, the tables of waiting times) are shared. Slow by design.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from alpha_core.market.config import Action, FillMode, MarketConfig
from alpha_core.market.data import TAPE_OFFSETS, TAPE_SIDE, MarketData
from alpha_core.market.fills import FILL_LEVELS, UNIFORM_TABLE, FillModel, waiting_times
from alpha_core.rng import Purpose, philox_uniform_scalar
from alpha_core.shapes import MICRO, UNDEFINED_TICKS

_BUYS = (Action.BUY_MARKET, Action.JOIN_BID_1, Action.JOIN_BID_2)
_SELLS = (Action.SELL_MARKET, Action.JOIN_ASK_1, Action.JOIN_ASK_2)
_JOINS = (Action.JOIN_BID_1, Action.JOIN_ASK_1, Action.JOIN_BID_2, Action.JOIN_ASK_2)


@dataclass
class Order:
    """A resting order. `ahead` is None when the price lies beyond the visible book."""

    buy: bool
    price: int
    left: int
    ahead: int | None = None
    priority: bool = False


@dataclass
class Book:
    """One row: (price, size) per side, best first, absent levels left out."""

    bids: list[tuple[int, int]]
    asks: list[tuple[int, int]]
    full: dict[bool, bool]

    @classmethod
    def read(cls, levels: list[list[int]]) -> "Book":
        bids = [(bid, size) for bid, _, size, _ in levels if bid != UNDEFINED_TICKS]
        asks = [(ask, size) for _, ask, _, size in levels if ask != UNDEFINED_TICKS]
        last = levels[-1]
        return cls(bids, asks, {True: last[0] != UNDEFINED_TICKS, False: last[1] != UNDEFINED_TICKS})

    def side(self, buy: bool) -> list[tuple[int, int]]:
        """The levels of resting buyers or sellers."""
        return self.bids if buy else self.asks

    def displayed(self, buy: bool, price: int) -> int | None:
        """Lots at a price, None when it lies beyond the last of ten levels."""
        levels = self.side(buy)
        if self.full[buy] and (price < levels[-1][0] if buy else price > levels[-1][0]):
            return None
        return dict(levels).get(price, 0)

    def level(self, buy: bool, price: int) -> int:
        """1 + number of better levels."""
        return 1 + sum(p > price if buy else p < price for p, _ in self.side(buy))


@dataclass
class Episode:
    """The mutable state of one episode."""

    start: int
    episode: int
    cost: int
    threshold: float
    mode: int
    seed: int
    step: int = 0
    position: int = 0
    cash: int = 0
    basis: int = 0
    pnl: int = 0
    trades: int = 0
    fills: int = 0
    turnover: int = 0
    order: Order | None = None
    flight: list[tuple[int, int]] = field(default_factory=list)


class OracleEnvironment:
    """Scalar twin of `Environment`: `reset`, then `observe`, `action_mask` and `step` on one episode."""

    def __init__(self, data: MarketData, config: MarketConfig, fill_model: FillModel | None = None) -> None:
        self.config = config
        self.books = [Book.read(levels) for levels in data.book.tolist()]
        self.tape = data.tape.tolist()
        self.mid2 = data.mid2.tolist()
        self.segment = data.segment.tolist()
        self.alpha = data.alpha.tolist()
        names = ("ofi_1", "queue_imbalance_1", "log_volatility_ema", "microprice_minus_mid")
        self.columns = {name: data.column(name).tolist() for name in names}
        if fill_model is not None:
            self.hazards = fill_model.hazards(data).numpy()
            self.factors = fill_model.queue_factors().numpy()
            self.waiting = waiting_times().numpy()

    def reset(
        self, start: int, *, episode: int, cost_micro: int, threshold: float, fill_mode: int, seed: int = 0
    ) -> None:
        """Begin an episode on row `start`; see `Environment.reset`."""
        assert self.segment[start] == self.segment[start + self.config.horizon]
        self.now = Episode(start, episode, cost_micro, threshold, fill_mode, seed)

    @property
    def row(self) -> int:
        return self.now.start + self.now.step

    def step(self, action: int) -> tuple[float, bool]:
        """Take one decision; returns the reward (ticks, a float32 value) and whether the episode is over."""
        now, size = self.now, self.config.order_size
        if now.step >= self.config.horizon:
            return 0.0, True
        if not self.action_mask()[action]:
            action = Action.WAIT
        now.flight.append((action, self._join_price(action)))
        if self.config.latency == 0:
            self._arrive(*now.flight.pop(0))
        self._meet_tape()
        now.step += 1
        self._meet_touch()
        if now.step == self.config.horizon:
            self._settle()
        elif self.config.latency > 0 and len(now.flight) == self.config.latency:
            self._arrive(*now.flight.pop(0))
        assert abs(now.position) <= self.config.position_limit, size
        before, now.pnl = now.pnl, now.cash + now.position * self.mid2[self.row] * MICRO // 2
        reward = np.float32((now.pnl - before) * (1.0 / MICRO))
        return float(reward), now.step == self.config.horizon

    def observe(self) -> list[float]:
        """The ten numbers of `observation.OBSERVATION_NAMES`, each a float32 value."""
        now, row, config = self.now, self.row, self.config
        bid, ask = self.books[row].bids[0], self.books[row].asks[0]
        unrealised = now.position * self.mid2[row] * MICRO // 2 - now.basis
        scale = 1.0 / (MICRO * config.position_limit * config.pnl_scale_ticks)
        flow = self._recent_flow(row)
        resting = 0 if now.order is None else (1 if now.order.buy else -1)
        values = [
            self.alpha[row],
            ask[0] - bid[0],
            np.float32(now.position) * np.float32(1.0 / config.position_limit),
            np.float32(unrealised) * np.float32(scale),
            np.float32(config.horizon - now.step) * np.float32(1.0 / config.horizon),
            math.copysign(math.log1p(abs(flow)), flow),
            self.columns["queue_imbalance_1"][row],
            self.columns["log_volatility_ema"][row],
            resting,
            self.columns["microprice_minus_mid"][row],
        ]
        return [float(np.float32(value)) for value in values]

    def action_mask(self) -> list[bool]:
        """Which of the nine actions would not become wait."""
        now, size, limit = self.now, self.config.order_size, self.config.position_limit
        if now.step == self.config.horizon:
            return [action == Action.WAIT for action in Action]
        codes = [code for code, _ in now.flight]
        flat = [0] if Action.FLATTEN in codes else []
        resting = now.order.left if now.order is not None else 0
        buys = size * sum(c in _BUYS for c in codes) + (resting if now.order and now.order.buy else 0)
        sells = size * sum(c in _SELLS for c in codes) + (resting if now.order and not now.order.buy else 0)
        longest = max([now.position, *flat]) + buys + size
        shortest = min([now.position, *flat]) - sells - size
        edge = float(np.float32(1.0 / (1.0 + math.exp(-self.alpha[self.row])) - 0.5))
        buy = longest <= limit and (longest <= 0 or edge >= now.threshold)
        sell = shortest >= -limit and (shortest >= 0 or -edge >= now.threshold)
        free = now.order is None and not any(c in _JOINS for c in codes)
        allowed = {
            Action.WAIT: True,
            Action.BUY_MARKET: buy,
            Action.SELL_MARKET: sell,
            Action.CANCEL: now.order is not None,
            Action.FLATTEN: now.position != 0,
        }
        for join in _JOINS:
            has_level = self._join_price(join) != UNDEFINED_TICKS
            allowed[join] = free and has_level and (buy if join in _BUYS else sell)
        return [allowed[action] for action in Action]

    def _recent_flow(self, row: int) -> float:
        rows = [r for r in range(max(row - 4, 0), row + 1) if self.segment[r] == self.segment[row]]
        return math.fsum(self.columns["ofi_1"][r] for r in rows)

    def _join_price(self, action: int) -> int:
        if action not in _JOINS:
            return UNDEFINED_TICKS
        levels = self.books[self.row].side(action in _BUYS)
        depth = 0 if action in (Action.JOIN_BID_1, Action.JOIN_ASK_1) else 1
        return levels[depth][0] if depth < len(levels) else UNDEFINED_TICKS

    def _traded(self, lots: int, ticks: int, *, resting: bool = False) -> None:
        """Book an execution of signed lots that brought in `ticks` (ticks x lots)."""
        now = self.now
        if lots == 0:
            return
        held, size = abs(now.position), abs(lots)
        closed = min(held, size) if now.position * lots < 0 else 0
        kept = now.basis * (held - closed) // held if held else 0
        now.basis = kept - ticks * MICRO * (size - closed) // size
        now.cash += ticks * MICRO - now.cost * size
        now.position += lots
        now.trades += 1
        now.fills += resting
        now.turnover += size

    def _meet_tape(self) -> None:
        """The resting order against the prints of the interval after this row."""
        now, order = self.now, self.now.order
        self.filled = 0
        if order is None:
            return
        at, through, cancelled = self._prints(order)
        available = through
        if now.mode == FillMode.TOUCH:
            available += at
        elif now.mode == FillMode.QUEUE and order.ahead is not None:
            available += max(at - order.ahead, 0)
        elif now.mode == FillMode.POISSON:
            order.priority |= self._gains_priority(order)
            available += at if order.priority else 0
        self.filled = min(available, order.left)
        if through:
            order.ahead = 0
        elif order.ahead is not None:
            gone = cancelled * round(1000 * self.config.cancel_ahead_share) // 1000
            order.ahead = max(order.ahead - at - gone, 0)

    def _prints(self, order: Order) -> tuple[int, int, int]:
        """Lots at and through the order's price, and lots cancelled at it."""
        book, tape = self.books[self.row], self.tape[self.row]
        start = TAPE_SIDE if order.buy else 0
        bins, extreme = tape[start : start + TAPE_OFFSETS], tape[start + TAPE_OFFSETS]
        touch = book.side(order.buy)[0][0]
        distance = touch - order.price if order.buy else order.price - touch
        at = bins[distance] if 0 <= distance < TAPE_OFFSETS - 1 else 0
        through = sum(bins[max(distance + 1, 0) :]) if distance < TAPE_OFFSETS - 1 else 0
        if extreme != UNDEFINED_TICKS:
            beyond = order.price - extreme if order.buy else extreme - order.price
            at = max(at, 1) if beyond == 0 else at
            through = max(through, 1) if beyond > 0 else through
        return at, through, (tape[20 if order.buy else 21] if distance == 0 else 0)

    def _gains_priority(self, order: Order) -> bool:
        now, level = self.now, self.books[self.row].level(order.buy, order.price)
        uniform = philox_uniform_scalar(now.seed, now.episode, now.step, Purpose.FILL)
        if level > FILL_LEVELS or order.ahead is None:
            # Out of sight means behind ten levels, hence beyond all fitted ones.
            assert level > FILL_LEVELS
            return False
        hazard = self.hazards[self.row, 2 * (level - 1) + (not order.buy)]
        factor = self.factors[_bucket(order.ahead)]
        return bool(self.waiting[int(uniform * UNIFORM_TABLE)] < hazard * factor)

    def _meet_touch(self) -> None:
        """A touch that has moved onto the order fills it; what the book shows then bounds the queue ahead."""
        order, book = self.now.order, self.books[self.row]
        if order is None:
            return
        price, size = book.side(not order.buy)[0]
        if price <= order.price if order.buy else price >= order.price:
            self.filled += min(size, order.left - self.filled)
        sign = 1 if order.buy else -1
        order.left -= self.filled
        self._traded(sign * self.filled, -sign * self.filled * order.price, resting=True)
        if order.left == 0:
            self.now.order = None
        self._bound_queue()

    def _bound_queue(self) -> None:
        order = self.now.order
        if order is not None:
            shown = self.books[self.row].displayed(order.buy, order.price)
            order.ahead = (
                shown if order.ahead is None else order.ahead if shown is None else min(shown, order.ahead)
            )

    def _arrive(self, action: int, price: int) -> None:
        """An action reaches the book of this row."""
        now, size = self.now, self.config.order_size
        if action in (Action.BUY_MARKET, Action.SELL_MARKET):
            self._take(action == Action.BUY_MARKET, size, None)
        elif action in _JOINS:
            assert now.order is None
            self._join(action in _BUYS, price)
        elif action in (Action.CANCEL, Action.FLATTEN):
            now.order = None
            if action == Action.FLATTEN:
                self._take(now.position < 0, abs(now.position), None)

    def _join(self, buy: bool, price: int) -> None:
        size, best = self.config.order_size, self.books[self.row].side(not buy)[0][0]
        marketable = best <= price if buy else best >= price
        if marketable and self.config.post_only:
            return
        left = size - (self._take(buy, size, price) if marketable else 0)
        if left:
            self.now.order = Order(buy, price, left)
            self._bound_queue()

    def _take(self, buy: bool, want: int, limit: int | None, *, entirely: bool = False) -> int:
        """Walk the displayed levels; returns the lots taken."""
        left, ticks, sign = want, 0, 1 if buy else -1
        levels = self.books[self.row].side(not buy)
        for price, size in levels:
            if limit is not None and sign * price > sign * limit:
                break
            ticks -= sign * price * min(size, left)
            left -= min(size, left)
        if entirely:
            ticks -= sign * (levels[-1][0] + sign) * left
            left = 0
        self._traded(sign * (want - left), ticks)
        return want - left

    def _settle(self) -> None:
        """The end: nothing rests, nothing is in flight, nothing is held."""
        now = self.now
        now.order, now.flight = None, []
        self._take(now.position < 0, abs(now.position), None, entirely=True)


def _bucket(lots: int) -> int:
    """Exponent and upper eleven mantissa bits of the float32 1 + lots, counted from those of 1.0."""
    mantissa, exponent = np.frexp(np.float32(lots + 1))
    return (int(exponent) - 1) * 2048 + int((2 * mantissa - 1) * 2048)
