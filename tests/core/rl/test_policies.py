"""Policies by hand: what they choose, what they never choose, and that batches do not matter."""

import math

import pytest
import torch

from alpha_core.errors import ConfigError
from alpha_core.nn.q_networks import C51Network
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.policies import CHUNK, QPolicy, RandomPolicy, ThresholdPolicy, WaitPolicy
from alpha_core.shapes import ACTIONS, OBSERVATIONS

ALL = torch.ones(1, ACTIONS, dtype=torch.bool)
NOTHING = torch.empty(1, 0)


def state(probability_up: float, position: float) -> torch.Tensor:
    observation = torch.zeros(1, OBSERVATIONS)
    observation[0, 0] = math.log(probability_up / (1 - probability_up))
    observation[0, 2] = position
    return observation


@pytest.mark.parametrize(
    ("probability", "position", "action"),
    [
        (0.55, 0.0, 0),  # too weak to enter
        (0.65, 0.0, 1),
        (0.35, 0.0, 2),
        (0.65, -1.0, 1),  # reverses
        (0.45, 1.0, 0),  # has turned, but not far enough to leave
        (0.44, 1.0, 8),
        (0.56, -1.0, 8),
        (0.55, 1.0, 0),
        (0.50, 0.0, 0),
    ],
)
def test_threshold_rule(probability, position, action):
    policy = ThresholdPolicy(enter=0.1, leave=0.055)
    assert int(policy.act(state(probability, position), torch.zeros(1), ALL, NOTHING)) == action


def test_threshold_rule_waits_where_its_order_is_masked_and_where_there_is_no_alpha():
    mask = ALL.clone()
    mask[0, 1] = False
    policy = ThresholdPolicy(enter=0.0, leave=0.0)
    assert int(policy.act(state(0.9, 1.0), torch.zeros(1), mask, NOTHING)) == 0
    for position in (-1.0, 0.0, 1.0):
        assert int(policy.act(state(0.5, position), torch.zeros(1), ALL, NOTHING)) == 0


@pytest.mark.parametrize(("enter", "leave"), [(0.1, 0.2), (0.6, 0.0), (0.1, -0.1)])
def test_threshold_rule_refuses_impossible_levels(enter, leave):
    with pytest.raises(ValueError, match="0 <= leave <= enter"):
        ThresholdPolicy(enter=enter, leave=leave)


def test_random_policy_is_uniform_and_waits_instead_of_what_is_masked():
    u = torch.rand(90_000, 1, generator=torch.Generator().manual_seed(0))
    observation, cost = torch.zeros(90_000, OBSERVATIONS), torch.zeros(90_000)
    mask = torch.ones(90_000, ACTIONS, dtype=torch.bool)
    share = torch.bincount(RandomPolicy().act(observation, cost, mask, u), minlength=ACTIONS) / 90_000
    # Five standard errors of a share of one ninth.
    assert bool((share - 1 / 9).abs().lt(5 * (8 / 81 / 90_000) ** 0.5).all())
    mask[:, 3:8] = False
    masked = torch.bincount(RandomPolicy().act(observation, cost, mask, u), minlength=ACTIONS)
    assert masked[3:8].sum() == 0
    assert float(masked[0]) / 90_000 == pytest.approx(6 / 9, abs=0.01)
    largest = torch.full((1, 1), 1 - 2.0**-24)
    assert int(RandomPolicy().act(observation[:1], cost[:1], ALL, largest)) == 8


def test_wait_policy_waits():
    assert WaitPolicy().act(torch.zeros(5, OBSERVATIONS), torch.zeros(5), ALL, NOTHING).tolist() == [0] * 5


def policy_with_means(means: list[float], **kwargs) -> QPolicy:
    """A network that ignores its input: two atoms at -1 and 1, so that a mean m is p = (1 + m) / 2."""
    network = C51Network(4, 2, generator=torch.Generator().manual_seed(0))
    p = (1 + torch.tensor(means)) / 2
    network.head.weight.data.zero_()
    network.head.bias.data.copy_(torch.stack([(1 - p).log(), p.log()], dim=-1).flatten())
    network.support.copy_(torch.tensor([-1.0, 1.0]))
    return QPolicy(network, **kwargs)


def test_greedy_takes_the_best_legal_action_and_ties_go_to_the_lowest_index():
    policy = policy_with_means([0.0, 0.5, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.9])
    observation, cost = torch.zeros(1, OBSERVATIONS), torch.zeros(1)
    assert int(policy.act(observation, cost, ALL, NOTHING)) == 8
    mask = ALL.clone()
    mask[0, 8] = False
    assert int(policy.act(observation, cost, mask, NOTHING)) == 1


def test_margin_holds_back_differences_within_noise():
    means = [0.1, 0.14, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    observation, cost = torch.zeros(1, OBSERVATIONS), torch.zeros(1)
    assert int(policy_with_means(means).act(observation, cost, ALL, NOTHING)) == 1
    assert int(policy_with_means(means, margin=0.05).act(observation, cost, ALL, NOTHING)) == 0
    assert int(policy_with_means(means, margin=0.03).act(observation, cost, ALL, NOTHING)) == 1


def test_thompson_chooses_as_often_as_its_draws_win():
    # Action 1 pays 1 or -1 evenly, waiting pays -0.5 for sure in the mean; only these two are legal.
    policy = policy_with_means([-0.5, 0.0, *[0.9] * 7], thompson=True)
    n = 40_000
    mask = torch.zeros(n, ACTIONS, dtype=torch.bool)
    mask[:, :2] = True
    u = torch.rand(n, ACTIONS, generator=torch.Generator().manual_seed(1))
    chosen = policy.act(torch.zeros(n, OBSERVATIONS), torch.zeros(n), mask, u)
    # Action 1 wins when it draws 1 (1/2) and waiting draws -1 (3/4); every tie goes to waiting.
    assert set(chosen.tolist()) == {0, 1}
    assert float((chosen == 1).float().mean()) == pytest.approx(0.375, abs=0.015)


@pytest.mark.parametrize("thompson", [False, True])
def test_a_lane_decides_alike_whatever_runs_beside_it(thompson):
    network = C51Network(64, 51, generator=torch.Generator().manual_seed(3))
    network.support.copy_(torch.linspace(-8, 8, 51))
    policy = QPolicy(network, thompson=thompson)
    draw = torch.Generator().manual_seed(9)
    lanes = 2 * CHUNK + 37
    observation, cost = torch.randn(lanes, OBSERVATIONS, generator=draw), torch.rand(lanes, generator=draw)
    u = torch.rand(lanes, ACTIONS, generator=draw)
    means, draws = policy.values(observation, cost, u if thompson else None)
    order = torch.randperm(lanes, generator=draw)[:101]
    for rows in (order, order[:1], order[:7]):
        alone, drawn = policy.values(observation[rows], cost[rows], u[rows] if thompson else None)
        assert torch.equal(alone, means[rows])
        assert (drawn is None and draws is None) or torch.equal(drawn, draws[rows])


def test_no_lanes_no_actions():
    policy = QPolicy(C51Network(4, 5, generator=torch.Generator()))
    empty = torch.empty(0, OBSERVATIONS)
    mask = torch.empty(0, ACTIONS, dtype=torch.bool)
    assert policy.act(empty, torch.empty(0), mask, empty).shape == (0,)


def test_configuration_lists_every_bad_field():
    with pytest.raises(ConfigError) as caught:
        PolicyConfig(discount=1.5, lanes=0, selection="luck", fill_mode="free", cost_low=2.0, explore_low=0.9)
    text = str(caught.value)
    for part in ("discount was 1.5, must be in [0, 1]", "lanes was 0", "'luck'", "'free'", "cost_low was 2"):
        assert part in text
    assert "explore_low was 0.9, must be at most explore_high" in text
    with pytest.raises(ConfigError, match="discount was nan"):
        PolicyConfig(discount=math.nan)


def test_policy_follows_its_configuration():
    network = C51Network(4, 5, generator=torch.Generator())
    found = QPolicy.configured(
        network, PolicyConfig(selection="thompson", mirror=False, margin=0.3, hidden=4, atoms=5)
    )
    assert (found.thompson, found.mirror, found.margin, found.uniforms) == (True, False, 0.3, ACTIONS)
