"""A policy is trained the same twice, learns what the alpha says, and leaves alone what it cannot know."""

import dataclasses

import pytest
import torch

from alpha_core.control.kill_criteria import THRESHOLDS
from alpha_core.errors import DataError
from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.policies import RandomPolicy
from alpha_core.rl.rollout import rollout
from alpha_core.shapes import MICRO
from alpha_core.training.policy import fit_policy
from tests.core.market.market_synthetic import some_fill_model
from tests.core.training_policy.policy_market import tiles, trending_market

MARKET = MarketConfig(horizon=100)
CONFIG = PolicyConfig(lanes=64, sweeps=3, updates=40, batch=512, hidden=32, n_step=20, cost_high=0.5)


def environment(*, seed: int, readable: bool, rows: int = 4000) -> Environment:
    return Environment(trending_market(rows, seed=seed, readable=readable), MARKET, some_fill_model())


def pnl(market: Environment, policy) -> torch.Tensor:
    starts = tiles(market.data, MARKET.horizon)
    done = rollout(
        market,
        policy,
        starts,
        episode_ids=torch.arange(len(starts)),
        cost_micro=torch.full_like(starts, MICRO // 4),
        threshold=torch.full((len(starts),), -1.0),
        fill_mode=FillMode.POISSON,
        seed=1,
    )
    return done.pnl_micro.double() / MICRO


def fit(market: Environment, config: PolicyConfig = CONFIG, seed: int = 0):
    random = pnl(market, RandomPolicy())
    starts = torch.arange(0, market.data.rows - MARKET.horizon - 2, 25)
    return fit_policy(
        market,
        starts,
        config,
        baseline_mean=float(random.mean()),
        baseline_std=float(random.std()),
        seed=seed,
    )


def test_equal_seeds_give_equal_weights_and_other_seeds_others():
    market = environment(seed=1, readable=True, rows=1500)
    small = dataclasses.replace(CONFIG, lanes=16, sweeps=2, updates=5)
    first, again, other = fit(market, small), fit(market, small), fit(market, small, seed=1)
    for name, value in first.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name]), name
    assert first.history == again.history
    assert not torch.equal(first.network.head.weight, other.network.head.weight)


def test_training_reports_every_kill_criterion():
    small = dataclasses.replace(CONFIG, lanes=16, sweeps=2, updates=5)
    found = fit(environment(seed=1, readable=True, rows=1500), small)
    assert [verdict.name for verdict in found.verdicts] == list(THRESHOLDS)
    assert len(found.history) == 2


def beats_random(earned: torch.Tensor, random: torch.Tensor) -> bool:
    spread = (earned.var() + random.var()).sqrt() / len(earned) ** 0.5
    return float(earned.mean() - random.mean()) > 4 * float(spread)


def test_linear_values_beat_random_on_days_not_seen():
    """The first step of the ladder; a profit takes more than values linear in the observation."""
    trained = fit(environment(seed=1, readable=True), dataclasses.replace(CONFIG, network="linear")).policy
    unseen = environment(seed=2, readable=True)
    assert beats_random(pnl(unseen, trained), pnl(unseen, RandomPolicy()))


def test_a_readable_alpha_is_traded_at_a_profit_on_days_not_seen():
    trained = fit(environment(seed=1, readable=True)).policy
    unseen = environment(seed=2, readable=True)
    earned, random = pnl(unseen, trained), pnl(unseen, RandomPolicy())
    assert beats_random(earned, random)
    assert float(earned.mean()) > 2 * float(earned.std() / len(earned) ** 0.5)


def test_no_starts_are_refused():
    with pytest.raises(DataError, match="starts were empty"):
        fit_policy(
            environment(seed=1, readable=True, rows=300),
            torch.empty(0, dtype=torch.int64),
            CONFIG,
            baseline_mean=0.0,
            baseline_std=1.0,
            seed=0,
        )
