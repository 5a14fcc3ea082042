"""The measuring stick, on hand-worked numbers."""

import numpy as np
import pytest

from alpha_pipeline.simulator import facts
from alpha_pipeline.simulator.event_series import EventSeries, event_series, order_flow_imbalance
from alpha_pipeline.simulator.stylised import stylised_facts


def test_auc_with_ties_counts_a_half():
    up = np.array([True, True, False, False])
    assert facts.rank_auc(up, np.array([2.0, 1.0, 1.0, 0.0])) == pytest.approx(3.5 / 4)
    assert np.isnan(facts.rank_auc(np.array([True, True]), np.array([0.0, 1.0])))


def test_order_flow_imbalance_by_hand():
    bid, ask = np.array([10, 10, 11, 11]), np.array([11, 11, 12, 12])
    bid_lots, ask_lots = np.array([5.0, 8.0, 3.0, 3.0]), np.array([7.0, 6.0, 9.0, 4.0])
    # +3 on the bid, -1 on the ask; then both prices rise: +3 new bid, +6 old ask; then 5 lots leave the ask
    expected = [0.0, 4.0, 9.0, 5.0]
    np.testing.assert_array_equal(order_flow_imbalance(bid, ask, bid_lots, ask_lots), expected)


def test_moving_average_starts_from_zero():
    keep = np.exp(-0.5)
    np.testing.assert_allclose(facts.ema(np.array([1.0, 0.0, 2.0]), 2.0), [
        1 - keep, keep * (1 - keep), keep**2 * (1 - keep) + 2 * (1 - keep)
    ])  # fmt: skip


def test_trader_pays_half_the_spread_and_the_cost_for_each_lot():
    mid2 = np.array([20, 20, 24, 24, 18, 18])
    day = EventSeries(
        time_ns=np.arange(6),
        mid2=mid2,
        spread=np.full(6, 1),
        imbalance=np.zeros(6),
        signed_volume=np.zeros(6),
        trade_sign=np.zeros(0),
        ofi=np.zeros(6),
        signal=np.zeros(6),
        depth=np.zeros(10),
    )
    # long from event 1 to 3 (+2 ticks), short from 3 to 5 (+3 ticks); 4 lots at half a tick and half a tick
    pnl, lots = facts.trader_pnl(day, np.array([0.0, 1.0, 0.1, -1.0, 0.0, 0.0]), 0.5, 0.5)
    assert (pnl, lots) == (5.0 - 4.0, 4)


def test_command_prints_the_tables(capsys):
    facts.main(["--rho", "0", "1", "--days", "2"])
    out = capsys.readouterr().out
    assert "| 0 | latent signal | 0." in out
    assert "| 1 | flow EMA | 0." in out
    assert "share of events with a two-tick spread" in out


def test_stylised_facts_lie_where_markets_do(simulated):
    found = stylised_facts([event_series(simulated, 250_000_000)])
    assert 0.05 < found["autocorrelation of trade signs, lag 1"] < 0.5
    assert 0.5 < found["R2 of OFI against the return of the same 100 events"] < 0.95
    assert abs(found["autocorrelation of returns, lag 1"]) < 0.3
    assert found["excess kurtosis of returns"] > 0.0
    assert found["mean size at level 5, lots"] > found["mean size at the touch, lots"]
