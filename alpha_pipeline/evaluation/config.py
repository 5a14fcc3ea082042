"""Settings of the backtest grid, the walk-forward folds and the gate: one home per knob."""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

from alpha_core.errors import ConfigError
from alpha_core.shapes import HORIZONS

BLOCK, SHOW = "block", "show"
"""What a perception at chance level does to the stages behind it."""

MIN_SESSIONS = 20
"""Sessions below which tests and intervals rest on intraday blocks."""


def _refuse(owner: str, problems: list[tuple[bool, str]]) -> None:
    """Raise one ConfigError that lists every rule which does not hold."""
    broken = [text for holds, text in problems if not holds]
    if broken:
        raise ConfigError(f"{owner}: " + "; ".join(broken))


def _ascending(values: tuple[float, ...]) -> bool:
    return all(a < b for a, b in itertools.pairwise(values))


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """The backtest grid: costs x thresholds cells, every cell over the same episodes.

    Attributes:
        costs: price points per contract and side, ascending.
        thresholds: |P(up) - 0.5| needed to enter, ascending.
        episodes: episodes per cell; fewer are run when the rows do not hold so many without overlap.
        blocks_per_session: intraday blocks a session is cut into when sessions are too few to test on.
        confidence: level of the bootstrap interval.
        resamples: bootstrap resamples of the interval.
        max_environments: environments in lockstep at once; bounds memory, never changes a result.
        baseline_episodes: episodes of the random baseline.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    costs: tuple[float, ...] = (0.0, 0.0625, 0.125, 0.25, 0.5)
    thresholds: tuple[float, ...] = (0.0, 0.05, 0.10, 0.15, 0.20, 0.25)
    episodes: int = 500
    blocks_per_session: int = 12
    confidence: float = 0.95
    resamples: int = 1000
    max_environments: int = 16_384
    baseline_episodes: int = 10_000

    def __post_init__(self) -> None:
        costs_fit = bool(self.costs) and all(math.isfinite(c) and c >= 0.0 for c in self.costs)
        thresholds_fit = bool(self.thresholds) and all(0.0 <= t <= 0.5 for t in self.thresholds)
        _refuse(
            "grid",
            [
                (costs_fit and _ascending(self.costs), f"costs was {self.costs}, must be ascending and >= 0"),
                (
                    thresholds_fit and _ascending(self.thresholds),
                    f"thresholds was {self.thresholds}, must be ascending in [0, 0.5]",
                ),
                (self.episodes >= 1, f"episodes was {self.episodes}, must be >= 1"),
                (
                    self.blocks_per_session >= 1,
                    f"blocks_per_session was {self.blocks_per_session}, must be >= 1",
                ),
                (0.0 < self.confidence < 1.0, f"confidence was {self.confidence}, must be in (0, 1)"),
                (self.resamples >= 100, f"resamples was {self.resamples}, must be >= 100"),
                (self.max_environments >= 1, f"max_environments was {self.max_environments}, must be >= 1"),
                (
                    self.baseline_episodes >= 2,
                    f"baseline_episodes was {self.baseline_episodes}, must be >= 2",
                ),
            ],
        )


@dataclass(frozen=True, kw_only=True)
class WalkForwardConfig:
    """Sequential folds train | purge | validation | purge | test | embargo, and the out-of-sample days.

    Attributes:
        folds: number of folds; their test parts follow one another without overlap.
        window_rows: longest fold (train + test) in rows; a shorter record shortens it.
        train_share: share of a fold in front of its test part.
        validation_share: share of that part, at its end, kept for early stopping and calibration.
        label_horizon: longest label in snapshots; a row's label is known only so much later.
        purge_rows: rows dropped in front of each validation and test part.
        purge_snapshots: snapshots dropped there, counted over days; the larger purge of the three holds.
        purge_sessions: whole sessions dropped there.
        embargo_rows: rows after each test part in which its last episodes settle.
        oos_days: last days, never seen before the gate.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    folds: int = 3
    window_rows: int = 700_000
    train_share: float = 0.6
    validation_share: float = 0.2
    label_horizon: int = HORIZONS[-1]
    purge_rows: int = 2000
    purge_snapshots: int = HORIZONS[-1]
    purge_sessions: int = 0
    embargo_rows: int = 600
    oos_days: int = 60

    def __post_init__(self) -> None:
        _refuse(
            "walk_forward",
            [
                (self.folds >= 1, f"folds was {self.folds}, must be >= 1"),
                (self.window_rows >= 3, f"window_rows was {self.window_rows}, must be >= 3"),
                (0.0 < self.train_share < 1.0, f"train_share was {self.train_share}, must be in (0, 1)"),
                (
                    0.0 < self.validation_share < 1.0,
                    f"validation_share was {self.validation_share}, must be in (0, 1)",
                ),
                (self.label_horizon >= 1, f"label_horizon was {self.label_horizon}, must be >= 1 snapshot"),
                (self.purge_rows >= 0, f"purge_rows was {self.purge_rows}, must be >= 0"),
                (
                    self.purge_snapshots >= self.label_horizon,
                    f"purge_snapshots was {self.purge_snapshots} and label_horizon {self.label_horizon}: "
                    "raise purge_snapshots to label_horizon or lower label_horizon to it",
                ),
                (self.purge_sessions >= 0, f"purge_sessions was {self.purge_sessions}, must be >= 0"),
                (self.embargo_rows >= 0, f"embargo_rows was {self.embargo_rows}, must be >= 0"),
                (self.oos_days >= 1, f"oos_days was {self.oos_days}, must be >= 1"),
            ],
        )


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    """The rules of the verdict. They are set before the out-of-sample days are opened and are not for tuning.

    Attributes:
        alpha: one-sided level of the test of criterion 3, before the look budget.
        horizon_index: which of the five label horizons is traded.
        perception_floor: "block" trains nothing on a perception whose validation AUC at the trading horizon has a
            lower bound at or below 0.5; "show" says so and goes on to a verdict.
        chosen_cost_ticks: cost per side at which the cell is chosen, in ticks: half a tick.
        min_sessions: sessions below which the test runs on intraday blocks.
        min_oos_days: out-of-sample days below which nothing is tested.
        min_oos_blocks: observations (sessions or blocks) below which nothing is tested.
        max_day_share: largest share of the PnL that one day may contribute.
        variance_floor: hold the long-run variance at or above the plain variance, because negative
            autocorrelation estimated on a few dozen observations makes the test pass too often.
        resamples: resamples of the studentised block bootstrap shown beside the test.
        block_length: mean block length of that bootstrap in observations, 0 for the root of their number.
        power: power at which the number of missing days is stated.
        auc_alarm: AUC above which leakage is suspected.
        seed: seed of the bootstrap.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    alpha: float = 0.01
    horizon_index: int = 2
    perception_floor: str = BLOCK
    chosen_cost_ticks: float = 0.5
    min_sessions: int = MIN_SESSIONS
    min_oos_days: int = 3
    min_oos_blocks: int = 12
    max_day_share: float = 0.4
    variance_floor: bool = True
    resamples: int = 2000
    block_length: int = 0
    power: float = 0.8
    auc_alarm: float = 0.85
    seed: int = 0

    def __post_init__(self) -> None:
        last = len(HORIZONS) - 1
        _refuse(
            "gate",
            [
                (0.0 < self.alpha < 0.5, f"alpha was {self.alpha}, must be in (0, 0.5)"),
                (
                    0 <= self.horizon_index <= last,
                    f"horizon_index was {self.horizon_index}, must be in 0..{last}",
                ),
                (
                    self.perception_floor in (BLOCK, SHOW),
                    f"perception_floor was {self.perception_floor!r}, must be '{BLOCK}' or '{SHOW}'",
                ),
                (
                    math.isfinite(self.chosen_cost_ticks) and self.chosen_cost_ticks >= 0.0,
                    f"chosen_cost_ticks was {self.chosen_cost_ticks}, must be >= 0",
                ),
                (self.min_sessions >= 2, f"min_sessions was {self.min_sessions}, must be >= 2"),
                (self.min_oos_days >= 2, f"min_oos_days was {self.min_oos_days}, must be >= 2"),
                (self.min_oos_blocks >= 2, f"min_oos_blocks was {self.min_oos_blocks}, must be >= 2"),
                (
                    0.0 < self.max_day_share <= 1.0,
                    f"max_day_share was {self.max_day_share}, must be in (0, 1]",
                ),
                (self.resamples >= 100, f"resamples was {self.resamples}, must be >= 100"),
                (self.block_length >= 0, f"block_length was {self.block_length}, must be >= 0"),
                (0.0 < self.power < 1.0, f"power was {self.power}, must be in (0, 1)"),
                (0.5 < self.auc_alarm <= 1.0, f"auc_alarm was {self.auc_alarm}, must be in (0.5, 1]"),
            ],
        )

    @property
    def horizon(self) -> int:
        """Trading horizon in snapshots."""
        return HORIZONS[self.horizon_index]
