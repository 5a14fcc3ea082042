"""Multi-step returns by hand, and a ring that forgets the oldest."""

import pytest
import torch

from alpha_core.rl.replay import ReplayBuffer, Transitions
from alpha_core.rl.returns import n_step


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None]


def test_n_step_by_hand():
    reward, discount = column(1.0, 2.0, 4.0, 8.0), column(0.5, 0.5, 0.5, 0.5)
    free = torch.zeros(4, 1, dtype=torch.bool)
    found = n_step(reward, discount, free, 3)
    assert found.r_t.flatten().tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4, 8]
    assert found.discount_t.flatten().tolist() == [0.125, 0.125, 0.25, 0.5]
    assert found.steps.flatten().tolist() == [3, 3, 2, 1]


def test_n_step_stops_before_an_exploratory_action_and_at_the_end_of_an_episode():
    reward, ones = column(1.0, 1.0, 1.0, 1.0), column(1.0, 1.0, 1.0, 1.0)
    cut = torch.tensor([[False], [False], [True], [False]])
    assert n_step(reward, ones, cut, 4).steps.flatten().tolist() == [2, 1, 2, 1]
    ended = column(1.0, 0.0, 1.0, 1.0)
    found = n_step(reward, ended, torch.zeros(4, 1, dtype=torch.bool), 4)
    assert found.steps.flatten().tolist() == [2, 1, 2, 1]
    assert found.discount_t.flatten().tolist() == [0.0, 0.0, 1.0, 1.0]


def test_n_below_one_is_refused():
    with pytest.raises(ValueError, match="n was 0, must be at least 1"):
        n_step(column(1.0), column(1.0), torch.zeros(1, 1, dtype=torch.bool), 0)


def batch(*rewards: float) -> Transitions:
    n = len(rewards)
    return Transitions(
        observation_tm1=torch.zeros(n, 10),
        legal_tm1=torch.ones(n, 9, dtype=torch.bool),
        a_tm1=torch.arange(n),
        r_t=torch.tensor(rewards),
        discount_t=torch.ones(n),
        observation_t=torch.zeros(n, 10),
        legal_t=torch.ones(n, 9, dtype=torch.bool),
        cost=torch.zeros(n),
    )


def test_ring_keeps_the_newest_and_samples_each_alike():
    ring = ReplayBuffer(3)
    ring.add(batch(1.0, 2.0))
    ring.add(batch(3.0, 4.0))
    drawn = ring.sample(30_000, torch.Generator().manual_seed(0)).r_t
    values, counts = drawn.unique(return_counts=True)
    assert values.tolist() == [2.0, 3.0, 4.0]
    # Five standard errors of a share of a third.
    assert bool((counts / 30_000 - 1 / 3).abs().lt(5 * (2 / 9 / 30_000) ** 0.5).all())
    ring.add(batch(5.0, 6.0, 7.0, 8.0))
    assert ring.sample(100, torch.Generator().manual_seed(0)).r_t.unique().tolist() == [6.0, 7.0, 8.0]


def test_empty_ring_is_refused():
    with pytest.raises(ValueError, match="empty: add transitions"):
        ReplayBuffer(3).sample(1, torch.Generator())
