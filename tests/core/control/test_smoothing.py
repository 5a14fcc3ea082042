"""Adaptive smoothing: reference numbers, hull, fixed points."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alpha_core.control.smoothing import AdaptiveEma, empty_ema, update_ema, wiener_gain

anything = st.floats(allow_nan=True, allow_infinity=True, width=32)
finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def run(observations, alpha_min=0.0):
    state, means = empty_ema(), []
    for x in observations:
        state = update_ema(state, torch.tensor(x, dtype=torch.float32), alpha_min=alpha_min)
        means.append(float(state.mean))
    return state, means


def test_reference_numbers(vectors):
    cases = json.loads((vectors / "adaptive_ema.json").read_text())["cases"]
    assert len(cases) == 8
    for case in cases:
        _, means = run(case["observations"], case["alpha_min"])
        assert means == pytest.approx(case["mean_after_each"], abs=1e-6)


def test_a_vector_of_signals_is_the_same_code():
    cells = torch.randn(3, 20, generator=torch.Generator().manual_seed(1))
    state = empty_ema((3,))
    for column in cells.T:
        state = update_ema(state, column, alpha_min=0.4)
    for i in range(3):
        assert float(state.mean[i]) == run(cells[i].tolist(), 0.4)[1][-1]


def test_gain_has_no_epsilon_where_squares_are_tiny():
    m, s = torch.tensor([1e-18, 0.0, 3e-18]), torch.tensor([1e-18, 0.0, 4e-18])
    assert wiener_gain(m, s).tolist() == pytest.approx([0.5, 0.0, 9 / 25], rel=1e-6)


def test_gain_of_an_unchanged_observation_is_one_and_of_an_unmoved_mean_zero():
    assert float(wiener_gain(torch.tensor(2.0), torch.tensor(0.0))) == 1.0
    assert float(wiener_gain(torch.tensor(0.0), torch.tensor(5.0))) == 0.0


@given(st.lists(finite, min_size=1, max_size=30), st.sampled_from([0.0, 0.4, 1.0]))
@settings(max_examples=30, deadline=None)
def test_mean_stays_in_the_hull_of_what_was_seen(xs, alpha_min):
    _, means = run(xs, alpha_min)
    assert all(min(xs) <= mean <= max(xs) for mean in means)


@given(finite, st.integers(1, 20), st.sampled_from([0.0, 0.4]))
@settings(max_examples=25, deadline=None)
def test_a_constant_series_stays_put_exactly(x, n, alpha_min):
    assert run([x] * n, alpha_min)[1] == [x] * n


@given(st.lists(finite, max_size=5), finite)
@settings(max_examples=25, deadline=None)
def test_constant_input_converges_from_anywhere(before, x):
    _, means = run([*before, x, x], 0.0)
    # The second equal observation has no change of its own, so the gain is 1.
    assert means[-1] == x


@given(st.lists(anything, max_size=20))
@settings(max_examples=30, deadline=None)
def test_what_is_not_finite_changes_nothing(xs):
    kept = [x for x in xs if torch.isfinite(torch.tensor(x))]
    state, _ = run(xs)
    clean, _ = run(kept)
    assert all(torch.equal(a, b) for a, b in zip(state, clean, strict=True))
    assert all(bool(torch.isfinite(part)) for part in state)


def test_state_keeps_its_dtype():
    state = AdaptiveEma(*(torch.zeros((), dtype=torch.float64) for _ in range(3)))
    assert update_ema(state, torch.tensor(0.1, dtype=torch.float64)).mean.dtype == torch.float64
