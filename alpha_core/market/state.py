"""What a lane of the batched environment carries from step to step."""

from dataclasses import dataclass

from torch import Tensor

from alpha_core.market.accounting import Account
from alpha_core.market.matching import RestingOrder


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """Actions in flight, oldest first; W = latency − 1 of them at a decision.

    Attributes:
        action: [W, E] int64.
        price: [W, E] int64 ticks of passive orders.
    """

    action: Tensor
    price: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvState:
    """Everything that a lane knows. Treated as immutable: a step returns a new one.

    Attributes:
        row: [E] int64, row of the market that the lane looks at.
        step: [E] int64, decisions taken.
        episode: [E] int64, identity of the episode, the counter of its random numbers.
        cost_micro: [E] int64, micro-ticks per lot and side.
        threshold: [E] float32, tau.
        account: position, money and counts.
        order: the resting order.
        pending: actions in flight.
        quotes: [8, E] int64, the row's quote (`tables.QUOTE_WIDTH`).
        mask: [E, 9] bool, actions allowed now.
        pnl_micro: [E] int64, marked PnL in micro-ticks x lots.
        fill_mode: a FillMode, one for the batch.
        seed: key of the random numbers.
        packed: the numbers above as one [15, E] int64 tensor where one launch wrote them all, else None.
        seen: the observation [E, 10] float32 where the same launch wrote it, else None.
    """

    row: Tensor
    step: Tensor
    episode: Tensor
    cost_micro: Tensor
    threshold: Tensor
    account: Account
    order: RestingOrder
    pending: Pending
    quotes: Tensor
    mask: Tensor
    pnl_micro: Tensor
    fill_mode: int
    seed: int
    packed: Tensor | None = None
    seen: Tensor | None = None

    @property
    def position(self) -> Tensor:
        """Signed lots, [E] int64."""
        return self.account.position

    @property
    def cash_micro(self) -> Tensor:
        """Cash, [E] int64 micro-ticks x lots."""
        return self.account.cash_micro

    @property
    def trades(self) -> Tensor:
        """Executions so far, [E] int64."""
        return self.account.trades

    @property
    def fills(self) -> Tensor:
        """Executions of resting orders so far, [E] int64."""
        return self.account.fills

    @property
    def turnover(self) -> Tensor:
        """Lots that changed hands so far, [E] int64."""
        return self.account.turnover

    @property
    def mid2(self) -> Tensor:
        """Mid of the lane's row in half ticks, [E] int64."""
        return self.quotes[4]
