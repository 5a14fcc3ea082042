"""What a cached row is and how its features are smoothed."""

from dataclasses import dataclass, field
from typing import ClassVar

from alpha_core.errors import ConfigError

SAMPLER_KINDS = {
    "every_event": "every `n`-th good snapshot of a segment",
    "time": "the first good snapshot in each cell of `milliseconds` of a clock grid anchored at the UTC epoch",
    "tick": "the snapshot with which `trades` trades have come since the last row",
    "volume": "the snapshot with which `lots` lots have traded since the last row",
    "dollar": "the snapshot with which `tick_lots` of price in ticks times lots have traded since the last row",
    "imbalance": "the snapshot with which the signed flow exceeds what was to be expected (`imbalance.*`)",
}
"""Kinds of samplers and the snapshots they take as rows; a segment's first good snapshot is a row for all."""

FLOWS = ("tick", "volume", "dollar")
"""What a bar counts: trades, lots, or price times lots."""


def _raise_if(owner: str, problems: list[str]) -> None:
    if problems:
        raise ConfigError(f"{owner}: " + "; ".join(problems))


@dataclass(frozen=True, kw_only=True)
class ImbalanceConfig:
    """How imbalance bars adapt; see `alpha_pipeline.features.imbalance`.

    Attributes:
        flow: what is signed and summed: "tick" (trades), "volume" (lots) or "dollar" (ticks times lots).
        expected_trades: length of the first bar of a segment, in trades.
        half_life_bars: half-life of both expectations, in bars.
        min_trades: least number of trades in a bar.
        max_trades: number of trades at which a bar closes whatever its imbalance.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    flow: str = "tick"
    expected_trades: int = 50
    half_life_bars: float = 20.0
    min_trades: int = 5
    max_trades: int = 500

    def __post_init__(self) -> None:
        problems = []
        if self.flow not in FLOWS:
            problems.append(f"flow was {self.flow!r}, must be one of {', '.join(FLOWS)}")
        if not 1 <= self.min_trades <= self.expected_trades <= self.max_trades <= 1_000_000:
            problems.append(
                f"min_trades, expected_trades, max_trades were {self.min_trades}, {self.expected_trades}, "
                f"{self.max_trades}, must be in [1, 1000000] and in this order"
            )
        if not 0.1 <= self.half_life_bars <= 1e6:
            problems.append(f"half_life_bars was {self.half_life_bars}, must be in [0.1, 1000000]")
        _raise_if("sampler.imbalance", problems)


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """Which good snapshots become rows (decision points) of the cache. A segment's first one always does.

    Attributes:
        kind: one of SAMPLER_KINDS.
        n: stride in good snapshots, used by "every_event".
        milliseconds: width of a clock cell, used by "time".
        trades: trades a bar, used by "tick".
        lots: lots a bar, used by "volume".
        tick_lots: sum of |price| in ticks times lots a bar, used by "dollar"; an amount of money divided by
            tick_size and multiplier of the instrument.
        imbalance: used by "imbalance".
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: str = "every_event"
    n: int = 1
    milliseconds: int = 100
    trades: int = 50
    lots: int = 500
    tick_lots: int = 10_000_000
    imbalance: ImbalanceConfig = field(default_factory=ImbalanceConfig)

    def __post_init__(self) -> None:
        bounds = {
            "n": 1_000_000,
            "milliseconds": 3_600_000,
            "trades": 1_000_000,
            "lots": 10**12,
            "tick_lots": 10**18,
        }
        problems = []
        if self.kind not in SAMPLER_KINDS:
            problems.append(f"kind was {self.kind!r}, must be one of {', '.join(SAMPLER_KINDS)}")
        problems += [
            f"{name} was {getattr(self, name)}, must be in [1, {most}]"
            for name, most in bounds.items()
            if not 1 <= getattr(self, name) <= most
        ]
        _raise_if("sampler", problems)


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """Everything that decides the values in a cache file, besides the code.

    Attributes:
        sampler: which snapshots become rows.
        volatility_half_life_rows: half-life of the EMA of squared mid changes, in rows.
        intensity_half_life_rows: half-life of the EMAs of trade count and duration, in rows.
        volatility_floor_ticks: added in quadrature, so that a market that stands still has a finite
            logarithm.
        intensity_floor_per_second: added to the trade rate, so that a silent market has a finite logarithm.
        warmup_rows: rows at the head of a segment whose EMAs are too young; masked from training, never
            dropped.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    volatility_half_life_rows: float = 100.0
    intensity_half_life_rows: float = 100.0
    volatility_floor_ticks: float = 0.01
    intensity_floor_per_second: float = 0.001
    warmup_rows: int = 100

    def __post_init__(self) -> None:
        bounds = {
            "volatility_half_life_rows": (0.1, 1e6),
            "intensity_half_life_rows": (0.1, 1e6),
            "volatility_floor_ticks": (1e-9, 1.0),
            "intensity_floor_per_second": (1e-9, 1.0),
            "warmup_rows": (0, 1_000_000),
        }
        _raise_if(
            "features",
            [
                f"{name} was {getattr(self, name)}, must be in [{low:g}, {high:g}]"
                for name, (low, high) in bounds.items()
                if not low <= getattr(self, name) <= high
            ],
        )
