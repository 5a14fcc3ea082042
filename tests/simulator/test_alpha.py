"""rho = 0 is a null market: nothing seen foretells the mid. rho > 0 is not."""

from dataclasses import replace

import numpy as np
import pytest

from alpha_pipeline.simulator import SimulatorConfig, simulate_day
from alpha_pipeline.simulator.event_series import change, event_series
from alpha_pipeline.simulator.facts import ema, flow_score, pooled_auc, trader_pnl

TICK_NANOS = 250_000_000
DAYS = 8


def series(rho: float, days: int, events: int = 60_000):
    config = SimulatorConfig(events_per_day=events, rho=rho, seed=11)
    return [event_series(simulate_day(config, TICK_NANOS, config.day(k), k), TICK_NANOS) for k in range(days)]


@pytest.fixture(scope="module")
def null_market():
    return series(0.0, DAYS)


@pytest.fixture(scope="module")
def alpha_market():
    return series(1.0, 4)


SCORES = {
    "signal": lambda d: d.signal,
    "imbalance": lambda d: d.imbalance,
    "mean imbalance": lambda d: ema(d.imbalance, 100),
    "trade flow": flow_score,
    "fast OFI": lambda d: ema(d.ofi, 20),
    "slow OFI": lambda d: ema(d.ofi, 500),
    "past return": lambda d: ema(np.diff(d.mid2, prepend=d.mid2[0]), 100),
    "spread times last move": lambda d: (d.spread - 1) * np.sign(d.ofi),
}


def z_score(days, score, horizon):
    """Standardised sum of score x return over disjoint windows: about N(0, 1) for a martingale."""
    products = np.concatenate(
        [(score(d)[: len(d.mid2) - horizon] * change(d.mid2, horizon))[200::horizon] for d in days]
    )
    return products.sum() / np.sqrt(np.sum(products**2))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("horizon", [1, 30, 300])
def test_null_nothing_foretells_the_mid(null_market, name, horizon):
    assert abs(z_score(null_market, SCORES[name], horizon)) < 3.5


def test_null_market_without_drift(null_market):
    steps = np.concatenate([np.diff(d.mid2) for d in null_market])
    moves = np.count_nonzero(steps)
    assert moves > 40_000
    assert abs(steps.sum()) / np.sqrt(moves) < 3.5


def test_null_moves_are_independent_coins(null_market):
    """Successive half-tick moves, bounce included, are uncorrelated."""
    z = []
    for d in null_market:
        moves = np.diff(d.mid2)
        moves = moves[moves != 0]
        z.append(np.sum(moves[1:] * moves[:-1]) / np.sqrt(len(moves) - 1))
    assert abs(np.sum(z)) / np.sqrt(len(z)) < 3.5


@pytest.mark.parametrize("name", ["signal", "mean imbalance", "trade flow", "slow OFI", "past return"])
def test_planted_alpha_is_found_by_the_same_scores(alpha_market, name):
    assert z_score(alpha_market, SCORES[name], 100) > 4.0


def test_planted_alpha_has_the_shipped_strength(alpha_market):
    signals, flows = [d.signal for d in alpha_market], [flow_score(d) for d in alpha_market]
    for horizon in (300, 1000):
        truth, seen = pooled_auc(alpha_market, signals, horizon), pooled_auc(alpha_market, flows, horizon)
        assert 0.60 < seen < truth < 0.85


def test_knowing_the_signal_pays_for_the_spread_and_half_a_tick(alpha_market, null_market):
    assert all(trader_pnl(d, d.signal, 0.7, 0.5)[0] > 20.0 for d in alpha_market)
    assert np.mean([trader_pnl(d, d.signal, 0.7, 0.5)[0] for d in null_market]) < 0.0


def test_more_rho_is_more_alpha():
    aucs = []
    for rho in (0.0, 0.5, 1.0, 2.0):
        days = series(rho, 2, events=30_000)
        aucs.append(pooled_auc(days, [d.signal for d in days], 300))
    assert aucs == sorted(aucs)
    assert aucs[0] < 0.56
    assert aucs[-1] > 0.75


def test_signal_has_unit_variance_and_the_time_constant_asked_for():
    config = replace(SimulatorConfig(), events_per_day=400_000, signal_events=200.0)
    x = simulate_day(config, TICK_NANOS, "2024-01-02", 0).truth.astype(np.float64)
    assert np.std(x) == pytest.approx(1.0, abs=0.06)
    assert np.corrcoef(x[200:], x[:-200])[0, 1] == pytest.approx(np.exp(-1.0), abs=0.06)
