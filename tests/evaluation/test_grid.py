"""The grid: keyed by construction, independent of the batch, with figures that a hand can check."""

import math

import numpy as np
import polars as pl
import pytest
from gate_worlds import Edge, backtest, ledger_rollout, plan, series

from alpha_core.errors import ConfigError, DataError
from alpha_pipeline.evaluation.baseline import BaselineStats, random_baseline
from alpha_pipeline.evaluation.choice import choose_cell, chosen_cost
from alpha_pipeline.evaluation.config import GateConfig, GridConfig
from alpha_pipeline.evaluation.episodes import plan_episodes, repeated
from alpha_pipeline.evaluation.grid import COLUMNS, GridResult, run_grid
from alpha_pipeline.evaluation.lockstep import cost_in_micro, cost_in_ticks
from alpha_pipeline.evaluation.series import joined

CONFIG = GridConfig(resamples=200)

BASELINE = BaselineStats(
    mean=-2.0,
    standard_deviation=4.0,
    standard_error=0.1,
    episodes=100,
    days=4,
    decisions=10,
    cost=0.125,
    cost_ticks=0.5,
    fill_mode="poisson",
    seed=0,
)


def grid(gain, *, days: int = 4, per_day: int = 6, config: GridConfig | None = None, **changes) -> GridResult:
    return run_grid(
        backtest(gain, **changes),
        Edge(),
        plan(days, per_day),
        config or CONFIG,
        sample="fold test",
        baseline=BASELINE,
        fill_mode=0,
    )


def drift(days: int = 4, per_day: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(1.0, 3.0, days * per_day * 10)


def test_every_row_matches_its_parameters():
    """PnL encodes cost and threshold; cells finished in any order would show."""
    result = grid(np.zeros(240))
    assert result.cells.height == 30
    keys = [(c, t) for c in CONFIG.costs for t in CONFIG.thresholds]
    assert result.cells.select("cost", "threshold").rows() == keys
    noise = np.mean([(e * 7919 % 1000) / 1000 for e in range(24)])
    for row in result.cells.iter_rows(named=True):
        trades = round(10 * (1 - 2 * row["threshold"]))
        assert row["trades_per_episode"] == trades
        assert row["mean_pnl_ticks"] == pytest.approx(noise - trades * row["cost"] / 0.25, abs=1e-9)
        assert row["mean_pnl_currency"] == pytest.approx(row["mean_pnl_ticks"] * 12.5)
        assert row["cost_ticks"] == row["cost"] / 0.25


def test_a_result_does_not_depend_on_the_batch():
    whole = grid(drift())
    for bound in (1, 7, 24, 50, 719):
        pieces = grid(drift(), max_environments=bound)
        assert pieces.cells.equals(whole.cells)
        assert pieces.episodes.equals(whole.episodes)


def test_memory_is_bounded():
    market = backtest(drift(), max_environments=50)
    run_grid(market, Edge(), plan(4, 6), CONFIG, sample="fold test", baseline=None, fill_mode=0)
    assert max(market.environment.batches) == 50
    assert sum(market.environment.batches) == 30 * 24


def test_figures_of_a_cell_by_hand():
    result = grid(drift())
    row = result.cells.row(0, named=True)
    table = result.episodes.filter(pl.col("cell") == 0)
    pnl = table["pnl_ticks"].to_numpy()
    daily = pnl.reshape(4, 6).sum(axis=1)
    assert row["episodes"] == 24
    assert row["sessions"] == 4
    assert row["sd_pnl_ticks"] == pytest.approx(pnl.std(ddof=1))
    residuals = pnl.reshape(4, 6).sum(axis=1) - 6 * pnl.mean()
    assert row["se_pnl_ticks"] == pytest.approx(math.sqrt(4 / 3 * (residuals**2).sum()) / 24)
    assert row["win_rate"] == (pnl > 0).mean()
    assert row["turnover_per_episode"] == 10
    assert row["passive_fill_share"] == 0.5
    assert row["sharpe_session"] == pytest.approx(daily.mean() / daily.std(ddof=1))
    assert row["sharpe_annual"] == pytest.approx(row["sharpe_session"] * math.sqrt(252))
    assert row["annual_factor"] == pytest.approx(math.sqrt(252))
    assert row["sharpe_annual_se"] == pytest.approx(row["sharpe_session_se"] * math.sqrt(252))
    assert row["return_vs_random"] == pytest.approx((pnl.mean() + 2.0) / 4.0)
    equity = np.concatenate([[0.0], np.cumsum(pnl)])
    assert row["max_drawdown_ticks"] == pytest.approx((np.maximum.accumulate(equity) - equity).max())
    assert row["max_drawdown_episode_ticks"] == pytest.approx(max(0.0, -pnl.min()))
    assert row["ci_low_ticks"] < row["mean_pnl_ticks"] < row["ci_high_ticks"]
    assert (row["ci_unit"], row["sample"], row["undefined"]) == ("intraday block", "fold test", "")
    assert list(result.cells.columns) == list(COLUMNS)


def test_sessions_add_up_to_episodes():
    result = grid(drift())
    sessions = result.sessions
    assert sessions.height == 30 * 4
    assert sessions["pnl_ticks"].sum() == pytest.approx(result.episodes["pnl_ticks"].sum())
    assert sessions["episodes"].to_list() == [6] * 120
    cell = result.series(0.125, 0.1)
    assert cell.by_day() == pytest.approx(
        sessions.filter((pl.col("cost") == 0.125) & (pl.col("threshold") == 0.1))["pnl_ticks"].to_numpy()
    )
    with pytest.raises(DataError, match=r"no cell of cost 0\.3"):
        result.series(0.3, 0.1)


def test_twenty_sessions_are_resampled_whole():
    result = grid(np.random.default_rng(1).normal(size=2400), days=24, per_day=10)
    assert set(result.cells["ci_unit"]) == {"session"}


def test_a_market_that_never_moves_is_undefined_not_infinite():
    market = backtest(np.zeros(240))
    flat = plan(4, 6)
    still = market.__class__(**{**market.__dict__, "rollout": lambda *a, **k: _constant(a[2])})
    cells = run_grid(still, Edge(), flat, CONFIG, sample="fold test", baseline=None, fill_mode=0).cells
    assert cells["sharpe_session"].null_count() == cells["sharpe_annual"].null_count() == 30
    assert cells["passive_fill_share"].null_count() == 30
    assert set(cells["undefined"]) == {"PnL is zero throughout"}
    assert cells["low_activity"].all()
    assert cells["return_vs_random"].null_count() == 30


def _constant(starts):
    zero = starts * 0
    return type(
        "Done",
        (),
        dict.fromkeys(("pnl_micro", "trades", "fills", "turnover", "max_drawdown_micro"), zero),
    )()


def test_one_day_has_no_clustered_error_and_no_session_sharpe():
    row = grid(drift(1, 24), days=1, per_day=24).cells.row(0, named=True)
    assert row["se_pnl_ticks"] is None
    assert row["sharpe_session"] is None
    assert "at least 2" in row["undefined"]
    assert row["ci_low_ticks"] < row["ci_high_ticks"]


def test_baseline_of_another_length_is_refused():
    with pytest.raises(DataError, match="10 decisions per episode and the grid 5"):
        run_grid(
            backtest(drift()),
            Edge(),
            plan(4, 6, decisions=5),
            CONFIG,
            sample="fold test",
            baseline=BASELINE,
            fill_mode=0,
        )


@pytest.mark.parametrize(
    ("cost", "tick", "micro"),
    [
        (0.125, "0.25", 500_000),
        (0.0625, "0.25", 250_000),
        (0.1, "0.01", 10_000_000),
        (0.0005, "0.001", 500_000),
        (0.0, "0.25", 0),
        (0.1, "0.3", 333_333),
    ],
)
def test_costs_become_whole_micro_ticks(cost, tick, micro):
    assert cost_in_micro(cost, tick) == micro
    assert cost_in_ticks(cost, tick) == pytest.approx(micro / 1e6, abs=1e-6)


def test_plans_spread_episodes_and_cut_days_into_blocks():
    rows = np.arange(100) * 10
    days = ["2024-03-01"] * 60 + ["2024-03-04"] * 40
    chosen = plan_episodes(rows, days, episodes=25, decisions=10, blocks_per_session=4)
    assert len(chosen) == 25
    assert chosen.rows[:3].tolist() == [0, 40, 80]
    assert [chosen.day.count(d) for d in ("2024-03-01", "2024-03-04")] == [15, 10]
    assert np.bincount(chosen.block[:15]).tolist() == [4, 4, 4, 3]
    assert np.bincount(chosen.block[15:]).tolist() == [3, 2, 3, 2]
    assert not chosen.overlapping
    few = plan_episodes(rows[:3], days[:3], episodes=25, decisions=10, blocks_per_session=4)
    assert few.block.tolist() == [0, 1, 2]
    assert plan_episodes(rows, days, episodes=200, decisions=11, blocks_per_session=4).overlapping


@pytest.mark.parametrize(
    ("rows", "days", "sentence"),
    [
        ([], [], "lower market.horizon"),
        ([0, 10], ["2024-03-01"], "have 2, 1 and 2 entries"),
        ([10, 0], ["2024-03-01"] * 2, "strictly ascending"),
        ([0, 0], ["2024-03-01"] * 2, "strictly ascending"),
    ],
)
def test_bad_plans_are_refused(rows, days, sentence):
    with pytest.raises(DataError, match=sentence):
        plan_episodes(rows, days, episodes=5, decisions=10, blocks_per_session=4)


def test_random_baseline_counts_days_as_clusters():
    stats = random_baseline(
        backtest(drift(), seed=5),
        Edge(),
        plan(4, 6),
        episodes=100,
        cost=0.125,
        fill_mode=3,
        digests={"cache": "ab"},
    )
    many = repeated(plan(4, 6), 100)
    done = ledger_rollout(
        backtest(drift()).environment,
        Edge(),
        *_tensors(many.rows),
        episode_ids=_tensors(np.arange(100))[0],
        cost_micro=_tensors(np.full(100, 500_000))[0],
        threshold=_tensors(np.full(100, -1.0, dtype=np.float32))[0],
        fill_mode=3,
        seed=5,
    )
    pnl = done.pnl_micro.numpy() / 1e6
    assert stats.mean == pytest.approx(pnl.mean())
    assert stats.standard_deviation == pytest.approx(pnl.std(ddof=1))
    assert (stats.episodes, stats.days, stats.decisions, stats.cost_ticks) == (100, 4, 10, 0.5)
    assert stats.standard_error > 0.0
    assert BaselineStats.from_dict(stats.to_dict()) == stats


def _tensors(*arrays):
    import torch

    return tuple(torch.from_numpy(a) for a in arrays)


def test_a_dead_market_gives_no_baseline():
    market = backtest(np.zeros(240))
    still = market.__class__(**{**market.__dict__, "rollout": lambda *a, **k: _constant(a[2])})
    with pytest.raises(DataError, match="all earned 0"):
        random_baseline(still, Edge(), plan(4, 6), episodes=10, cost=0.0, fill_mode=0)


def test_the_cell_is_chosen_at_half_a_tick_by_its_sharpe_over_all_folds():
    config, gate = CONFIG, GateConfig()
    folds = [grid(drift() + shift) for shift in (0.5, 1.0)]
    choice, table = choose_cell(folds, config, gate, tick_size="0.25")
    assert (choice.cost, choice.cost_ticks, choice.next_cost) == (0.125, 0.5, 0.25)
    sharpes = dict(table.select("threshold", "sharpe").rows())
    assert choice.sharpe == max(sharpes.values()) == sharpes[choice.threshold]
    # Fewer trades cost less in this market, so the highest threshold is best.
    assert choice.threshold == 0.25
    both = joined([f.series(0.125, 0.25) for f in folds])
    assert choice.observations == both.pnl_ticks.size == 48
    assert choice.sessions == 4
    assert choice.tried == 6


def test_without_a_defined_sharpe_nothing_is_chosen():
    market = backtest(np.zeros(240))
    still = market.__class__(**{**market.__dict__, "rollout": lambda *a, **k: _constant(a[2])})
    flat = run_grid(still, Edge(), plan(4, 6), CONFIG, sample="x", baseline=None, fill_mode=0)
    choice, _ = choose_cell([flat], CONFIG, GateConfig(), tick_size="0.25")
    assert (choice.threshold, choice.sharpe) == (None, None)
    assert "zero throughout" in choice.reason


def test_the_chosen_cost_must_be_in_the_grid():
    assert chosen_cost(GridConfig(costs=(0.125,)), GateConfig(), "0.25") == (0.125, None)
    assert chosen_cost(GridConfig(costs=(0.0, 0.0005, 0.001)), GateConfig(), "0.001") == (0.0005, 0.001)
    with pytest.raises(ConfigError, match=r"must contain gate.chosen_cost_ticks = 0\.5"):
        chosen_cost(CONFIG, GateConfig(), "0.01")
    with pytest.raises(ConfigError, match="at least one"):
        choose_cell([], CONFIG, GateConfig(), tick_size="0.25")


def test_joined_series_keep_time_order_and_unique_blocks():
    first, second = series([1, 2, 3, 4], 2), series([5, 6], 1)
    both = joined([second, first])
    assert np.all(np.diff(both.time_ns) >= 0)
    assert len(set(both.keys)) == 6
    assert both.pnl_ticks.sum() == 21


@pytest.mark.parametrize(
    "changes",
    [
        {"costs": ()},
        {"costs": (0.5, 0.25)},
        {"costs": (-0.1, 0.0)},
        {"costs": (0.0, float("nan"))},
        {"thresholds": (0.0, 0.6)},
        {"episodes": 0},
        {"blocks_per_session": 0},
        {"confidence": 1.0},
        {"resamples": 5},
        {"max_environments": 0},
        {"baseline_episodes": 1},
    ],
)
def test_bad_grids_are_named(changes):
    with pytest.raises(ConfigError, match=f"{next(iter(changes))} was"):
        GridConfig(**changes)
