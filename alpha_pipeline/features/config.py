"""What a cached row is and how its features are smoothed."""

from dataclasses import dataclass, field
from typing import ClassVar

from alpha_core.errors import ConfigError

SAMPLER_KINDS = ("every_event", "time")


def _raise_if(owner: str, problems: list[str]) -> None:
    if problems:
        raise ConfigError(f"{owner}: " + "; ".join(problems))


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """Which good snapshots become rows (decision points) of the cache.

    Attributes:
        kind: "every_event" takes every n-th good snapshot of a segment, beginning with its first; "time"
            takes the first good snapshot in each cell of a clock grid anchored at the UTC epoch.
        n: stride in good snapshots, used by "every_event".
        milliseconds: width of a clock cell, used by "time".
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: str = "every_event"
    n: int = 1
    milliseconds: int = 100

    def __post_init__(self) -> None:
        problems = []
        if self.kind not in SAMPLER_KINDS:
            problems.append(f"kind was {self.kind!r}, must be one of {', '.join(SAMPLER_KINDS)}")
        if not 1 <= self.n <= 1_000_000:
            problems.append(f"n was {self.n}, must be in [1, 1000000]")
        if not 1 <= self.milliseconds <= 3_600_000:
            problems.append(f"milliseconds was {self.milliseconds}, must be in [1, 3600000]")
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
