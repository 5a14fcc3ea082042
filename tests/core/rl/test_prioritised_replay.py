"""Draws by priority: the exact distribution, its edges, weights that stay finite, and what a gradient step leaves."""

import dataclasses

import pytest
import torch
from scipy.stats import chisquare

from alpha_core.errors import ConfigError
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.replay import PrioritisedReplay, locate
from tests.core.rl.test_returns_replay import batch
from tests.core.training_policy.test_fit_policy import CONFIG, environment, fit


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def filled(losses, *, alpha=0.6):
    ring = PrioritisedReplay(len(losses), alpha=alpha)
    ring.add(batch(*map(float, range(len(losses)))))
    ring.learned(torch.arange(len(losses)), torch.tensor(losses))
    return ring


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_draws_follow_the_priorities_exactly(alpha):
    losses = [0.0, 0.1, 0.5, 1.0, 2.0, 7.0]
    ring, n = filled(losses, alpha=alpha), 100_000
    drawn = ring.draw(n, generator(), 1.0)
    expected = (torch.tensor(losses).double() + ring.EPSILON) ** alpha
    counts = torch.bincount(drawn.places, minlength=6).double()
    assert chisquare(counts.numpy(), (n * expected / expected.sum()).numpy()).pvalue > 1e-4
    assert torch.equal(drawn.transitions.r_t, drawn.places.float())


def test_fault_prioritised_draws_at_the_ends_never_take_an_item_without_mass():
    """Masses 0, 0, 0, 1 with draws at nothing and at all; and zeros in front, between and behind."""
    u = torch.tensor([0.0, 0.5, 1 - 2.0**-53, 1.0], dtype=torch.float64)
    assert locate(torch.tensor([0, 0, 0, 1]), u).tolist() == [3, 3, 3, 3]
    reached = torch.tensor([0, 5, 0, 5, 0]).cumsum(0)
    assert locate(reached, u).tolist() == [1, 3, 3, 3]
    huge = torch.tensor([2**61, 0, 2**61, 0]).cumsum(0)
    assert locate(huge, u).tolist() == [0, 2, 2, 2]


def test_fault_five_equal_items_are_drawn_alike_the_last_one_included():
    ring = filled([1.0] * 5)
    shares = torch.bincount(ring.draw(100_000, generator(), 0.4).places, minlength=5) / 100_000
    assert bool((shares - 0.2).abs().lt(5 * (0.16 / 100_000) ** 0.5).all())


def test_fault_weights_are_finite_and_at_most_one_whatever_the_priorities():
    ring = filled([0.0, 0.0, 1e6, 1e30])
    drawn = ring.draw(10_000, generator(), 1.0)
    assert torch.isfinite(drawn.weights).all()
    assert drawn.weights.max() == 1
    assert drawn.weights.min() > 0


def test_weights_undo_the_preference():
    """With beta 1 the weighted mean of any figure is its mean over the ring."""
    ring = filled([0.1, 0.5, 1.0, 4.0], alpha=1.0)
    drawn = ring.draw(200_000, generator(), 1.0)
    mean = (drawn.weights * drawn.transitions.r_t).sum() / drawn.weights.sum()
    assert mean == pytest.approx(1.5, abs=0.03)
    equal = ring.draw(1000, generator(), 0.0).weights
    assert torch.equal(equal, torch.ones(1000))


def test_overwritten_slot_has_the_priority_of_what_is_new():
    ring = filled([1e-3, 1e-3, 8.0], alpha=1.0)
    ring.add(batch(9.0))
    assert ring._mass[0] == ring._mass[2] == ring._heaviest
    ring.learned(torch.tensor([0]), torch.tensor([0.5]))
    assert ring._mass[0] == round(0.501 * ring.UNIT)


def test_new_transitions_are_drawn_before_their_loss_is_known_and_twice_drawn_ones_keep_the_larger():
    ring = PrioritisedReplay(4, alpha=1.0)
    ring.add(batch(1.0, 2.0))
    assert set(ring.draw(100, generator(), 0.4).places.tolist()) == {0, 1}
    ring.learned(torch.tensor([1, 0, 1]), torch.tensor([0.2, 0.3, 0.4]))
    assert ring._mass.tolist() == [round(0.301 * ring.UNIT), round(0.401 * ring.UNIT), 0, 0]


def test_equal_generators_draw_alike():
    first, again = (filled([0.3, 1.0, 2.0]).draw(500, generator(4), 0.4) for _ in range(2))
    assert torch.equal(first.places, again.places)
    assert torch.equal(first.weights, again.weights)


def test_empty_and_too_large_rings_are_refused():
    with pytest.raises(ValueError, match="empty: add transitions"):
        PrioritisedReplay(3, alpha=0.6).draw(1, generator(), 0.4)
    with pytest.raises(ValueError, match="capacity was 4194305, must be at most 4194304"):
        PrioritisedReplay(2**22 + 1, alpha=0.6)
    with pytest.raises(ConfigError, match="replay was 5000000, must be at most 4194304"):
        PolicyConfig(replay_kind="prioritised", replay=5_000_000)
    with pytest.raises(ConfigError, match="replay_kind was 'newest', must be one of"):
        PolicyConfig(replay_kind="newest")


def test_training_by_priority_is_the_same_twice_and_another_than_without():
    market = environment(seed=1, readable=True, rows=1500)
    small = dataclasses.replace(CONFIG, lanes=16, sweeps=2, updates=5, replay_kind="prioritised")
    first, again = fit(market, small), fit(market, small)
    plain = fit(market, dataclasses.replace(small, replay_kind="uniform"))
    for name, value in first.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name]), name
    assert not torch.equal(first.network.head.weight, plain.network.head.weight)
