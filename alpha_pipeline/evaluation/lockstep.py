"""Cells and episodes laid side by side in one batch of environments, and told apart again afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alpha_core.errors import DataError
from alpha_core.shapes import MICRO
from alpha_pipeline.evaluation.episodes import EpisodePlan, Ints

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor

    from alpha_core.rl.policies import Policy
    from alpha_core.rl.rollout import MarketEnvironment


UNGATED = -1.0
"""Threshold of policies that the alpha shall not hold back."""


class Episodes(Protocol):
    """What a rollout returns, as far as the grid reads it; every tensor is [E]."""

    @property
    def pnl_micro(self) -> "Tensor": ...
    @property
    def trades(self) -> "Tensor": ...
    @property
    def fills(self) -> "Tensor": ...
    @property
    def turnover(self) -> "Tensor": ...
    @property
    def max_drawdown_micro(self) -> "Tensor": ...


class Rollout(Protocol):
    """Signature of alpha_core.rl.rollout.rollout."""

    def __call__(
        self,
        environment: "MarketEnvironment",
        policy: "Policy",
        starts: "Tensor",
        *,
        episode_ids: "Tensor",
        cost_micro: "Tensor",
        threshold: "Tensor",
        fill_mode: int,
        seed: int,
    ) -> Episodes: ...


def cost_in_ticks(cost: float, tick_size: str) -> float:
    """A cost in price points as ticks, exact for decimal costs."""
    return float(Decimal(str(cost)) / Decimal(tick_size))


def cost_in_micro(cost: float, tick_size: str) -> int:
    """A cost in price points per contract and side as whole micro-ticks, the environment's unit of money."""
    return int((Decimal(str(cost)) / Decimal(tick_size) * MICRO).to_integral_value())


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """Where episodes are run, and in what money.

    Attributes:
        environment: what is replayed, an alpha_core.market.environment.Environment.
        rollout: alpha_core.rl.rollout.rollout.
        tick_size: price increment in price points, exact decimal.
        multiplier: account currency per price point and lot.
        sessions_a_year: see `statistics.sessions_per_year`.
        seed: of random actions, fills and resamples.
        max_environments: environments in lockstep at once; bounds memory, never changes a result.
    """

    environment: "MarketEnvironment"
    rollout: Rollout
    tick_size: str
    multiplier: float
    sessions_a_year: float
    seed: int
    max_environments: int

    def run(
        self,
        policy: "Policy",
        plan: EpisodePlan,
        cells: Sequence[tuple[float, float]],
        *,
        fill_mode: int,
    ) -> "pl.DataFrame":
        """Run every cell over every episode of the plan.

        Results are keyed by construction: pair k of the flat batch is cell k // E and episode k % E, whatever
        the pieces it is cut into. All cells see the same episodes with the same random numbers.

        Args:
            policy: who acts.
            plan: E episodes.
            cells: (cost in price points per contract and side, threshold) of each cell.
            fill_mode: an alpha_core.market.config.FillMode.

        Returns:
            One row per (cell, episode), by cell and then by time: cell, cost, threshold, episode, day, block,
            time_ns, pnl_ticks, trades, fills, turnover, max_drawdown_ticks.

        Raises:
            DataError: there are no cells.
        """
        import polars as pl

        if not cells:
            raise DataError("the grid has no cells: give grid.costs and grid.thresholds a value each")
        total = len(cells) * len(plan)
        pieces = []
        for first in range(0, total, self.max_environments):
            pair = np.arange(first, min(first + self.max_environments, total))
            cell, episode = pair // len(plan), pair % len(plan)
            done = self._rollout(policy, plan, cells, cell, episode, fill_mode=fill_mode)
            pieces.append(_table(done, plan, cells, cell, episode))
        return pl.concat(pieces)

    def _rollout(
        self,
        policy: "Policy",
        plan: EpisodePlan,
        cells: Sequence[tuple[float, float]],
        cell: Ints,
        episode: Ints,
        *,
        fill_mode: int,
    ) -> Episodes:
        import torch

        costs = np.array([cost_in_micro(cost, self.tick_size) for cost, _ in cells], dtype=np.int64)
        thresholds = np.array([threshold for _, threshold in cells], dtype=np.float32)
        return self.rollout(
            self.environment,
            policy,
            torch.from_numpy(plan.rows[episode]),
            episode_ids=torch.from_numpy(episode),
            cost_micro=torch.from_numpy(costs[cell]),
            threshold=torch.from_numpy(thresholds[cell]),
            fill_mode=fill_mode,
            seed=self.seed,
        )


def _table(
    done: Episodes, plan: EpisodePlan, cells: Sequence[tuple[float, float]], cell: Ints, episode: Ints
) -> "pl.DataFrame":
    import polars as pl

    grid = np.asarray(cells, dtype=np.float64)
    return pl.DataFrame(
        {
            "cell": cell,
            "cost": grid[cell, 0],
            "threshold": grid[cell, 1],
            "episode": episode,
            "day": np.asarray(plan.day)[episode],
            "block": plan.block[episode],
            "time_ns": plan.time_ns[episode],
            "pnl_ticks": _array(done.pnl_micro) / MICRO,
            "trades": _array(done.trades),
            "fills": _array(done.fills),
            "turnover": _array(done.turnover),
            "max_drawdown_ticks": _array(done.max_drawdown_micro) / MICRO,
        },
        schema_overrides={"day": pl.String, "trades": pl.Int64, "fills": pl.Int64, "turnover": pl.Int64},
    )


def _array(values: "Tensor") -> NDArray[Any]:
    return values.detach().cpu().numpy()
