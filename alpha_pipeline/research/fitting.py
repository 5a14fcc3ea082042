"""One fit of everything that is fitted, on given rows: fill model, perception, baseline, policy. No files.

Order and rows are the point. The scaler and the perception's weights see the training rows; early stopping and
temperatures see the validation rows. The policy is trained on the validation rows as well: there the alpha it
acts on comes from a perception that was not fitted on them, so that it learns how far to trust it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from alpha_core.market.config import FillMode
from alpha_core.market.data import MarketData
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.market.fills import FillModel
from alpha_core.rl.policies import RandomPolicy
from alpha_core.rl.rollout import MarketEnvironment, rollout
from alpha_core.training.perception import PerceptionFit, Resume, fit_perception, predict_logits
from alpha_core.training.policy import PolicyFit, fit_policy
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.evaluation.baseline import BaselineStats, random_baseline
from alpha_pipeline.evaluation.choice import chosen_cost
from alpha_pipeline.evaluation.episodes import EpisodePlan, plan_episodes
from alpha_pipeline.evaluation.lockstep import Backtest
from alpha_pipeline.evaluation.splits import RowRange
from alpha_pipeline.evaluation.statistics import sessions_per_year
from alpha_pipeline.fills.regression import FillFit, fit_fill_model
from alpha_pipeline.research.rows import Rows
from alpha_pipeline.research.together import fit_together
from alpha_pipeline.results import Check

Progress = Callable[[dict[str, float]], None]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Everything fitted on one stretch of rows.

    Attributes:
        fills: intensity of passive fills.
        perception: P(up) at five horizons.
        logits: [R, 5] float32 for all rows given, later ones included (the prediction is causal).
        baseline: what random actions earn on the validation rows.
        policy: acts on the alpha.
        horizon_index: which horizon is traded.
    """

    fills: FillFit
    perception: PerceptionFit
    logits: Tensor
    baseline: BaselineStats
    policy: PolicyFit
    horizon_index: int

    @property
    def alpha(self) -> Tensor:
        """[R] float32, the logit at the trading horizon."""
        return self.logits[:, self.horizon_index]


def fit_everything(
    rows: Rows, train: RowRange, validation: RowRange, config: PipelineConfig, resume: Resume
) -> Fitted:
    """All fits of one fold; nothing outside the two ranges is looked at, except by the causal prediction."""
    fills = fit_fills(rows, train, config)
    perception = fit_alpha(rows, train, validation, config, on_epoch=None, resume=resume)
    logits = predict_logits(perception, rows.sequence)
    market = rows.market.with_alpha(logits[:, config.gate.horizon_index])
    plan = plan_on(rows, validation, config, overlapping=True)
    backtest = backtest_on(market, fills.model, config)
    baseline = measure_random(backtest, plan, config, digests={})
    policy = fit_execution(backtest.environment, rows, validation, config, baseline, on_log=None)
    return Fitted(
        fills=fills,
        perception=perception,
        logits=logits,
        baseline=baseline,
        policy=policy,
        horizon_index=config.gate.horizon_index,
    )


def fit_fills(rows: Rows, train: RowRange, config: PipelineConfig) -> FillFit:
    """The fill model of the training rows."""
    return fit_fill_model(rows.market.slice(train.start, train.stop), config.fills)


def fit_alpha(
    rows: Rows,
    train: RowRange,
    validation: RowRange,
    config: PipelineConfig,
    on_epoch: Progress | None,
    resume: Resume | None = None,
) -> PerceptionFit:
    """The perception of the training rows, stopped and calibrated on the validation rows."""
    if config.processes > 1:
        return fit_together(rows, train, validation, config, on_epoch, resume)
    return fit_perception(
        rows.mapped.slice(train.start, train.stop),
        rows.part(validation),
        config.perception,
        seed=config.seed,
        device=config.device,
        on_epoch=on_epoch,
        resume=resume,
    )


def alpha_of(perception: PerceptionFit, rows: Rows, config: PipelineConfig) -> Tensor:
    """Calibrated logit at the trading horizon, [R] float32."""
    return predict_logits(perception, rows.sequence)[:, config.gate.horizon_index]


def backtest_on(market: MarketData, fills: FillModel | None, config: PipelineConfig) -> Backtest:
    """An environment over these rows and what money means in it."""
    return Backtest(
        environment=Environment(market.to(config.device), config.market, fills),
        rollout=rollout,
        tick_size=config.instrument.tick_size,
        multiplier=config.instrument.multiplier,
        sessions_a_year=sessions_per_year(config.instrument.calendar),
        seed=config.seed,
        max_environments=config.grid.max_environments,
    )


def plan_on(rows: Rows, part: RowRange, config: PipelineConfig, *, overlapping: bool) -> EpisodePlan:
    """Episodes that lie wholly inside a range of rows.

    Args:
        rows: the days.
        part: where episodes may lie.
        config: lengths and counts.
        overlapping: start a tenth of an episode apart, for fitting; else tile, so that no decision counts twice.
    """
    horizon = config.market.horizon
    stride = max(1, horizon // 10) if overlapping else None
    segment = rows.market.segment[part.slice]
    starts = (episode_starts(segment, horizon, config.market.latency, stride=stride) + part.start).numpy()
    return plan_episodes(
        starts,
        rows.day_of(starts),
        episodes=config.grid.episodes,
        decisions=horizon,
        blocks_per_session=config.grid.blocks_per_session,
        times_of_starts=rows.times_ns[starts],
    )


def measure_random(
    backtest: Backtest, plan: EpisodePlan, config: PipelineConfig, digests: Mapping[str, str]
) -> BaselineStats:
    """What uniformly drawn actions earn at the cost that the gate trades at."""
    cost, _ = chosen_cost(config.grid, config.gate, config.instrument.tick_size)
    return random_baseline(
        backtest,
        RandomPolicy(),
        plan,
        episodes=config.grid.baseline_episodes,
        cost=cost,
        fill_mode=FillMode.POISSON,
        digests=digests,
    )


def fit_execution(
    environment: MarketEnvironment,
    rows: Rows,
    part: RowRange,
    config: PipelineConfig,
    baseline: BaselineStats,
    on_log: Progress | None,
    resume: Resume | None = None,
) -> PolicyFit:
    """The execution policy, trained in episodes that lie inside a range of rows."""
    stride = max(1, config.market.horizon // 20)
    segment = rows.market.segment[part.slice]
    starts = episode_starts(segment, config.market.horizon, config.market.latency, stride=stride) + part.start
    return fit_policy(
        environment,
        starts.to(torch.int64),
        config.policy,
        baseline_mean=baseline.mean,
        baseline_std=baseline.standard_deviation,
        seed=config.seed,
        device=config.device,
        on_log=on_log,
        resume=resume,
    )


def kill_checks(fit: PolicyFit) -> list[Check]:
    """The policy's circuit breakers as checks."""
    return [
        Check(
            name=verdict.name,
            passed=verdict.passed,
            figure=verdict.figure if math.isfinite(verdict.figure) else None,
            threshold=verdict.threshold,
            description=verdict.reason,
        )
        for verdict in fit.verdicts
    ]
