"""The batched environment equals the scalar oracle tick for tick, whatever the mode, the rules and the
batch."""

import numpy as np
import pytest
import torch
from market_synthetic import chosen, random_market, settings, some_fill_model

from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.market.oracle import OracleEnvironment

CONFIGS = {
    "plain": MarketConfig(horizon=20),
    "immediate": MarketConfig(horizon=15, latency=0, position_limit=3, post_only=False),
    "slow, large, taking": MarketConfig(
        horizon=25, latency=3, order_size=5, position_limit=17, post_only=False, cancel_ahead_share=0.7
    ),
    "large": MarketConfig(horizon=20, latency=2, order_size=9, position_limit=30, cancel_ahead_share=1.0),
}


def run_batched(environment, setting, mode, actions):
    state = environment.reset(**setting, fill_mode=mode, seed=11)
    trace = [record(environment, state, torch.zeros(actions.shape[1]), state.step < 0)]
    for action in actions:
        state, reward, done = environment.step(state, action)
        trace.append(record(environment, state, reward, done))
    return trace


def record(environment, state, reward, done):
    money = torch.stack([state.position, state.cash_micro, state.pnl_micro])
    counts = torch.stack([state.trades, state.fills, state.turnover, state.order.side, state.order.left])
    return {
        "observation": environment.observe(state),
        "mask": environment.action_mask(state),
        "reward": reward,
        "done": done,
        "money": money.t(),
        "counts": counts.t(),
    }


def run_oracle(oracle, setting, lane, mode, actions):
    oracle.reset(
        int(setting["start_rows"][lane]),
        episode=int(setting["episode_ids"][lane]),
        cost_micro=int(setting["cost_micro"][lane]),
        threshold=float(setting["threshold"][lane]),
        fill_mode=mode,
        seed=11,
    )
    trace = [oracle_record(oracle, 0.0, False)]
    return trace + [oracle_record(oracle, *oracle.step(action)) for action in actions[:, lane].tolist()]


def oracle_record(oracle, reward, done):
    now = oracle.now
    order = (0, 0) if now.order is None else (1 if now.order.buy else -1, now.order.left)
    return {
        "observation": oracle.observe(),
        "mask": oracle.action_mask(),
        "reward": reward,
        "done": done,
        "money": [now.position, now.cash, now.pnl],
        "counts": [now.trades, now.fills, now.turnover, *order],
    }


def equal_on_a_random_market(market_seed, config, mode, episodes):
    data, model = random_market(300, seed=market_seed), some_fill_model(market_seed)
    return assert_equal_to_the_oracle(data, model, config, mode, episodes, market_seed)


def assert_equal_to_the_oracle(data, model, config, mode, episodes, market_seed):
    """Random episodes of a market are step by step what the oracle makes of them; returns the trace."""
    environment, oracle = Environment(data, config, model), OracleEnvironment(data, config, model)
    starts = episode_starts(data.segment, config.horizon, config.latency, stride=1)
    rng = np.random.default_rng(market_seed + 1)
    setting = settings(starts, episodes, market_seed + 2)
    actions = chosen(rng, config.horizon + 2, episodes)
    batched = run_batched(environment, setting, mode, actions)
    for lane in range(episodes):
        scalar = run_oracle(oracle, setting, lane, mode, actions)
        for step, (ours, judge) in enumerate(zip(batched, scalar, strict=True)):
            for name, value in judge.items():
                got = ours[name][lane].tolist()
                assert got == value, f"{name} at step {step} of lane {lane}: {got} is not {value}"
    return batched


@pytest.mark.parametrize("mode", list(FillMode))
@pytest.mark.parametrize("name", CONFIGS)
def test_equals_the_oracle(name, mode):
    trace = equal_on_a_random_market(10 + int(mode), CONFIGS[name], mode, episodes=25)
    counts = trace[-1]["counts"]
    assert int(counts[:, 1].sum()) > 5, "a comparison in which nothing rests and fills shows nothing"
    assert int((counts[:, 0] - counts[:, 1]).sum()) > 5
    assert bool(trace[-1]["done"].all())


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(FillMode))
@pytest.mark.parametrize("name", CONFIGS)
def test_equals_the_oracle_over_ten_thousand_episodes(name, mode):
    for market_seed in range(100, 107):
        trace = equal_on_a_random_market(market_seed, CONFIGS[name], mode, episodes=90)
        assert bool(trace[-1]["done"].all())


@pytest.mark.parametrize("mode", list(FillMode))
def test_any_batch_size_gives_the_same_trajectories(mode):
    config = CONFIGS["slow, large, taking"]
    data = random_market(300, seed=5)
    environment = Environment(data, config, some_fill_model())
    starts = episode_starts(data.segment, config.horizon, config.latency, stride=1)
    setting = settings(starts, 60, 1)
    actions = chosen(np.random.default_rng(2), config.horizon, 60)
    whole = run_batched(environment, setting, mode, actions)
    for part in (slice(0, 1), slice(1, 24), slice(24, 60)):
        piece = {name: value[part] for name, value in setting.items()}
        alone = run_batched(environment, piece, mode, actions[:, part])
        for ours, theirs in zip(alone, whole, strict=True):
            for name, value in ours.items():
                assert torch.equal(value, theirs[name][part]), name
