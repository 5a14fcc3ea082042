"""On an accelerator a rollout goes from a recorded graph: bits of the CPU for rules, of eager launches for all."""

from dataclasses import fields

import pytest
import torch

from alpha_core.cuda import graphs
from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.nn.q_networks import C51Network
from alpha_core.rl.policies import QPolicy, RandomPolicy, ThresholdPolicy
from alpha_core.rl.rollout import rollout
from tests.core.market.market_synthetic import random_market, settings, some_fill_model

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

MARKET = MarketConfig(horizon=60, latency=2, order_size=2, position_limit=6, cancel_ahead_share=0.7)


def network():
    net = C51Network(32, 21, generator=torch.Generator().manual_seed(5)).requires_grad_(False)
    net.support.copy_(torch.linspace(-20, 20, 21))
    net.head.weight.mul_(20)
    return net


def run(device, policy, mode=FillMode.POISSON, lanes=900):
    data = random_market(1500, seed=31)
    starts = episode_starts(data.segment, MARKET.horizon, MARKET.latency, stride=1)
    setting = {name: value[:lanes] for name, value in settings(starts, 900, 1).items()}
    environment = Environment(data.to(device), MARKET, some_fill_model())
    return rollout(
        environment, policy, setting.pop("start_rows"), **setting, fill_mode=mode, seed=4, record=True
    )


def same(one, other):
    return all(torch.equal(getattr(one, f.name).cpu(), getattr(other, f.name).cpu()) for f in fields(one))


def without_graphs(monkeypatch):
    def take(self, steps):
        for _ in range(steps):
            self.state = self._step(self.state)
        return self.state

    monkeypatch.setattr(graphs.Repeated, "take", take)


@pytest.mark.parametrize("mode", list(FillMode))
@pytest.mark.parametrize("policy", [RandomPolicy(), ThresholdPolicy(enter=0.05)])
def test_rules_give_the_bits_of_the_cpu(policy, mode):
    assert same(run("cuda", policy, mode), run("cpu", policy, mode))


@pytest.mark.parametrize("thompson", [False, True])
def test_a_recorded_rollout_of_a_network_has_the_bits_of_an_eager_one(thompson, monkeypatch):
    policy = QPolicy(network().cuda(), thompson=thompson)
    recorded = run("cuda", policy)
    assert same(recorded, run("cuda", policy)), "two recordings differ"
    without_graphs(monkeypatch)
    assert same(recorded, run("cuda", policy))
    assert recorded.trades.sum() > 0


def test_a_lane_does_not_know_what_is_beside_it():
    policy = QPolicy(network().cuda(), thompson=True)
    few, many = run("cuda", policy, lanes=300), run("cuda", policy)
    assert torch.equal(few.pnl_micro, many.pnl_micro[:300])
