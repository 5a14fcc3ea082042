"""On an accelerator: the same bits as on the CPU, eagerly and from a captured graph."""

import numpy as np
import pytest
import torch
from market_synthetic import chosen, random_market, settings, some_fill_model

from alpha_core.cuda.philox import uniforms
from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.rng import Purpose, philox_uniforms

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

CONFIG = MarketConfig(
    horizon=40, latency=2, order_size=3, position_limit=9, post_only=False, cancel_ahead_share=0.7
)


NAMES = ("observation", "mask", "reward", "done", "pnl_micro")


def world(device, episodes=2000):
    data = random_market(1500, seed=31)
    starts = episode_starts(data.segment, CONFIG.horizon, CONFIG.latency, stride=1)
    setting = settings(starts, episodes, 1)
    actions = chosen(np.random.default_rng(2), CONFIG.horizon, episodes)
    environment = Environment(data.to(device), CONFIG, some_fill_model())
    return environment, setting, actions.to(device)


def trace(environment, setting, actions, mode):
    state = environment.reset(**setting, fill_mode=mode, seed=4)
    seen = []
    for action in actions:
        state, reward, done = environment.step(state, action)
        seen.append(
            (environment.observe(state), environment.action_mask(state), reward, done, state.pnl_micro)
        )
    return seen


@pytest.mark.parametrize("mode", list(FillMode))
def test_trajectories_are_the_same_bits_as_on_the_cpu(mode):
    ours, theirs = (trace(*world(device), mode) for device in ("cuda", "cpu"))
    for step, (gpu, cpu) in enumerate(zip(ours, theirs, strict=True)):
        for name, got, expected in zip(NAMES, gpu, cpu, strict=True):
            assert torch.equal(got.cpu(), expected), f"{name} at step {step}"


@pytest.mark.parametrize("mode", list(FillMode))
def test_one_launch_gives_the_bits_of_the_readable_rules_on_the_device(mode):
    environment, setting, actions = world("cuda")
    fused = trace(environment, setting, actions, mode)
    environment._fused = None
    for step, (one, other) in enumerate(zip(fused, trace(environment, setting, actions, mode), strict=True)):
        for name, got, expected in zip(NAMES, one, other, strict=True):
            assert torch.equal(got, expected), f"{name} at step {step}"


def test_uniforms_of_one_launch_are_the_same_bits():
    episodes, step = torch.arange(10_000) * 977, torch.tensor([12])
    here = philox_uniforms(2**62 + 5, episodes, 12, Purpose.FILL, 9)
    drawn = uniforms(2**62 + 5, episodes.cuda(), step.cuda(), int(Purpose.FILL), 9)
    assert torch.equal(drawn.cpu(), here)


def test_random_numbers_are_the_same_bits_as_on_the_cpu():
    episodes = torch.arange(10_000) * 977
    here = philox_uniforms(5, episodes, 12, Purpose.FILL, 9)
    assert torch.equal(philox_uniforms(5, episodes.cuda(), 12, Purpose.FILL, 9).cpu(), here)


def test_a_captured_rollout_gives_equal_bits():
    environment, setting, actions = world("cuda")
    expected = trace(environment, setting, actions, FillMode.POISSON)[-1]
    first = environment.reset(**setting, fill_mode=FillMode.POISSON, seed=4)

    def rollout():
        state, total = first, torch.zeros_like(first.threshold)
        for action in actions:
            state, reward, done = environment.step(state, action)
            total = total + reward
        return environment.observe(state), environment.action_mask(state), reward, done, state.pnl_micro

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        rollout()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = rollout()
    for _ in range(3):
        for tensor in captured:
            tensor.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(got, want) for got, want in zip(captured, expected, strict=True))


def test_no_step_reads_the_device_or_copies_from_the_host():
    environment, setting, actions = world("cuda")
    state = environment.reset(**setting, fill_mode=FillMode.POISSON)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for action in actions[:5]:
                state, _, _ = environment.step(state, action)
                environment.observe(state)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    copies = [event.name for event in profile.events() if "Memcpy HtoD" in event.name or "DtoH" in event.name]
    assert copies == []
