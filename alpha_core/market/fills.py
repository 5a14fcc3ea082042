"""The fitted intensity of passive fills, and how it is laid out for a rollout.

    λ(fills/s) = exp(β0[level, side] + β · z),    P(priority over Δt) = 1 − exp(−λ Δt)

z = log1p of the queue ahead in lots, spread in ticks, touch imbalance signed towards the order's own side,
log trade-intensity EMA, log volatility EMA, log1p of the hours since and until UTC midnight.

The intensity is of the whole event "an order with this queue ahead is filled", whether or not the tape
trades. In a rollout it decides when the order has priority; the order then still waits for the tape to
trade at its price. So each fill has a print, and fills come at the fitted rate, a little late rather than a
little early.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from alpha_core.errors import ConfigError
from alpha_core.market.data import MarketData

FILL_LEVELS = 5
FILL_COVARIATES: tuple[str, ...] = (
    "log1p_queue_ahead",
    "spread_ticks",
    "own_side_imbalance",
    "log_intensity_ema",
    "log_volatility_ema",
    "log1p_hours_since_midnight",
    "log1p_hours_to_midnight",
)
QUEUE_UNKNOWN = 2**30
"""Lots ahead of an order beyond the visible book: only a trade through its price fills it."""

_STEP_BITS = 12
_ONE_BITS = 127 << 23

UNIFORM_TABLE = 65_536
"""A rollout draws waiting times from this many equally likely values: 2^-17 is the error of a probability."""

UNBOUNDED = 1e9
"""Bound of a covariate that has none, in a form that JSON can hold."""

_LOG_RATE = (-20.0, 12.0)


def row_covariates(data: MarketData) -> Tensor:
    """The covariates that do not depend on the order, [R, 2, 6] float64 for (bid, ask), columns 1.. of z."""
    imbalance = data.column("queue_imbalance_1").double()
    hours = data.second_of_day.double() / 3600.0
    shared = [
        data.column("spread").double(),
        data.column("log_intensity_ema").double(),
        data.column("log_volatility_ema").double(),
        torch.log1p(hours.clamp(min=0.0)),
        torch.log1p((24.0 - hours).clamp(min=0.0)),
    ]
    sides = [torch.stack([shared[0], sign * imbalance, *shared[1:]], dim=1) for sign in (1.0, -1.0)]
    return torch.stack(sides, dim=1)


@dataclass(frozen=True, kw_only=True)
class FillModel:
    """Coefficients of the intensity.

    Attributes:
        intercept: [5, 2] float64, β0 by level 1..5 and side (0 bid, 1 ask).
        slope: [7] float64, β in the order of FILL_COVARIATES.
        low: [7] float64, z below this is taken to be this: an exponential must not be extrapolated.
        high: [7] float64, likewise from above.
    """

    intercept: Tensor
    slope: Tensor
    low: Tensor = field(default_factory=lambda: torch.full((len(FILL_COVARIATES),), -UNBOUNDED).double())
    high: Tensor = field(default_factory=lambda: torch.full((len(FILL_COVARIATES),), UNBOUNDED).double())

    def __post_init__(self) -> None:
        row = (len(FILL_COVARIATES),)
        shapes = {"intercept": (FILL_LEVELS, 2), "slope": row, "low": row, "high": row}
        for name, shape in shapes.items():
            value = getattr(self, name)
            if tuple(value.shape) != shape or not bool(torch.isfinite(value).all()):
                raise ConfigError(
                    f"fill model: {name} was {value.tolist()}, must be finite numbers of shape {shape}"
                )

    def intensity(self, z: Tensor, level: Tensor, side: Tensor) -> Tensor:
        """λ in fills per second.

        Args:
            z: [n, 7] covariates in the order of FILL_COVARIATES.
            level: [n] int64, 1..5.
            side: [n] int64, 0 bid, 1 ask.

        Returns:
            [n] float64; the log rate is held within [-20, 12].
        """
        log_rate = self.intercept[level - 1, side] + z.double().clamp(self.low, self.high) @ self.slope
        return log_rate.clamp(*_LOG_RATE).exp()

    def probability(self, z: Tensor, level: Tensor, side: Tensor, seconds: Tensor) -> Tensor:
        """Chance of priority within `seconds` [n], that is 1 − exp(−λ Δt), [n] float64."""
        return -torch.expm1(-self.intensity(z, level, side) * seconds.double())

    def hazards(self, data: MarketData) -> Tensor:
        """λ Δt of an order with nobody ahead, for each row's own interval, [R, 10] float32.

        Column 2 (level − 1) + side. Multiply by the `queue_factors` of the queue ahead to complete it.
        """
        shared = row_covariates(data).clamp(self.low[1:], self.high[1:]) @ self.slope[1:]
        log_rate = shared[:, None, :] + self.intercept[None]
        hazard = log_rate.clamp(*_LOG_RATE).exp() * data.seconds.double()[:, None, None]
        return hazard.flatten(1).float()

    def queue_factors(self) -> Tensor:
        """exp(β_queue · log1p(q)) by `queue_bucket`, [61 441] float32."""
        buckets = torch.arange(int(queue_bucket(torch.tensor([QUEUE_UNKNOWN]))) + 1, dtype=torch.int32)
        edges = ((buckets << _STEP_BITS) + _ONE_BITS).view(torch.float32).double()
        return (self.slope[0] * edges.log().clamp(self.low[0], self.high[0])).exp().float()

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and names, fit for JSON."""
        return {
            "covariates": list(FILL_COVARIATES),
            "intercept": self.intercept.tolist(),
            "slope": self.slope.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "FillModel":
        """The model that `to_dict` wrote. Raises ConfigError for other covariates, shapes or numbers."""
        names: Sequence[str] = values.get("covariates", ())
        if tuple(names) != FILL_COVARIATES:
            raise ConfigError(f"fill model: covariates were {list(names)}, must be {list(FILL_COVARIATES)}")
        parts = ("intercept", "slope", "low", "high")
        return cls(**{name: torch.tensor(values[name], dtype=torch.float64) for name in parts})


def queue_bucket(queue: Tensor) -> Tensor:
    """Index of a queue ahead in `FillModel.queue_factors`, int64 for int64 lots in [0, 2^30].

    The upper bits of the float32 of 1 + queue: exact up to 4 095 lots, then in steps of 1 in 2 048 or less.
    Integer arithmetic on the bits gives every device the same index, which a logarithm would not.
    """
    bits = (queue + 1).float().view(torch.int32)
    return ((bits - _ONE_BITS) >> _STEP_BITS).long()


def waiting_times() -> Tensor:
    """Quantiles of the unit exponential at (k + 1/2) / UNIFORM_TABLE, [UNIFORM_TABLE] float32.

    Priority is granted when the drawn waiting time is below the hazard. Looking both up in tables made once
    on the CPU keeps logarithms, which differ between devices in the last bit, out of a rollout.
    """
    middle = (torch.arange(UNIFORM_TABLE, dtype=torch.float64) + 0.5) / UNIFORM_TABLE
    return (-torch.log1p(-middle)).float()
