"""Faults that others had: mass lost on the support, overflow at low temperature, ties, dead streams."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alpha_core.rl import categorical, munchausen, thompson


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        (0.0, 1.0, [0.2] * 5),
        (0.0, 0.5, [0, 0.3, 0.4, 0.3, 0]),
        (3.0, 1.0, [0, 0, 0, 0.2, 0.8]),
        (0.5, 1.0, [0.1, 0.2, 0.2, 0.2, 0.3]),
        (1.0, 0.0, [0, 0, 0, 1.0, 0]),
    ],
)
def test_c51_projection_keeps_mass_that_lands_on_an_atom(reward, discount, expected):
    atoms = categorical.support(-2.0, 2.0, 5)
    found = categorical.bellman_project(
        torch.tensor([reward]), torch.tensor([discount]), torch.full((1, 5), 0.2), atoms
    )
    torch.testing.assert_close(found, torch.tensor([expected]), atol=1e-6, rtol=0)
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-6)


def test_c51_projection_of_a_terminal_zero_lies_on_the_middle_atom():
    atoms = categorical.support(-10.0, 10.0, 51)
    found = categorical.bellman_project(torch.zeros(1), torch.zeros(1), torch.full((1, 51), 1 / 51), atoms)
    assert int(found.argmax()) == 25
    assert float(found[0, 25]) == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    reward=st.floats(-100, 100),
    discount=st.floats(0, 1),
    masses=st.lists(st.floats(0, 1), min_size=5, max_size=5),
)
def test_c51_projection_keeps_mass_and_clipped_mean(reward, discount, masses):
    probs = torch.tensor([masses], dtype=torch.float64)
    atoms = categorical.support(-2.0, 2.0, 5).double()
    values = reward + discount * atoms
    found = categorical.project(values[None], probs, atoms)
    assert float(found.sum()) == pytest.approx(float(probs.sum()), abs=1e-9)
    assert float(found[0] @ atoms) == pytest.approx(float(probs[0] @ values.clamp(-2, 2)), abs=1e-9)
    assert bool((found >= 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("q", [[10.0, 0.0], [300.0, 0.0], [-300.0, -300.0], [1.0, 1.0]])
def test_softmax_does_not_overflow_at_low_temperature(q, dtype):
    values = torch.tensor([q], dtype=dtype)
    log_pi = munchausen.log_policy(values, 0.03)
    assert bool((log_pi.exp().sum(-1) - 1).abs().lt(1e-5).all())
    assert bool(torch.isfinite(munchausen.policy_entropy(log_pi)).all())
    assert bool(torch.isfinite(munchausen.soft_value(values, 0.03)).all())
    clipped = (0.03 * log_pi).clamp(-1.0, 0.0)
    assert bool(torch.isfinite(clipped).all())


def test_softmax_overflow_recipe_in_figures():
    log_pi = munchausen.log_policy(torch.tensor([[10.0, 0.0]]), 0.03)
    torch.testing.assert_close(log_pi, torch.tensor([[0.0, -333.3333]]), atol=1e-3, rtol=0)
    torch.testing.assert_close((0.03 * log_pi).clamp(-1, 0), torch.tensor([[0.0, -1.0]]))
    assert float(munchausen.policy_entropy(log_pi)) == 0.0
    even = munchausen.log_policy(torch.tensor([[-300.0, -300.0]]), 0.03)
    assert float(munchausen.policy_entropy(even)) == pytest.approx(math.log(2))


def test_ties_go_to_the_lowest_index_and_illegal_actions_are_never_drawn():
    probs = torch.full((1, 3, 2), 0.5)
    atoms, uniforms = torch.tensor([0.0, 1.0]), torch.full((1, 3), 0.9)
    assert int(thompson.thompson_action(probs, atoms, uniforms)) == 0
    legal = torch.tensor([[False, False, True]])
    assert int(thompson.thompson_action(probs, atoms, uniforms, legal)) == 2


def test_thompson_draws_follow_the_distribution():
    probs = torch.tensor([0.1, 0.2, 0.7])
    uniforms = torch.rand(200_000, generator=torch.Generator().manual_seed(0))
    drawn = thompson.sample_atoms(probs.expand(200_000, 3), uniforms)
    share = torch.bincount(drawn, minlength=3) / 200_000
    # Four standard errors of a share of 0.2 at this size.
    assert bool((share - probs).abs().lt(4 * math.sqrt(0.2 * 0.8 / 200_000)).all())


def test_negative_tail_is_compressed_smoothly_and_keeps_rank():
    values = torch.tensor([-100.0, -10.0, -2.0, -1.0, 0.0, 3.0])
    found = categorical.compress_tail(values, 2.0)
    torch.testing.assert_close(found[2:], values[2:])
    assert float(found[1]) == pytest.approx(-2 * (1 + math.log(5)), abs=1e-5)
    assert bool((found.diff() > 0).all())
    assert torch.equal(categorical.compress_tail(values, 0.0), values)
