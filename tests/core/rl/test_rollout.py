"""A rollout is the same whatever batch an episode is in, and the scalar oracle agrees with it tick for tick."""

import pytest
import torch

from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.oracle import OracleEnvironment
from alpha_core.nn.q_networks import C51Network
from alpha_core.rl.policies import QPolicy, RandomPolicy, ThresholdPolicy, WaitPolicy
from alpha_core.rl.rollout import rollout
from alpha_core.rng import philox_uniforms
from alpha_core.shapes import MICRO
from tests.core.market.market_synthetic import some_fill_model
from tests.core.training_policy.policy_market import tiles, trending_market

CONFIG = MarketConfig(horizon=40)
SEED = 11


@pytest.fixture(scope="module")
def market():
    return trending_market(700, seed=3, readable=True)


def thompson_policy() -> QPolicy:
    network = C51Network(16, 11, generator=torch.Generator().manual_seed(5))
    network.support.copy_(torch.linspace(-5, 5, 11))
    return QPolicy(network.requires_grad_(False), thompson=True)


def run(market, policy, starts, ids, mode=FillMode.POISSON, record=False):
    environment = Environment(market, CONFIG, some_fill_model())
    return rollout(
        environment,
        policy,
        starts,
        episode_ids=ids,
        cost_micro=torch.full_like(starts, MICRO // 2),
        threshold=torch.full((len(starts),), -1.0),
        fill_mode=mode,
        seed=SEED,
        record=record,
    )


@pytest.mark.parametrize("policy", [thompson_policy(), RandomPolicy(), ThresholdPolicy(enter=0.1)])
def test_an_episode_does_not_depend_on_the_batch_it_is_in(market, policy):
    starts = tiles(market, CONFIG.horizon)
    ids = torch.arange(len(starts))
    together = run(market, policy, starts, ids)
    for index in (0, 5, len(starts) - 1):
        alone = run(market, policy, starts[index : index + 1], ids[index : index + 1])
        assert torch.equal(alone.pnl_micro, together.pnl_micro[index : index + 1])
        assert torch.equal(alone.trades, together.trades[index : index + 1])
    assert int(together.trades.sum()) > 0


@pytest.mark.parametrize("mode", list(FillMode))
def test_the_scalar_oracle_agrees_with_a_thompson_policy_in_the_loop(market, mode):
    policy, starts = thompson_policy(), tiles(market, CONFIG.horizon)[:6]
    ids = torch.arange(len(starts)) + 100
    batched = run(market, policy, starts, ids, mode, record=True)
    assert batched.equity_micro is not None
    for lane, start in enumerate(starts.tolist()):
        oracle = OracleEnvironment(market, CONFIG, some_fill_model())
        oracle.reset(
            start, episode=100 + lane, cost_micro=MICRO // 2, threshold=-1.0, fill_mode=mode, seed=SEED
        )
        total = 0.0
        for step in range(CONFIG.horizon):
            uniforms = philox_uniforms(SEED, ids[lane : lane + 1], step, policy.purpose, policy.uniforms)
            action = policy.act(
                torch.tensor([oracle.observe()], dtype=torch.float32),
                torch.tensor([0.5]),
                torch.tensor([oracle.action_mask()]),
                uniforms,
            )
            reward, done = oracle.step(int(action))
            total += reward
            marked = float(batched.equity_micro[lane, step]) / MICRO
            assert total == pytest.approx(marked, abs=1e-3)
        assert done


def test_equity_ends_at_the_pnl_and_the_drawdown_is_its_largest_fall(market):
    starts = tiles(market, CONFIG.horizon)
    found = run(market, RandomPolicy(), starts, torch.arange(len(starts)), record=True)
    equity = torch.cat([torch.zeros(len(starts), 1, dtype=torch.int64), found.equity_micro], dim=1)
    assert torch.equal(equity[:, -1], found.pnl_micro)
    assert torch.equal((equity.cummax(1).values - equity).amax(1), found.max_drawdown_micro)


def test_waiting_costs_nothing(market):
    starts = tiles(market, CONFIG.horizon)
    found = run(market, WaitPolicy(), starts, torch.arange(len(starts)))
    assert int(found.pnl_micro.abs().sum()) == 0
    assert int(found.trades.sum()) == 0


def test_rng_fault_other_episodes_and_seeds_draw_other_actions(market):
    starts = tiles(market, CONFIG.horizon)[:1].expand(64).contiguous()
    found = run(market, RandomPolicy(), starts, torch.arange(64))
    assert found.lane_actions.unique(dim=0).shape[0] > 56
