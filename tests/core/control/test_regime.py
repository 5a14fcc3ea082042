"""Regime defence: reference numbers, floors, bounds."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alpha_core.control.regime import (
    FLOOR_LEAST,
    RegimeRates,
    empty_regime,
    learn_floor,
    observe_volatility,
    update_regime,
)

anything = st.floats(allow_nan=True, allow_infinity=True, width=32)


def t(x):
    return torch.tensor(x, dtype=torch.float32)


def test_reference_numbers(vectors):
    (case,) = json.loads((vectors / "regime_defence.json").read_text())["cases"]
    state = empty_regime(t(case["floor"]))
    rows = zip(case["vol_obs"], case["vol_ema"], case["vol_ref"], case["regime_scale"], strict=True)
    for x, ema, ref, expected in rows:
        state, reference, scale = update_regime(state, t(x))
        got = [float(state.volatility.mean), float(reference), float(scale)]
        assert got == pytest.approx([ema, ref, expected], rel=1e-4)


def test_cells_are_independent():
    x = torch.rand(50, 3, generator=torch.Generator().manual_seed(3)) * 1e-8
    together, alone = empty_regime(torch.full((3,), 1e-12)), [empty_regime(t(1e-12)) for _ in range(3)]
    for row in x:
        together, _, scales = update_regime(together, row)
        for i in range(3):
            alone[i], _, scale = update_regime(alone[i], row[i])
            assert float(scale) == float(scales[i])


@given(st.lists(anything, max_size=40), st.floats(0, 1, width=32))
@settings(max_examples=30, deadline=None)
def test_scale_and_floor_stay_in_their_ranges(xs, floor):
    state = empty_regime(t(max(floor, FLOOR_LEAST)))
    for x in xs:
        state, reference, scale = update_regime(state, t(x))
        state = learn_floor(state)
        assert 0.25 <= float(scale) <= 1.0
        assert t(FLOOR_LEAST) <= state.floor
        assert math.isfinite(float(reference))


def test_constant_volatility_converges_to_full_size():
    state = empty_regime(t(FLOOR_LEAST))
    for _ in range(300):
        state, reference, scale = update_regime(state, t(4e-9))
    assert float(scale) == pytest.approx(1.0, rel=1e-5)
    assert float(reference) == pytest.approx(4e-9, rel=1e-5)


def test_a_burst_shrinks_positions_and_the_floor_limits_how_far():
    state = empty_regime(t(FLOOR_LEAST))
    for _ in range(100):
        state, _, _ = update_regime(state, t(1e-9))
    _, _, scale = update_regime(state, t(2e-9))
    # gain: m = s = 1e-9 gives 0.5, smoothed 1.5e-9; reference 1e-9 + 0.005 x 0.5e-9.
    assert float(scale) == pytest.approx(1.0025 / 1.5, rel=1e-4)
    _, _, floored = update_regime(state._replace(floor=t(1.5e-9)), t(2e-9))
    assert float(floored) == pytest.approx(1.0, rel=1e-4)


def test_floor_learns_towards_its_share_of_the_reference():
    state = empty_regime(t(1e-10))
    state, _, _ = update_regime(state, t(1e-8))
    rates = RegimeRates(floor=0.1, floor_ratio=0.5)
    assert float(learn_floor(state, rates).floor) == pytest.approx(1e-10 + 0.1 * (5e-9 - 1e-10), rel=1e-5)
    for _ in range(300):
        state = learn_floor(state, rates)
    assert float(state.floor) == pytest.approx(5e-9, rel=1e-4)


def test_floor_is_not_learned_before_any_sample():
    assert float(learn_floor(empty_regime(t(1e-10))).floor) == t(1e-10)


def test_volatility_ignores_unmoved_and_broken_mids():
    before = torch.tensor([100.0, 100.0, 100.0, 0.0, -5.0, math.nan])
    after = torch.tensor([101.0, 100.0, 99.0, 1.0, 5.0, 100.0])
    expected = (math.log(1.01) ** 2 + math.log(0.99) ** 2) / 2
    assert float(observe_volatility(before, after)) == pytest.approx(expected, rel=1e-5)
    assert math.isnan(float(observe_volatility(before[1:2], after[1:2])))
