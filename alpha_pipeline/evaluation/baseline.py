"""The random baseline: what uniformly drawn actions earn. The anchor of "return vs random"."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from alpha_core.errors import DataError
from alpha_pipeline.evaluation.episodes import EpisodePlan, repeated
from alpha_pipeline.evaluation.lockstep import UNGATED, Backtest, cost_in_ticks
from alpha_pipeline.evaluation.statistics import clustered_mean

if TYPE_CHECKING:
    from alpha_core.rl.policies import Policy


@dataclass(frozen=True, kw_only=True)
class BaselineStats:
    """PnL per episode of the random policy, in ticks x lots.

    Attributes:
        mean: of the episodes.
        standard_deviation: between episodes (n - 1).
        standard_error: of the mean, clustered by day; None with a single day.
        episodes: number of them.
        days: independent days.
        decisions: decisions per episode.
        cost: price points per contract and side.
        cost_ticks: the same in ticks.
        fill_mode: name of the fill mode.
        seed: of the rollout.
        unit: of the three figures.
        digests: content digests of everything it was made from.
    """

    mean: float
    standard_deviation: float
    standard_error: float | None
    episodes: int
    days: int
    decisions: int
    cost: float
    cost_ticks: float
    fill_mode: str
    seed: int
    unit: str = "ticks x lots per episode"
    digests: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"digests": dict(sorted(self.digests.items()))}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> "BaselineStats":
        """Inverse of `to_dict`. Raises TypeError for a missing or unknown key."""
        return cls(**raw)


def random_baseline(
    backtest: Backtest,
    policy: "Policy",
    plan: EpisodePlan,
    *,
    episodes: int,
    cost: float,
    fill_mode: int,
    digests: Mapping[str, str] | None = None,
) -> BaselineStats:
    """Run random episodes and summarise them.

    Args:
        backtest: where they are run.
        policy: the uniform policy.
        plan: starts; they are used again as often as needed, each time with other random actions.
        episodes: number of episodes, `grid.baseline_episodes`.
        cost: price points per contract and side.
        fill_mode: an alpha_core.market.config.FillMode.
        digests: content digests of the inputs, stored beside the figures.

    Raises:
        DataError: every episode earned the same, so that nothing can be measured against it.
    """
    table = backtest.run(policy, repeated(plan, episodes), [(cost, UNGATED)], fill_mode=fill_mode)
    pnl = table["pnl_ticks"].to_numpy()
    summary = clustered_mean(pnl, table["day"].to_numpy())
    deviation = summary.standard_deviation
    if summary.mean is None or deviation is None or not np.isfinite(deviation) or deviation <= 0.0:
        raise DataError(
            f"the random baseline's {summary.n} episodes all earned {pnl[0]} ticks: the market data hold no "
            "trade or no price change, check the days' quality reports"
        )
    return BaselineStats(
        mean=summary.mean,
        standard_deviation=deviation,
        standard_error=summary.standard_error,
        episodes=summary.n,
        days=summary.clusters,
        decisions=plan.decisions,
        cost=cost,
        cost_ticks=cost_in_ticks(cost, backtest.tick_size),
        fill_mode=getattr(fill_mode, "name", str(fill_mode)).lower(),
        seed=backtest.seed,
        digests=digests or {},
    )
