"""Small worlds for the tests of grid and gate: PnL that can be worked by hand, and evidence about it."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from alpha_core.shapes import MICRO
from alpha_pipeline.evaluation.choice import ChosenCell
from alpha_pipeline.evaluation.episodes import EpisodePlan, plan_episodes
from alpha_pipeline.evaluation.evidence import GateEvidence, PerceptionEvidence
from alpha_pipeline.evaluation.lockstep import Backtest
from alpha_pipeline.evaluation.looks import LookCount
from alpha_pipeline.evaluation.oos import OosSeries
from alpha_pipeline.evaluation.series import PnlSeries
from alpha_pipeline.results import Check


@dataclass(frozen=True)
class Finished:
    """What a rollout returns."""

    pnl_micro: Tensor
    trades: Tensor
    fills: Tensor
    turnover: Tensor
    max_drawdown_micro: Tensor


@dataclass
class Ledger:
    """An environment in which row r is worth `gain[r]` ticks, and 10 (1 - 2 tau) trades cost their cost."""

    gain: Tensor
    batches: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Edge:
    """A policy that adds a fixed gain in ticks to every episode."""

    ticks: float = 0.0


def ledger_rollout(
    environment, policy, starts, *, episode_ids, cost_micro, threshold, fill_mode, seed
) -> Finished:
    environment.batches.append(starts.numel())
    trades = torch.round(10 * (1 - 2 * threshold.clamp(min=0.0))).long()
    noise = ((episode_ids * 7919 + seed * 104_729) % 1000) * 1000
    pnl = ((environment.gain[starts] + policy.ticks - fill_mode) * MICRO).long() + noise - trades * cost_micro
    return Finished(pnl, trades, trades // 2, trades, (-pnl).clamp(min=0))


def backtest(gain, *, max_environments: int = 16_384, seed: int = 0) -> Backtest:
    return Backtest(
        environment=Ledger(torch.as_tensor(gain, dtype=torch.float64)),
        rollout=ledger_rollout,
        tick_size="0.25",
        multiplier=50.0,
        sessions_a_year=252.0,
        seed=seed,
        max_environments=max_environments,
    )


def plan(days: int, per_day: int, *, blocks: int = 12, decisions: int = 10) -> EpisodePlan:
    rows = np.arange(days * per_day) * decisions
    names = [f"2024-03-{1 + d:02d}" for d in np.repeat(np.arange(days), per_day)]
    return plan_episodes(
        rows,
        names,
        episodes=10_000,
        decisions=decisions,
        blocks_per_session=blocks,
        times_of_starts=rows * 10**9,
    )


def series(pnl, days: int, *, trades: int = 5) -> PnlSeries:
    """Blocks of equal number per day; `pnl` has days x blocks entries."""
    pnl = np.asarray(pnl, dtype=np.float64)
    blocks = pnl.size // days
    return PnlSeries(
        day=tuple(f"2024-03-{1 + d:02d}" for d in np.repeat(np.arange(days), blocks)),
        block=tuple(int(b) for b in np.tile(np.arange(blocks), days)),
        time_ns=np.arange(pnl.size, dtype=np.int64) * 10**12,
        pnl_ticks=pnl,
        episodes=np.full(pnl.size, 4, dtype=np.int64),
        trades=np.full(pnl.size, trades, dtype=np.int64),
    )


def passing(name: str, figure: float = 1.0, threshold: float = 0.0) -> Check:
    return Check(name=name, passed=True, figure=figure, threshold=threshold, description=name)


def failing(name: str) -> Check:
    return replace(passing(name, figure=-1.0), passed=False)


CELL = ChosenCell(
    cost=0.125,
    cost_ticks=0.5,
    next_cost=0.25,
    threshold=0.1,
    sharpe=0.3,
    unit="intraday block",
    observations=180,
    sessions=15,
    tried=6,
)


def evidence(mean: float = 2.0, *, days: int = 5, blocks: int = 12, seed: int = 3, **changes) -> GateEvidence:
    """Evidence on which everything holds when the mean PnL per block is well above the noise of 2 ticks."""
    noise = np.random.default_rng(seed).normal(0.0, 2.0, days * blocks)
    pnl = mean + noise
    whole = {
        "instrument": "demo",
        "sessions_a_year": 252.0,
        "chosen": CELL,
        "oos": OosSeries(
            chosen=series(pnl, days),
            next_cost=series(pnl - 0.5, days),
            queue_fill=series(pnl - 1.0, days),
            random=series(noise * 0.5 - 1.0, days),
            threshold_rule=series(pnl - 0.3, days),
        ),
        "perception": [
            PerceptionEvidence(horizon=h, auc=0.56, auc_low=0.53, auc_high=0.59, n=4000)
            for h in (30, 100, 300, 1000, 6000)
        ],
        "kill_criteria": [passing("q_spread"), passing("action_entropy")],
        "data_quality": [passing("spread_positive")],
        "reproducibility": [passing("same_weights")],
        "lineage": [passing("stamps_agree")],
        "looks": LookCount(earlier=0, overlapping=0),
        "digests": {"fxcache/2024-03-01": "ab", "policy": "cd"},
    }
    return GateEvidence(**(whole | changes))


def with_oos(base: GateEvidence, **changes) -> GateEvidence:
    assert base.oos is not None
    return replace(base, oos=replace(base.oos, **changes))


def with_pnl(base: GateEvidence, pnl) -> GateEvidence:
    assert base.oos is not None
    return with_oos(base, chosen=replace(base.oos.chosen, pnl_ticks=np.asarray(pnl, dtype=np.float64)))
