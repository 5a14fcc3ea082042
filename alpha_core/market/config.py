"""What the environment can be told: actions, fill modes and the rules of an episode."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from alpha_core.errors import ConfigError


class Action(IntEnum):
    """The nine decisions. Odd numbers 1..5 buy, even numbers 2..6 sell."""

    WAIT = 0
    BUY_MARKET = 1
    SELL_MARKET = 2
    JOIN_BID_1 = 3
    JOIN_ASK_1 = 4
    JOIN_BID_2 = 5
    JOIN_ASK_2 = 6
    CANCEL = 7
    FLATTEN = 8


class FillMode(IntEnum):
    """How a resting order is held against the tape. Fills satisfy 0 within 2 and 3, and those within 1.

    PESSIMISTIC: only what traded through the price. TOUCH: whatever traded at or through it. QUEUE: at the
    price, only what exceeds the queue ahead. POISSON: at the price, only when the fitted intensity grants
    priority.
    """

    PESSIMISTIC = 0
    TOUCH = 1
    QUEUE = 2
    POISSON = 3


@dataclass(frozen=True, kw_only=True)
class MarketConfig:
    """The rules of an episode.

    Attributes:
        horizon: H, decisions per episode; on the row after the last one everything is flattened.
        latency: rows between a decision and its arrival in the book.
        order_size: lots of every order.
        position_limit: largest absolute position in lots; orders that could exceed it are masked.
        post_only: refuse, rather than execute, a limit order that is marketable on arrival.
        cancel_ahead_share: share of the size cancelled at the touch that is taken to be ahead of our order.
        pnl_scale_ticks: the observed unrealised PnL is divided by this many ticks per lot of the limit.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    horizon: int = 600
    latency: int = 1
    order_size: int = 1
    position_limit: int = 2
    post_only: bool = True
    cancel_ahead_share: float = 0.5
    pnl_scale_ticks: float = 10.0

    def __post_init__(self) -> None:
        bounds = {
            "horizon": (1, 1_000_000),
            "latency": (0, 1_000),
            "order_size": (1, 1_000_000),
            "position_limit": (self.order_size, 1_000_000),
            "cancel_ahead_share": (0.0, 1.0),
            "pnl_scale_ticks": (1e-6, 1e9),
        }
        values = {name: getattr(self, name) for name in bounds}
        bad = [
            f"{name} was {values[name]}, must be in [{low}, {high}]"
            for name, (low, high) in bounds.items()
            if not low <= values[name] <= high
        ]
        if bad:
            raise ConfigError("market: " + "; ".join(bad))

    @property
    def cancel_share_milli(self) -> int:
        """The share in thousandths: queues are integers, so that every device agrees on them."""
        return round(1000 * self.cancel_ahead_share)
