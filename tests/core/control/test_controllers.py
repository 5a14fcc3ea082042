"""Controllers: reference numbers and bounds under any input."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alpha_core.control.controllers import (
    control_attenuation,
    control_engagement,
    entry_allowed,
    position_size,
)
from alpha_core.control.smoothing import empty_ema

anything = st.floats(allow_nan=True, allow_infinity=True, width=32)


def t(x):
    return torch.tensor(x, dtype=torch.float32)


def engage(tau, state, rate, *, gain, target):
    return control_engagement(
        tau, state, trades=t(rate * 1000), decisions=t(1000.0), gain=gain, target=target
    )


def test_engagement_reference_numbers(vectors):
    for case in json.loads((vectors / "engagement_controller.json").read_text())["cases"]:
        tau, state = t(case["tau0"]), empty_ema()
        for rate, smoothed, expected in zip(case["observed"], case["smoothed"], case["tau"], strict=True):
            tau, state = engage(tau, state, rate, gain=case["k"], target=case["target"])
            assert float(state.mean) == pytest.approx(smoothed, abs=1e-6)
            assert float(tau) == pytest.approx(expected, abs=1e-6)


def test_engagement_without_decisions_counts_one():
    tau, state = control_engagement(
        t(0.1), empty_ema(), trades=t(0.0), decisions=t(0.0), gain=0.5, target=0.1
    )
    assert float(state.mean) == 0.0
    assert float(tau) == pytest.approx(0.05)


@given(st.lists(anything, max_size=12), st.floats(0, 0.5), st.floats(-10, 10), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_engagement_threshold_stays_in_its_range(rates, tau0, gain, target):
    tau, state = t(tau0), empty_ema()
    for rate in rates:
        tau, state = engage(tau, state, rate, gain=gain, target=target)
        assert 0 <= float(tau) <= 0.5


def test_engagement_converges_to_a_rail_under_constant_excess():
    tau, state = t(0.05), empty_ema()
    for _ in range(200):
        tau, state = engage(tau, state, 0.3, gain=0.02, target=0.1)
    assert float(tau) == 0.5


def test_engagement_nan_changes_nothing():
    tau, state = engage(t(0.2), empty_ema(), math.nan, gain=0.1, target=0.1)
    assert float(tau) == pytest.approx(0.2)
    assert float(state.seen) == 0


def test_attenuation_reference_numbers(vectors):
    for case in json.loads((vectors / "kelly_attenuation.json").read_text())["cases"]:
        kappa = t(0.0)
        for sharpe, expected in zip(case["sharpe"], case["kappa"], strict=True):
            kappa = control_attenuation(kappa, t(float(sharpe)), gain=case["k"], target=case["target"])
            assert float(kappa) == pytest.approx(expected, abs=1e-6)


@given(st.lists(anything, min_size=1, max_size=12), anything, st.floats(0, 10), st.floats(-5, 5))
@settings(max_examples=30, deadline=None)
def test_attenuation_never_crosses_its_floor(sharpes, kappa0, gain, target):
    kappa = t(kappa0)
    for sharpe in sharpes:
        kappa = control_attenuation(kappa, t(sharpe), gain=gain, target=target)
        assert t(0.1) <= kappa <= 1.0


def test_attenuation_recovers_from_its_floor():
    kappa = t(0.1)
    for _ in range(100):
        kappa = control_attenuation(kappa, t(2.0), gain=0.05, target=1.0)
    assert float(kappa) == 1.0


def test_attenuation_nan_changes_nothing():
    assert float(control_attenuation(t(0.4), t(math.nan), gain=1.0, target=0.0)) == pytest.approx(0.4)


def test_position_size_hand_worked():
    # 10 lots x 0.5 x 0.8 x 0.9 = 3.6
    assert int(position_size(10, t(0.5), t(0.8), t(0.9))) == 3
    assert int(position_size(10, t(0.5), t(0.0), t(1.0))) == 5  # sentinel


@given(st.integers(0, 1000), anything, anything, anything)
@settings(max_examples=100, deadline=None)
def test_position_size_never_exceeds_the_cap(cap, kelly, kappa, scale):
    assert 0 <= int(position_size(cap, t(kelly), t(kappa), t(scale))) <= cap


def test_entry_gate():
    p = t([0.60, 0.60, 0.40, 0.40, 0.50, math.nan])
    direction = t([1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    assert entry_allowed(p, direction, t(0.05)).tolist() == [True, False, True, False, False, False]
    assert bool(entry_allowed(t(0.5), t(1.0), t(0.0)))
    assert not bool(entry_allowed(t(0.9), t(1.0), t(math.nan)))
