"""One gradient step at a time: scales, support, targets, exploration, and what stops a run."""

import math

import pytest
import torch

from alpha_core.errors import ConfigError, DataError
from alpha_core.market.config import FillMode
from alpha_core.rl import categorical, linear_q, munchausen
from alpha_core.rl.config import FILL_MODES, PolicyConfig
from alpha_core.rl.policies import QPolicy
from alpha_core.rl.replay import Transitions
from alpha_core.shapes import ACTIONS, OBSERVATIONS
from alpha_core.training.experience import canonical, collect, draw_episodes, explore_rates
from alpha_core.training.learner import Learner, Scale, derive_scale
from alpha_core.training.policy import fit_policy
from tests.core.training_policy.toy_market import ToyConfig, ToyEnvironment, planted_prices


def transitions(count: int, *, discount: float = 0.9, seed: int = 0) -> Transitions:
    draw = torch.Generator().manual_seed(seed)
    legal = torch.rand(count, ACTIONS, generator=draw) < 0.7
    legal[:, 0] = True
    return Transitions(
        observation_tm1=torch.randn(count, OBSERVATIONS, generator=draw),
        legal_tm1=torch.ones(count, ACTIONS, dtype=torch.bool),
        a_tm1=torch.randint(ACTIONS, (count,), generator=draw),
        r_t=torch.randn(count, generator=draw),
        discount_t=torch.full((count,), discount),
        observation_t=torch.randn(count, OBSERVATIONS, generator=draw),
        legal_t=legal,
        cost=torch.rand(count, generator=draw),
    )


def learner(steps: int = 100, **kwargs) -> Learner:
    config = PolicyConfig(**{"hidden": 16, "atoms": 21, **kwargs})
    return Learner(config, Scale(half_width=10.0, unit=0.5), steps, torch.Generator().manual_seed(0), "cpu")


def test_support_and_unit_follow_the_baseline():
    config = PolicyConfig(discount=0.5, support_deviations=3.0)
    # (1 - 0.25^4) / ((1 - 0.25) 4) = 0.33203125 of the variance is left.
    scale = derive_scale(config, 8.0, 4)
    assert scale.half_width == pytest.approx(24 * math.sqrt(0.33203125))
    assert scale.unit == pytest.approx(scale.half_width / 20)
    undiscounted = derive_scale(PolicyConfig(discount=1.0, reward_unit=2.5), 8.0, 4)
    assert (undiscounted.half_width, undiscounted.unit) == (24.0, 2.5)


def test_linear_values_step_down_the_gradient_of_the_squared_error():
    it, batch = learner(network="linear", gradient_clip=1e9), transitions(32)
    torch.nn.init.normal_(it.online.weight, generator=torch.Generator().manual_seed(3))
    it.target.load_state_dict(it.online.state_dict())
    q = it.online(batch.observation_tm1, batch.cost) / 0.5
    q_t = it.target(batch.observation_t, batch.cost) / 0.5
    settings = munchausen.Munchausen()
    target = (
        batch.r_t / 0.5
        + munchausen.bonus(q, batch.a_tm1, settings)
        + 0.9 * munchausen.soft_value(q_t, settings.tau, batch.legal_t)
    )
    x = it.online.standardised(batch.observation_tm1, batch.cost)
    params = linear_q.LinearQ(it.online.weight.detach().clone(), it.online.bias.detach().clone())
    expected = linear_q.gradient(params, x, batch.a_tm1, 0.5 * target.detach())
    figures, losses = it.update(batch)
    assert losses.shape == (32,)
    # The loss is in squared reward units, the gradient there is of the error in ticks.
    torch.testing.assert_close(it.online.weight.grad, expected.weight / 0.25, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(it.online.bias.grad, expected.bias / 0.25, atol=1e-4, rtol=1e-4)
    assert figures["edge_mass"].item() == 0


def test_thompson_draws_need_distributions():
    with pytest.raises(ConfigError, match="selection was 'thompson', must be 'greedy' with network 'linear'"):
        PolicyConfig(network="linear", selection="thompson")
    with pytest.raises(ConfigError, match="network was 'iqn', must be one of"):
        PolicyConfig(network="iqn")


@pytest.mark.parametrize("spread", [0.0, -1.0, math.nan, math.inf])
def test_a_baseline_without_spread_is_refused(spread):
    with pytest.raises(DataError, match="standard deviation was"):
        derive_scale(PolicyConfig(), spread, 600)


def test_targets_are_those_of_the_pure_functions_in_reward_units():
    it, batch = learner(), transitions(32, discount=0.5)
    atoms = it.online.support / 0.5
    settings = munchausen.Munchausen()
    q_tm1 = it.target(batch.observation_tm1, batch.cost).softmax(-1) @ atoms
    q_t = it.target(batch.observation_t, batch.cost).softmax(-1) @ atoms
    expected = (
        batch.r_t / 0.5
        + munchausen.bonus(q_tm1, batch.a_tm1, settings)
        + 0.5 * munchausen.soft_value(q_t, settings.tau, batch.legal_t)
    )
    found = categorical.expectation(it._distribution(batch, it.target), atoms)
    torch.testing.assert_close(found, expected.detach(), atol=2e-3, rtol=0)


def test_gradient_steps_fit_a_terminal_reward():
    it = learner(steps=300, munchausen_alpha=0.0)
    batch = transitions(64, discount=0.0)
    for _ in range(300):
        figures, _ = it.update(batch)
    q = QPolicy(it.online, mirror=False).values(batch.observation_tm1, batch.cost)[0]
    taken = q.gather(1, batch.a_tm1[:, None]).squeeze(1)
    assert float((taken - batch.r_t).abs().mean()) < 0.15
    assert float(figures["gradient_norm"]) > 0


def test_the_learning_rate_ends_at_zero_and_nothing_moves_any_more():
    it, batch = learner(steps=3), transitions(16)
    for _ in range(4):
        it.update(batch)
    before = [p.detach().clone() for p in it.online.parameters()]
    it.update(batch)
    assert all(torch.equal(a, b) for a, b in zip(before, it.online.parameters(), strict=True))


def test_the_target_network_trails_the_online_one():
    it = learner(target_rate=0.25)
    start = [p.clone() for p in it.target.parameters()]
    it.update(transitions(16))
    for old, new, trailing in zip(start, it.online.parameters(), it.target.parameters(), strict=True):
        torch.testing.assert_close(trailing, old + 0.25 * (new - old), atol=1e-6, rtol=1e-5)


def test_widening_stretches_both_supports_and_keeps_the_unit():
    it = learner()
    it.widen(1.5)
    assert it.scale == Scale(half_width=15.0, unit=0.5)
    for network in (it.online, it.target):
        assert (float(network.support[0]), float(network.support[-1])) == (-15.0, 15.0)


def toy(rows: int = 3000, *, strength: float = 0.05, seed: int = 1, horizon: int = 100) -> ToyEnvironment:
    prices, alpha = planted_prices(rows, strength=strength, seed=seed)
    return ToyEnvironment(prices, alpha, ToyConfig(horizon=horizon))


def swept(policy, config: PolicyConfig, horizon: int = 50):
    market = toy(horizon=horizon)
    episodes = draw_episodes(torch.arange(2900), config, 0, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    return collect(market, episodes, policy, config, fill_mode=0, seed=2, generator=generator), episodes


def test_exploration_rates_span_their_range_in_even_ratios():
    rates = explore_rates(PolicyConfig(lanes=3, explore_low=0.01, explore_high=1.0), "cpu")
    assert rates.tolist() == pytest.approx([0.01, 0.1, 1.0], rel=1e-5)


def test_costs_of_episodes_lie_in_their_range():
    config = PolicyConfig(lanes=500, cost_low=0.25, cost_high=0.75)
    cost = draw_episodes(torch.arange(10), config, 2, torch.Generator().manual_seed(0)).cost_micro
    assert 250_000 <= int(cost.min()) < 300_000
    assert 700_000 < int(cost.max()) <= 750_000


def test_rewards_of_a_sweep_add_up_to_its_pnl():
    # Without discount, bootstrap or mirror, and cut only by the horizon, the first row's return is the episode's.
    config = PolicyConfig(
        lanes=16, discount=1.0, n_step=50, mirror=False, explore_low=1e-6, explore_high=1e-6
    )
    sweep, _ = swept(None, config)
    assert float(sweep.pnl.abs().max()) == 0.0
    config = PolicyConfig(lanes=16, discount=1.0, n_step=1, mirror=False, explore_low=0.3, explore_high=0.3)
    sweep, _ = swept(None, config)
    total = sweep.transitions.r_t.view(50, 16).sum(0)
    assert float(sweep.pnl.abs().max()) > 0
    torch.testing.assert_close(total.double(), sweep.pnl, atol=1e-3, rtol=0)


def test_transitions_of_a_sweep_bootstrap_where_the_exploration_cut_them():
    config = PolicyConfig(lanes=8, discount=0.9, n_step=7, mirror=False, explore_low=0.2, explore_high=0.2)
    sweep, _ = swept(None, config)
    step = torch.log(sweep.transitions.discount_t.view(50, 8)) / math.log(0.9)
    assert bool((sweep.transitions.discount_t.view(50, 8)[-1] == 0).all())
    alive = sweep.transitions.discount_t.view(50, 8) > 0
    assert 1 <= round(float(step[alive].min())) < round(float(step[alive].max())) <= 7
    time_left = [
        o.view(50, 8, OBSERVATIONS)[..., 4]
        for o in (sweep.transitions.observation_tm1, sweep.transitions.observation_t)
    ]
    torch.testing.assert_close((time_left[0] - time_left[1])[alive] * 50, step[alive], atol=1e-3, rtol=0)


def test_canonical_transitions_keep_rewards_and_are_their_own_image():
    batch = transitions(200)
    once = canonical(batch)
    assert bool((once.observation_tm1[:, 0] >= 0).all() and (once.observation_t[:, 0] >= 0).all())
    assert torch.equal(once.r_t, batch.r_t)
    assert not torch.equal(once.a_tm1, batch.a_tm1)
    again = canonical(once)
    assert torch.equal(again.a_tm1, once.a_tm1) and torch.equal(again.legal_t, once.legal_t)


def test_fill_modes_are_those_of_the_environment():
    assert {mode.name.lower() for mode in FillMode} == set(FILL_MODES)
    with pytest.raises(ConfigError, match="fill_mode was 'free'"):
        PolicyConfig(fill_mode="free")


def test_a_loss_that_is_not_finite_stops_the_run_by_name():
    market = toy()
    market.alpha = torch.full_like(market.alpha, torch.nan)
    config = PolicyConfig(lanes=8, sweeps=1, updates=2, batch=16, hidden=8)
    with pytest.raises(DataError, match="loss was nan in sweep 0"):
        fit_policy(market, torch.arange(100), config, baseline_mean=0.0, baseline_std=5.0, seed=0)
    assert config.sweeps == 1


def test_the_support_is_widened_when_it_cuts_too_much_and_the_figures_say_so():
    config = PolicyConfig(lanes=16, sweeps=3, updates=10, batch=64, hidden=8, edge_mass=0.0, widening=2.0)
    seen: list[dict[str, float]] = []
    fit = fit_policy(
        toy(), torch.arange(2000), config, baseline_mean=-30.0, baseline_std=5.0, seed=0, on_log=seen.append
    )
    widths = [figures["half_width"] for figures in seen]
    assert widths == pytest.approx([widths[0], 2 * widths[0], 4 * widths[0]])
    assert fit.scale.half_width == pytest.approx(8 * widths[0])
    assert tuple(seen) == fit.history
    assert float(fit.network.support[-1]) == pytest.approx(fit.scale.half_width, rel=1e-6)
