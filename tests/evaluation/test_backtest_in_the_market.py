"""Grid, choice and gate over the real environment and rollout, on small markets of known alpha."""

import numpy as np
import polars as pl
import pytest
import torch
from gate_worlds import evidence
from market_synthetic import ladder, market_from_book, quiet, random_market, some_fill_model

from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.rl.policies import RandomPolicy, ThresholdPolicy, WaitPolicy
from alpha_core.rl.rollout import rollout
from alpha_pipeline.evaluation.baseline import random_baseline
from alpha_pipeline.evaluation.choice import choose_cell
from alpha_pipeline.evaluation.config import GateConfig, GridConfig
from alpha_pipeline.evaluation.episodes import plan_episodes
from alpha_pipeline.evaluation.gate import judge
from alpha_pipeline.evaluation.grid import run_grid
from alpha_pipeline.evaluation.lockstep import Backtest
from alpha_pipeline.evaluation.oos import run_out_of_sample

H = 40
GRID = GridConfig(resamples=100)


def drifting_market(days: int, rows: int, *, strength: float, seed: int):
    """A one-tick-wide book whose mid drifts with a hidden state; the alpha tells `strength` of it."""
    rng = np.random.default_rng(seed)
    total = days * rows
    state = np.repeat(rng.choice([-1.0, 1.0], total // 40), 40)
    mid = 5000 + np.cumsum(state * (rng.random(total) < 0.25)).astype(np.int64)
    relative = ladder(0, 1)
    book = np.broadcast_to(relative, (total, *relative.shape)).copy()
    book[:, :, :2] += mid[:, None, None]
    alpha = strength * state + (1 - strength) * rng.choice([-1.0, 1.0], total)
    return market_from_book(
        book,
        np.broadcast_to(quiet(), (total, quiet().size)),
        segment=np.repeat(np.arange(days), rows),
        alpha=alpha,
        seed=seed,
    )


def backtest(market, **changes) -> Backtest:
    environment = Environment(market, MarketConfig(horizon=H), some_fill_model())
    whole = {
        "tick_size": "0.25",
        "multiplier": 50.0,
        "sessions_a_year": 252.0,
        "seed": 3,
        "max_environments": 16_384,
    }
    return Backtest(environment=environment, rollout=rollout, **(whole | changes))


def plan(market, first_day: int = 1):
    starts = episode_starts(market.segment, H, 1)
    days = [f"2024-03-{first_day + int(s):02d}" for s in market.segment[starts]]
    return plan_episodes(starts.numpy(), days, episodes=500, decisions=H, blocks_per_session=6)


def grid_of(market, policy, **changes):
    return run_grid(
        backtest(market, **changes),
        policy,
        plan(market),
        GRID,
        sample="fold test",
        baseline=None,
        fill_mode=FillMode.POISSON,
    )


def test_each_cell_equals_a_rollout_of_its_own():
    market = random_market(700, seed=1)
    result = grid_of(market, RandomPolicy())
    episodes = plan(market)
    for cell in (0, 13, 29):
        cost, tau = result.cells["cost"][cell], result.cells["threshold"][cell]
        alone = rollout(
            backtest(market).environment,
            RandomPolicy(),
            torch.from_numpy(episodes.rows),
            episode_ids=torch.arange(len(episodes)),
            cost_micro=torch.full((len(episodes),), round(cost * 4e6)),
            threshold=torch.full((len(episodes),), tau),
            fill_mode=FillMode.POISSON,
            seed=3,
        )
        table = result.episodes.filter(pl.col("cell") == cell)
        assert table["pnl_ticks"].to_list() == (alone.pnl_micro / 1e6).tolist()
        assert table["trades"].to_list() == alone.trades.tolist()
        assert table["max_drawdown_ticks"].to_list() == (alone.max_drawdown_micro / 1e6).tolist()


def test_cells_do_not_depend_on_their_batch_and_costs_only_cost():
    market = random_market(700, seed=2)
    whole = grid_of(market, ThresholdPolicy(enter=0.05))
    assert grid_of(market, ThresholdPolicy(enter=0.05), max_environments=37).episodes.equals(whole.episodes)
    # The rule does not look at costs, so every cell of one threshold holds the same trades.
    per_episode = whole.episodes.filter(pl.col("threshold") == 0.1).sort("episode", "cost")
    for _, rows in per_episode.group_by("episode"):
        assert rows["trades"].n_unique() == rows["turnover"].n_unique() == 1
        expected = rows["pnl_ticks"][0] - rows["turnover"].to_numpy() * rows["cost"].to_numpy() / 0.25
        assert rows["pnl_ticks"].to_numpy() == pytest.approx(expected)


def test_waiting_earns_nothing_and_is_undefined():
    cells = grid_of(random_market(700, seed=3), WaitPolicy()).cells
    assert set(cells["mean_pnl_ticks"]) == {0.0}
    assert set(cells["undefined"]) == {"PnL is zero throughout"}


def test_the_random_baseline_is_not_held_back_by_the_alpha():
    market = drifting_market(3, 400, strength=1.0, seed=1)
    blind = market.with_alpha(torch.zeros(market.rows))
    seen = [
        random_baseline(
            backtest(m), RandomPolicy(), plan(m), episodes=200, cost=0.125, fill_mode=FillMode.POISSON
        )
        for m in (market, blind)
    ]
    assert seen[0] == seen[1]
    assert seen[0].mean < 0.0 < seen[0].standard_error < seen[0].standard_deviation
    assert (seen[0].fill_mode, seen[0].decisions, seen[0].days) == ("poisson", H, 3)


def run_gate(strength: float, seed: int):
    """In-sample choice and out-of-sample verdict; the trained policy is a rule that follows the alpha."""
    inside = drifting_market(6, 600, strength=strength, seed=seed)
    outside = drifting_market(5, 600, strength=strength, seed=seed + 100)
    policy, gate = ThresholdPolicy(enter=0.01), GateConfig(resamples=100)
    chosen, _ = choose_cell([grid_of(inside, policy)], GRID, gate, tick_size="0.25")
    series = run_out_of_sample(
        backtest(outside),
        plan(outside, first_day=11),
        chosen,
        policy=policy,
        random_policy=RandomPolicy(),
        threshold_policy=ThresholdPolicy(enter=0.5),
        fill_mode=FillMode.POISSON,
        queue_fill_mode=FillMode.QUEUE,
    )
    assert series.chosen.keys == series.random.keys == series.threshold_rule.keys
    return judge(evidence(chosen=chosen, oos=series), gate)


def test_a_market_with_alpha_passes_and_a_fair_coin_fails():
    planted = run_gate(strength=1.0, seed=5)
    assert planted.passed, planted.headline
    assert planted.chosen.cost == 0.125
    coin = run_gate(strength=0.0, seed=5)
    assert not coin.passed
    assert {3, 5} <= {c.number for c in coin.failures}
