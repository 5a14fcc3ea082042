"""No public reference joins Munchausen and C51: the distributional target is held to an exactly solved MDP.

Two states, two actions, deterministic. Exact soft values come from value iteration in float64 on the scalar
Munchausen operator; iterating the distributional operator on categorical distributions must reach the same means.
"""

import pytest
import torch

from alpha_core.rl import categorical, munchausen

GAMMA = 0.9
SETTINGS = munchausen.Munchausen(alpha=0.9, tau=0.1, floor=-1.0)
REWARD = torch.tensor([[0.3, -0.2], [0.1, 0.6]], dtype=torch.float64)
NEXT = torch.tensor([[0, 1], [1, 0]])


def exact_values() -> torch.Tensor:
    q = torch.zeros(2, 2, dtype=torch.float64)
    for _ in range(2000):
        m = SETTINGS.alpha * (SETTINGS.tau * munchausen.log_policy(q, SETTINGS.tau)).clamp(
            SETTINGS.floor, 0.0
        )
        q = REWARD + m + GAMMA * munchausen.soft_value(q, SETTINGS.tau)[NEXT]
    return q


def distributional_values(atoms, sweeps: int, settings: munchausen.Munchausen = SETTINGS) -> torch.Tensor:
    probs = torch.zeros(2, 2, atoms.shape[0], dtype=torch.float64)
    probs[..., atoms.shape[0] // 2] = 1.0
    for _ in range(sweeps):
        q = categorical.expectation(probs, atoms)
        updated = torch.empty_like(probs)
        for state in range(2):
            for action in range(2):
                m = munchausen.bonus(q[state][None], torch.tensor([action]), settings)
                updated[state, action] = munchausen.distributional_target(
                    REWARD[state, action][None] + m,
                    torch.tensor([GAMMA], dtype=torch.float64),
                    probs[NEXT[state, action]][None],
                    atoms,
                    settings.tau,
                )[0]
        probs = updated
    return categorical.expectation(probs, atoms)


def test_means_of_the_learned_distributions_are_the_exact_soft_values():
    exact = exact_values()
    atoms = torch.linspace(-12.0, 12.0, 201, dtype=torch.float64)
    assert float(exact.abs().max()) < 11
    torch.testing.assert_close(distributional_values(atoms, 300), exact, atol=1e-6, rtol=0)


def test_without_the_bonus_the_fixed_point_is_another_one():
    atoms = torch.linspace(-12.0, 12.0, 201, dtype=torch.float64)
    plain = munchausen.Munchausen(alpha=0.0, tau=SETTINGS.tau, floor=SETTINGS.floor)
    apart = (exact_values() - distributional_values(atoms, 300, plain)).abs().max()
    assert float(apart) > 0.05


def test_mean_of_the_target_is_reward_plus_soft_value_and_terminal_is_reward_alone():
    draw = torch.Generator().manual_seed(0)
    probs = torch.rand(7, 4, 101, generator=draw, dtype=torch.float64)
    probs /= probs.sum(-1, keepdim=True)
    atoms = torch.linspace(-20.0, 20.0, 101, dtype=torch.float64)
    reward = torch.randn(7, generator=draw, dtype=torch.float64)
    discount = torch.tensor([0.9, 0.9, 0.9, 0.5, 0.5, 0.0, 0.0], dtype=torch.float64)
    target = munchausen.distributional_target(reward, discount, probs, atoms, 0.03)
    soft = munchausen.soft_value(categorical.expectation(probs, atoms), 0.03)
    # Shifts are small beside the support, so nothing is clipped but the far ends.
    found = categorical.expectation(target, atoms)
    assert found[5:].tolist() == pytest.approx(reward[5:].tolist(), abs=1e-9)
    assert found[3:5].tolist() == pytest.approx((reward + discount * soft)[3:5].tolist(), abs=1e-6)
