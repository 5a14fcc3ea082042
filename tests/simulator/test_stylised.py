"""Stylised facts by hand and on simulated days: nothing crosses a halt, and windows are what they are said to be."""

from dataclasses import replace

import numpy as np
import pytest

from alpha_core.errors import InputError
from alpha_pipeline.simulator import SimulatorConfig, simulate_day
from alpha_pipeline.simulator.event_series import SECOND, event_series, stretches
from alpha_pipeline.simulator.stylised import (
    Curve,
    autocorrelations,
    clock_windows,
    decay_exponent,
    explained_by_half_hour,
    facts_of,
    facts_of_market,
    impact_curve,
    spread_shares,
    stylised_facts,
)

TICK_NANOS = 250_000_000


@pytest.fixture(scope="module")
def part(simulated):
    return event_series(simulated, TICK_NANOS)


def test_a_day_without_halts_is_one_stretch(simulated):
    (only,) = stretches(simulated)
    np.testing.assert_array_equal(only.records, simulated.records)
    np.testing.assert_array_equal(only.truth, simulated.truth)


def test_stretches_hold_what_trades_between_halts_and_nothing_of_them(config, simulated):
    halted = simulate_day(replace(config, halts_per_day=6.0), TICK_NANOS, config.day(0), 0)
    parts = [event_series(one, TICK_NANOS) for one in stretches(halted)]
    assert len(parts) == 1 + np.count_nonzero(halted.records["action"][1000:] == b"R") > 2
    whole = event_series(simulated, TICK_NANOS)
    reopenings = len(parts) - 1  # each shows the book of before once more, in an event of its own
    assert sum(len(one.mid2) for one in parts) == len(whole.mid2) + reopenings
    np.testing.assert_array_equal(np.concatenate([one.trade_sign for one in parts]), whole.trade_sign)
    assert {int(s) for one in parts for s in one.spread} == {1, 2}
    assert sum(one.ofi.sum() for one in parts) == whole.ofi.sum()


def test_facts_of_a_market_are_those_of_its_stretches():
    config = SimulatorConfig(events_per_day=20_000, halts_per_day=2.0)
    days = [simulate_day(config, TICK_NANOS, config.day(k), k) for k in range(2)]
    parts = [event_series(one, TICK_NANOS) for day in days for one in stretches(day)]
    found, expected = facts_of_market(config, TICK_NANOS, 2), facts_of(parts)
    assert found.numbers == expected.numbers
    assert (found.events, found.trades, found.windows) == (
        sum(len(p.mid2) for p in parts),
        sum(len(p.trade_sign) for p in parts),
        sum((len(p.mid2) - 1) // 100 for p in parts),
    )


def test_curves_agree_with_the_numbers(part):
    facts = facts_of([part])
    numbers = stylised_facts([part])
    assert numbers.items() <= facts.numbers.items()
    assert facts.spreads.y.tolist() == [
        numbers["share of events with a one-tick spread"],
        numbers["share of events with a two-tick spread"],
    ]
    assert facts.depth.y[[0, 4, 9]].tolist() == [
        numbers[f"mean size at {at}, lots"] for at in ("the touch", "level 5", "level 10")
    ]
    assert facts.trade_signs.y[0] == numbers["autocorrelation of trade signs, lag 1"]
    assert facts.returns.y[0] == numbers["autocorrelation of returns, lag 1"]
    for curve in (facts.impact, facts.explained, facts.volatility):
        assert len(curve.x) == len(curve.y) > 0
        assert np.isfinite([curve.x, curve.y]).all()


def test_windows_by_the_clock_equal_a_plain_count(part):
    begins, flow, moved = clock_windows(part)
    assert np.all(np.diff(begins) == 10)
    assert np.all(begins % 10 == 0)
    for k in (0, 1, len(begins) // 2, len(begins) - 1):
        low, high = begins[k] * SECOND, (begins[k] + 10) * SECOND
        inside = (part.time_ns >= low) & (part.time_ns < high)
        assert flow[k] == part.ofi[inside].sum()
        until = [part.mid2[part.time_ns < edge][-1] for edge in (low, high)]
        assert moved[k] == 0.5 * (until[1] - until[0])


def test_explained_share_of_a_half_hour_is_that_of_its_regression(part):
    begins, flow, moved = clock_windows(part)
    curve = explained_by_half_hour([part])
    assert curve.x.tolist() == [14.5 + 0.5 * k for k in range(13)]
    inside = (begins // 1800) % 48 == 31
    slope, offset = np.polyfit(flow[inside], moved[inside], 1)
    left = np.var(moved[inside] - slope * flow[inside] - offset) / np.var(moved[inside])
    assert curve.y[2] == pytest.approx(1 - left)


def test_autocorrelation_does_not_reach_from_one_part_into_another():
    parts = [np.array([1.0, -1.0, 1.0]), np.array([-1.0, 1.0, -1.0])]
    curve = autocorrelations(parts, np.array([1, 2, 3]))
    assert curve.x.tolist() == [1.0, 2.0]
    assert curve.y.tolist() == [-1.0, 1.0]


def test_exponent_of_a_power_law_is_found_with_noise_about_zero():
    lags = np.arange(1.0, 101.0)
    assert decay_exponent(Curve(x=lags, y=0.2 * lags**-0.6)) == pytest.approx(0.6)
    noise = np.random.default_rng(1).normal(0.0, 0.02, 100)
    assert decay_exponent(Curve(x=lags, y=0.5 * lags**-0.6 + noise)) == pytest.approx(0.6, abs=0.1)


def test_impact_bins_hold_equal_counts():
    flows = np.arange(200.0)[::-1]
    curve = impact_curve(flows, 2.0 * flows)
    np.testing.assert_allclose(curve.x, 4.5 + 10.0 * np.arange(20))
    np.testing.assert_allclose(curve.y, 2.0 * curve.x)


def test_spread_shares_show_spreads_that_do_not_occur_as_zero(part):
    wide = replace(part, spread=np.array([1, 1, 4, 1]))
    assert spread_shares([wide]).y.tolist() == [0.75, 0.0, 0.0, 0.25]


def test_too_small_a_market_is_refused_with_the_remedy():
    with pytest.raises(InputError, match=r"19 windows of 100 events.*at least 100.*simulate more days"):
        facts_of_market(SimulatorConfig(events_per_day=2_000), TICK_NANOS, 1)


def test_too_short_a_session_is_refused_with_the_remedy():
    with pytest.raises(InputError, match=r"no half hour.*raise simulator.session_hours"):
        facts_of_market(SimulatorConfig(events_per_day=20_000, session_hours=0.2), TICK_NANOS, 1)
