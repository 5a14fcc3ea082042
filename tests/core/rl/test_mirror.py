"""The long/short mirror is a symmetry of the market environment itself, and of the policy."""

from dataclasses import replace

import pytest
import torch

from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.data import TAPE_OFFSETS, TAPE_SIDE
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.nn.q_networks import C51Network
from alpha_core.rl.mirror import (
    ACTION_MIRROR,
    OBSERVATION_SIGNS,
    points_down,
    turn_action,
    turn_by_action,
    turn_observation,
)
from alpha_core.rl.policies import QPolicy
from alpha_core.shapes import ACTIONS, OBSERVATIONS, UNDEFINED_TICKS
from tests.core.market.market_synthetic import random_market, some_fill_model

PIVOT = 5000
"""Prices p become PIVOT - p."""


def inverted(market):
    """The market in which every price is PIVOT minus itself, so that bids are asks and buyers sellers."""

    def price(p):
        return torch.where(p == UNDEFINED_TICKS, p, PIVOT - p)

    book = market.book[:, :, [1, 0, 3, 2]].clone()
    book[:, :, :2] = price(book[:, :, :2])
    buys, sells = market.tape[:, :TAPE_SIDE], market.tape[:, TAPE_SIDE : 2 * TAPE_SIDE]
    tape = torch.cat([sells, buys, market.tape[:, [21, 20]]], dim=1)
    for extreme in (TAPE_OFFSETS, TAPE_SIDE + TAPE_OFFSETS):
        tape[:, extreme] = price(tape[:, extreme])
    odd = [market.feature_names.index(n) for n in ("microprice_minus_mid", "queue_imbalance_1", "ofi_1")]
    features = market.features.clone()
    features[:, odd] *= -1
    return replace(
        market, mid2=2 * PIVOT - market.mid2, book=book, tape=tape, features=features, alpha=-market.alpha
    )


def even_fill_model():
    """The same intensities on both sides."""
    model = some_fill_model()
    return replace(model, intercept=model.intercept.mean(1, keepdim=True).expand(-1, 2).contiguous())


@pytest.mark.parametrize("mode", list(FillMode))
def test_mirrored_actions_in_the_inverted_market_earn_the_same(mode):
    market = random_market(400, seed=4, segments=1)
    config = MarketConfig(horizon=80)
    starts = episode_starts(market.segment, 80, 1, stride=4)
    lanes = len(starts)
    straight, turned = (Environment(m, config, even_fill_model()) for m in (market, inverted(market)))
    reset = {
        "episode_ids": torch.arange(lanes),
        "cost_micro": torch.full((lanes,), 250_000),
        "threshold": torch.full((lanes,), 0.1),
        "fill_mode": mode,
        "seed": 3,
    }
    here, there = straight.reset(starts, **reset), turned.reset(starts, **reset)
    all_turned, traded = torch.ones(lanes, dtype=torch.bool), 0
    generator = torch.Generator().manual_seed(1)
    for _ in range(80):
        seen = turn_observation(straight.observe(here), all_turned)
        torch.testing.assert_close(turned.observe(there), seen, atol=1e-5, rtol=1e-5)
        mask = turn_by_action(straight.action_mask(here), all_turned)
        assert torch.equal(turned.action_mask(there), mask)
        action = torch.randint(ACTIONS, (lanes,), generator=generator)
        here, _, _ = straight.step(here, action)
        there, _, _ = turned.step(there, turn_action(action, all_turned))
        assert torch.equal(here.pnl_micro, there.pnl_micro)
        traded = int(here.fills.sum())
    assert traded > lanes


def test_turning_twice_changes_nothing():
    turned = torch.tensor([True, False])
    observation = torch.randn(2, OBSERVATIONS, generator=torch.Generator().manual_seed(0))
    actions = torch.arange(ACTIONS).expand(2, ACTIONS)
    flags = turned[:, None].expand(2, ACTIONS)
    assert torch.equal(turn_observation(turn_observation(observation, turned), turned), observation)
    assert torch.equal(turn_action(turn_action(actions, flags), flags), actions)
    assert torch.equal(turn_by_action(turn_by_action(actions, turned), turned), actions)
    assert turn_action(actions, flags)[0].tolist() == list(ACTION_MIRROR)
    assert turn_action(actions, flags)[1].tolist() == list(range(ACTIONS))


@pytest.mark.parametrize("thompson", [False, True])
def test_the_policy_mirrors_its_actions(thompson):
    network = C51Network(16, 11, generator=torch.Generator().manual_seed(2))
    network.support.copy_(torch.linspace(-5, 5, 11))
    policy = QPolicy(network, thompson=thompson)
    draw = torch.Generator().manual_seed(5)
    observation = torch.randn(300, OBSERVATIONS, generator=draw)
    cost, uniforms = torch.rand(300, generator=draw), torch.rand(300, ACTIONS, generator=draw)
    mask = torch.rand(300, ACTIONS, generator=draw) < 0.6
    mask[:, 0] = True
    every = torch.ones(300, dtype=torch.bool)
    straight = policy.act(observation, cost, mask, uniforms)
    mirrored = policy.act(
        turn_observation(observation, every),
        cost,
        turn_by_action(mask, every),
        turn_by_action(uniforms, every),
    )
    assert straight.unique().numel() > 4
    means, draws = policy.values(observation, cost, uniforms if thompson else None)
    top = (means if draws is None else draws).masked_fill(~mask, -torch.inf)
    # Where two actions share the best draw the lowest index wins, on either side of the mirror.
    clear = (top == top.amax(-1, keepdim=True)).sum(-1) == 1
    assert int(clear.sum()) > 200
    assert torch.equal(turn_action(mirrored, every)[clear], straight[clear])


def test_canonical_form_has_its_alpha_up():
    observation = torch.randn(50, OBSERVATIONS, generator=torch.Generator().manual_seed(0))
    observation[0, 0] = 0.0
    canonical = turn_observation(observation, points_down(observation))
    assert bool((canonical[:, 0] >= 0).all())
    assert torch.equal(canonical[0], observation[0])
    assert len(OBSERVATION_SIGNS) == OBSERVATIONS
