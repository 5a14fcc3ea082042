"""The batched environment: E episodes in lockstep over one read-only market, tensors in and tensors out.

One step of a lane on row i, with the decision taken there:

1. the resting order meets the tape of (row i, row i + 1] and the touch of row i + 1 (`matching`),
2. the action decided `latency` rows before row i + 1 arrives and executes against row i + 1's book,
3. the PnL is marked at row i + 1's mid.

With latency 0 the decision executes on row i's book before 1. On row start + H, whatever is in flight or
resting is dropped and the position is flattened at market; that order is sent early enough to arrive there,
for its time is known in advance. Afterwards a lane stays as it is: `done`, no reward, nothing allowed but
waiting.

A passive order's price is the level's price on the row of the decision. It is refused on arrival when
marketable and post-only; otherwise it takes what the book offers up to its price, and the rest of it rests.

Every action in flight or resting holds a reservation: an order is masked unless the position limit would
still hold after all of them filled. Masked actions become wait. The threshold masks entries whose alpha is
weaker than |sigmoid(alpha) − 1/2| >= tau in the trade's direction; tau < 0 turns it off. An order is an
exit, which is always allowed, if the position keeps its sign or becomes flat even when everything on the
order's side fills.

No step reads a tensor on the host or copies a host value to the device, so a step can be captured in a graph.
"""

from dataclasses import replace

import torch
from torch import Tensor

from alpha_core.errors import ConfigError, DataError
from alpha_core.market.accounting import Account, ticks
from alpha_core.market.config import Action, FillMode, MarketConfig
from alpha_core.market.data import MarketData
from alpha_core.market.fills import QUEUE_UNKNOWN, FillModel
from alpha_core.market.fused import FusedStep
from alpha_core.market.matching import (
    NO_LIMIT,
    Printed,
    RestingOrder,
    find_in_ladder,
    met_by_touch,
    passive_lots,
    printed,
    queue_after,
    walk,
    with_priority,
)
from alpha_core.market.observation import observation
from alpha_core.market.state import EnvState, Pending
from alpha_core.market.tables import MarketTables, build_tables
from alpha_core.shapes import LEVELS, MICRO, UNDEFINED_TICKS

_SETTLE = len(Action)
"""The flattening at the horizon, one beyond the actions."""

_DIRECTION = (0, 1, -1, 1, -1, 1, -1, 0, 0, 0)
_MODES_WITH_QUEUE = (FillMode.QUEUE, FillMode.POISSON)


class Environment:
    """A market to act in. Stateless: `reset`, `observe` and `step` are functions of what they are given."""

    def __init__(self, data: MarketData, config: MarketConfig, fill_model: FillModel | None = None) -> None:
        """Prepare the tables of a rollout on the data's device.

        Args:
            data: rows to replay.
            config: the rules.
            fill_model: needed by FillMode.POISSON only.

        Raises:
            DataError: rows without a good touch, or observations that are not finite.
            ConfigError: a position at the limit would be worth more micro-ticks than 64 bits hold.
        """
        _check_range(data, config)
        self.data = data
        self.config = config
        self.fill_model = fill_model
        self.tables: MarketTables = build_tables(data, fill_model)
        largest = max(config.order_size, config.position_limit)
        self._depth = min(LEVELS, largest) if self.tables.compact else LEVELS
        self._direction = torch.tensor(_DIRECTION, dtype=torch.int64, device=data.mid2.device)
        # The rules below are readable and some hundreds of launches a step, which only a CPU does not mind.
        on_gpu = data.mid2.device.type == "cuda"
        self._fused = FusedStep(self.tables, config, self._depth) if on_gpu else None

    @property
    def device(self) -> torch.device:
        """Where the market lies, and states must."""
        return self.data.mid2.device

    def reset(
        self,
        start_rows: Tensor,
        *,
        episode_ids: Tensor,
        cost_micro: Tensor,
        threshold: Tensor,
        fill_mode: int = FillMode.POISSON,
        seed: int = 0,
    ) -> EnvState:
        """States of E new episodes.

        Args:
            start_rows: [E] int64, see `episodes.episode_starts`.
            episode_ids: [E] int64, keys of the random numbers.
            cost_micro: [E] int64, micro-ticks per lot and side, at least 0.
            threshold: [E] float32, tau; negative for no gate.
            fill_mode: a FillMode for the whole batch.
            seed: with the episode, the step and the purpose, the key of every draw.

        Raises:
            ConfigError: shapes, costs or the mode not as described, or poisson fills without a fill model.
            DataError: an episode that leaves its segment or the market.
        """
        row = start_rows.to(self.device, torch.int64)
        self._check_reset(row, episode_ids, cost_micro, threshold, fill_mode)
        quotes = self._quotes(row)
        in_flight = row.new_zeros(max(self.config.latency - 1, 0), row.shape[0])
        state = EnvState(
            row=row,
            step=torch.zeros_like(row),
            episode=episode_ids.to(self.device, torch.int64),
            cost_micro=cost_micro.to(self.device, torch.int64),
            threshold=threshold.to(self.device, torch.float32),
            account=Account.empty(row),
            order=RestingOrder.none(row),
            pending=Pending(action=in_flight, price=in_flight),
            quotes=quotes,
            mask=torch.empty(0),
            pnl_micro=torch.zeros_like(row),
            fill_mode=int(fill_mode),
            seed=seed,
        )
        state = replace(state, mask=self._mask(state))
        return state if self._fused is None else self._fused.entered(state, self.observe(state))

    def observe(self, state: EnvState) -> Tensor:
        """What the agent sees, [E, 10] float32 in the order of `observation.OBSERVATION_NAMES`."""
        if state.seen is not None:
            return state.seen
        return observation(
            self.tables,
            config=self.config,
            row=state.row,
            step=state.step,
            mid2=state.mid2,
            account=state.account,
            order=state.order,
        )

    def action_mask(self, state: EnvState) -> Tensor:
        """Actions that would not become wait, [E, 9] bool. Waiting is always allowed."""
        return state.mask

    def step(self, state: EnvState, actions: Tensor) -> tuple[EnvState, Tensor, Tensor]:
        """One decision of every lane.

        Args:
            state: as returned by `reset` or `step`.
            actions: [E] int64 in 0..8.

        Returns:
            The next state; [E] float32 rewards, the change of marked PnL in ticks x lots (their sum is the
            terminal PnL up to float32 rounding; `pnl_micro` carries it exactly); [E] bool, whether the
            episode is over.
        """
        if self._fused is not None:
            return self._fused(state, actions)
        live = state.step < self.config.horizon
        allowed = state.mask.gather(1, actions[:, None]).squeeze(1)
        chosen = actions * allowed  # WAIT is 0
        price = state.quotes[:4].gather(0, (chosen - Action.JOIN_BID_1).clamp(0, 3)[None]).squeeze(0)
        arriving, limit, pending = self._delay(state.pending, chosen, price)
        if self.config.latency == 0:
            state, arriving = self._execute(state, arriving, limit), torch.zeros_like(arriving)
        step = state.step + live
        state = self._interval(state, live)
        arriving = arriving.masked_fill(step >= self.config.horizon, _SETTLE)
        state = replace(self._execute(state, arriving, limit), step=step, pending=pending)
        before, pnl = state.pnl_micro, state.account.pnl_micro(state.mid2)
        state = replace(state, pnl_micro=pnl, mask=self._mask(state))
        return state, ticks(pnl - before), step >= self.config.horizon

    def _delay(self, pending: Pending, action: Tensor, price: Tensor) -> tuple[Tensor, Tensor, Pending]:
        """The action that arrives now, its price, and what stays in flight."""
        if self.config.latency <= 1:
            return action, price, pending
        actions = torch.cat([pending.action, action[None]])
        prices = torch.cat([pending.price, price[None]])
        return actions[0], prices[0], Pending(action=actions[1:], price=prices[1:])

    def _interval(self, state: EnvState, live: Tensor) -> EnvState:
        """Resting orders meet the tape, then the touch of the next row; live lanes move there."""
        order, row = state.order, state.row
        bid = order.side > 0
        tape = printed(self.tables, row, torch.where(bid, state.quotes[0], state.quotes[1]), order)
        if state.fill_mode == FillMode.POISSON:
            order = with_priority(self.tables, row, order, (state.seed, state.episode, state.step))
        lots = passive_lots(order, tape, state.fill_mode)
        row = row + live
        quotes = self._quotes(row)
        far, size = torch.where(bid, quotes[1], quotes[0]), torch.where(bid, quotes[6], quotes[5])
        lots = lots + met_by_touch(order, far, size, order.left - lots)
        account = state.account.traded(
            order.side * lots, -order.side * lots * order.price, state.cost_micro, resting=True
        )
        order = self._after_interval(state, order, tape, lots)
        return replace(state, row=row, quotes=quotes, account=account, order=order)

    def _after_interval(
        self, state: EnvState, order: RestingOrder, tape: Printed, lots: Tensor
    ) -> RestingOrder:
        left = order.left - lots
        queue = order.queue
        if state.fill_mode in _MODES_WITH_QUEUE:
            queue = queue_after(order, tape, self.config.cancel_share_milli)
        return replace(order, left=left, side=order.side * (left > 0), queue=queue)

    def _execute(self, state: EnvState, action: Tensor, price: Tensor) -> EnvState:
        """Actions reach the book of the lane's row."""
        order, account, quotes = state.order, state.account, state.quotes
        joins = (action >= Action.JOIN_BID_1) & (action <= Action.JOIN_ASK_2)
        flattens = action >= Action.FLATTEN
        direction = torch.where(flattens, -account.position.sign(), self._direction.gather(0, action))
        far = torch.where(direction > 0, quotes[1], quotes[0])
        marketable = joins & ((price - far) * direction >= 0)
        takes = (action == Action.BUY_MARKET) | (action == Action.SELL_MARKET)
        limit = None
        if not self.config.post_only:
            takes = takes | marketable
            limit = (-direction * price).masked_fill(~joins, NO_LIMIT)
        want = torch.where(flattens, account.position.abs(), takes * self.config.order_size)
        lots, proceeds = walk(
            self.tables,
            state.row,
            direction=direction,
            want=want,
            limit=limit,
            settle=action == _SETTLE,
            depth=self._depth,
        )
        rests = joins & ~marketable if self.config.post_only else joins
        account = account.traded(direction * lots, proceeds, state.cost_micro, resting=False)
        left = torch.where(rests, self.config.order_size - lots, order.left * (action < Action.CANCEL))
        order = RestingOrder(
            side=torch.where(rests, direction, order.side) * (left > 0),
            price=torch.where(rests, price, order.price),
            left=left,
            queue=order.queue.masked_fill(rests, QUEUE_UNKNOWN),
            level=order.level,
            priority=order.priority * ~rests,
        )
        return replace(state, account=account, order=self._stand(state, order))

    def _stand(self, state: EnvState, order: RestingOrder) -> RestingOrder:
        """Bound the queue ahead by what the row displays, and find the order's level."""
        if state.fill_mode not in _MODES_WITH_QUEUE:
            return order
        displayed, level = find_in_ladder(self.tables, state.row, order)
        return replace(order, queue=torch.minimum(order.queue, displayed), level=level)

    def _mask(self, state: EnvState) -> Tensor:
        """Actions allowed on the lane's row, [E, 9] bool."""
        position, order, edge = state.position, state.order, self.tables.edge.gather(0, state.row)
        bids, asks = order.left * (order.side > 0), order.left * (order.side < 0)
        ceiling, floor, free = position, position, order.left == 0
        if self.config.latency > 1:
            flight = self._direction[state.pending.action]
            bids = bids + (flight > 0).sum(0) * self.config.order_size
            asks = asks + (flight < 0).sum(0) * self.config.order_size
            # A flattening under way could bring the position back to zero before the others fill.
            flattening = (state.pending.action == Action.FLATTEN).any(0)
            ceiling = torch.where(flattening, position.clamp(min=0), position)
            floor = torch.where(flattening, position.clamp(max=0), position)
            joining = (state.pending.action >= Action.JOIN_BID_1) & (
                state.pending.action <= Action.JOIN_ASK_2
            )
            free = free & ~joining.any(0)
        size, limit = self.config.order_size, self.config.position_limit
        most, least = ceiling + bids + size, floor - asks - size
        live = state.step < self.config.horizon
        buy = live & (most <= limit) & ((most <= 0) | (edge >= state.threshold))
        sell = live & (least >= -limit) & ((least >= 0) | (-edge >= state.threshold))
        bid, ask = buy & free, sell & free
        second = state.quotes[2:4] > UNDEFINED_TICKS
        always = torch.ones_like(buy)
        return torch.stack(
            [always, buy, sell, bid, ask, bid & second[0], ask & second[1], order.left > 0, position != 0],
            dim=1,
        )

    def _quotes(self, row: Tensor) -> Tensor:
        quote = self.tables.quote.index_select(0, row)
        return quote.t().to(torch.int64, memory_format=torch.contiguous_format)

    def _check_reset(
        self, row: Tensor, episode: Tensor, cost: Tensor, threshold: Tensor, fill_mode: int
    ) -> None:
        shapes = {"start_rows": row, "episode_ids": episode, "cost_micro": cost, "threshold": threshold}
        wrong = [f"{k} has shape {tuple(v.shape)}" for k, v in shapes.items() if v.shape != (row.numel(),)]
        if wrong:
            raise ConfigError(f"reset: {', '.join(wrong)}, all must be [{row.numel()}]")
        if fill_mode not in list(FillMode):
            raise ConfigError(f"fill_mode was {fill_mode}, must be one of {[int(m) for m in FillMode]}")
        if fill_mode == FillMode.POISSON and self.fill_model is None:
            raise ConfigError("fill_mode was POISSON without a fill model; fit one or choose another mode")
        if row.numel() == 0:
            return
        if int(cost.min()) < 0:
            raise ConfigError(f"cost_micro was {int(cost.min())}, must be at least 0 micro-ticks per lot")
        last = row + self.config.horizon
        if int(row.min()) < 0 or int(last.max()) >= self.data.rows:
            raise DataError(
                f"episodes cover rows {int(row.min())} to {int(last.max())}, "
                f"must lie in [0, {self.data.rows - 1}]"
            )
        leaves = self.data.segment[row] != self.data.segment[last]
        if bool(leaves.any()):
            start = int(row[leaves][0])
            raise DataError(
                f"the episode from row {start} leaves its segment within {self.config.horizon} decisions; "
                "take starts from episode_starts"
            )


def _check_range(data: MarketData, config: MarketConfig) -> None:
    highest = int(data.mid2.abs().max()) // 2 + 1 if data.rows else 1
    bound = 2**61 // (highest * MICRO)
    if config.position_limit > bound:
        raise ConfigError(
            f"position_limit was {config.position_limit}, must be at most {bound} at prices of {highest} "
            "ticks; use a coarser lot"
        )
