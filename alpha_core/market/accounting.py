"""Exact money: int64 micro-ticks x lots, so that cash + position x mid equals the PnL to the last unit."""

from dataclasses import dataclass

import torch
from torch import Tensor

from alpha_core.shapes import MICRO

HALF_MICRO = MICRO // 2
"""Micro-ticks in the half tick that `mid2` counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What each environment owns and has done; all [E] int64.

    Attributes:
        position: signed lots.
        cash_micro: micro-ticks x lots received less paid, costs included.
        basis_micro: average-cost basis of the open position, micro-ticks x lots, signed, costs left out.
        trades: executions, that is times that lots changed hands.
        fills: executions of a resting order.
        turnover: lots that changed hands.
    """

    position: Tensor
    cash_micro: Tensor
    basis_micro: Tensor
    trades: Tensor
    fills: Tensor
    turnover: Tensor

    @classmethod
    def empty(cls, like: Tensor) -> "Account":
        """Flat accounts, one for each element of an [E] int64 tensor."""
        return cls(**{name: torch.zeros_like(like) for name in cls.__slots__})

    def traded(self, lots: Tensor, proceeds: Tensor, cost_micro: Tensor, *, resting: bool) -> "Account":
        """After one execution each (of nothing, where lots is 0).

        A trade against the position first closes it at its average cost; what exceeds it opens a new one.

        Args:
            lots: [E] int64, positive bought, negative sold.
            proceeds: [E] int64 ticks x lots, positive received, negative paid.
            cost_micro: [E] int64 micro-ticks per lot.
            resting: whether a resting order was executed.
        """
        held, size = self.position.abs(), lots.abs()
        closed = torch.minimum(held, size) * (self.position * lots < 0)
        income = proceeds * MICRO
        kept = _share(self.basis_micro, held - closed, held)
        opened = _share(income, size - closed, size)
        happened = (size > 0).long()
        return Account(
            position=self.position + lots,
            cash_micro=self.cash_micro + income - cost_micro * size,
            basis_micro=kept - opened,
            trades=self.trades + happened,
            fills=self.fills + happened if resting else self.fills,
            turnover=self.turnover + size,
        )

    def pnl_micro(self, mid2: Tensor) -> Tensor:
        """Marked PnL, [E] int64 micro-ticks x lots, at mids [E] int64 in half ticks."""
        return self.cash_micro + self.position * mid2 * HALF_MICRO

    def unrealised_micro(self, mid2: Tensor) -> Tensor:
        """Marked value less cost of the open position, [E] int64 micro-ticks x lots."""
        return self.position * mid2 * HALF_MICRO - self.basis_micro


def ticks(micro: Tensor) -> Tensor:
    """Micro-ticks x lots in ticks x lots, [E] float32.

    Multiplied, not divided: dividing by a scalar gives other last bits on a GPU than on a CPU.
    """
    return (micro.double() * (1.0 / MICRO)).float()


def _share(amount: Tensor, part: Tensor, whole: Tensor) -> Tensor:
    """amount x part / whole, rounded down; 0 of nothing. The product itself might not fit into 64 bits."""
    whole = whole.clamp(min=1)
    each = torch.div(amount, whole, rounding_mode="floor")
    rest = (amount - each * whole) * part
    return each * part + torch.div(rest, whole, rounding_mode="floor")
