"""Collecting experience: lanes in lockstep, each exploring at its own rate."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.mirror import points_down, turn_action, turn_by_action, turn_observation
from alpha_core.rl.policies import QPolicy
from alpha_core.rl.replay import Transitions
from alpha_core.rl.returns import n_step
from alpha_core.rl.rollout import MarketEnvironment
from alpha_core.shapes import ACTIONS, MICRO


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One episode of every lane.

    Attributes:
        transitions: multi-step, flattened over time and lanes.
        pnl: [E] terminal PnL, ticks.
        drawn: [9] how often the exploratory choice, made for every lane at every step, fell on each action.
    """

    transitions: Transitions
    pnl: Tensor
    drawn: Tensor


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """What distinguishes the lanes of one sweep.

    Attributes:
        starts: [E] int64 rows.
        identities: [E] int64.
        cost_micro: [E] int64, micro-ticks per lot and side.
    """

    starts: Tensor
    identities: Tensor
    cost_micro: Tensor


def explore_rates(config: PolicyConfig, device: str) -> Tensor:
    """Share of exploratory decisions per lane, evenly spaced in logarithm, [E]."""
    low, high = torch.tensor([config.explore_low, config.explore_high], dtype=torch.float64).log()
    return (
        torch.linspace(float(low), float(high), config.lanes, dtype=torch.float64)
        .exp()
        .to(device, torch.float32)
    )


def draw_episodes(starts: Tensor, config: PolicyConfig, sweep: int, generator: torch.Generator) -> Episodes:
    """Random starts and costs for one sweep."""
    chosen = torch.randint(starts.shape[0], (config.lanes,), generator=generator)
    u = torch.rand(config.lanes, generator=generator, dtype=torch.float64)
    cost = (config.cost_low + (config.cost_high - config.cost_low) * u) * MICRO
    return Episodes(
        starts=starts[chosen.to(starts.device)],
        identities=(sweep * config.lanes + torch.arange(config.lanes)).to(starts.device),
        cost_micro=cost.round().long().to(starts.device),
    )


@torch.no_grad()
def collect(
    environment: MarketEnvironment,
    episodes: Episodes,
    policy: QPolicy | None,
    config: PolicyConfig,
    *,
    fill_mode: int,
    seed: int,
    generator: torch.Generator,
) -> Sweep:
    """Run every lane through one episode.

    A lane explores at its rate: by a Thompson draw once there is a policy, by a random legal action before.
    Otherwise it takes the policy's preferred action; before there is one it waits, which shows what holding a
    position brings.

    Args:
        environment: the market.
        episodes: starts, identities and costs.
        policy: present policy, None for the first sweep.
        config: settings.
        fill_mode: of the environment.
        seed: of the environment's own draws.
        generator: exploration noise.
    """
    lanes, device = episodes.starts.shape[0], episodes.starts.device
    rates = explore_rates(config, str(device))
    cost = episodes.cost_micro.float() / MICRO
    state = environment.reset(
        episodes.starts,
        episode_ids=episodes.identities,
        cost_micro=episodes.cost_micro,
        # Entries against the alpha stay masked, as in every cell of the backtest grid.
        threshold=torch.zeros(lanes, device=device),
        fill_mode=fill_mode,
        seed=seed,
    )
    steps: list[tuple[Tensor, ...]] = []
    for _ in range(environment.config.horizon):
        observation, mask = environment.observe(state), environment.action_mask(state)
        u = torch.rand(lanes, ACTIONS + 1, generator=generator).to(device)
        preferred, drawn = _candidates(policy, observation, cost, mask, u[:, 1:])
        action = torch.where(u[:, 0] < rates, drawn, preferred)
        state, reward, done = environment.step(state, action)
        steps.append((observation, mask, action, action != preferred, reward, done, drawn))
    last = (environment.observe(state), environment.action_mask(state))
    stacked = [torch.stack(column) for column in zip(*steps, strict=True)]
    return Sweep(
        transitions=_transitions(stacked[:-1], last, cost, config),
        pnl=state.pnl_micro.double() / MICRO,
        drawn=torch.bincount(stacked[-1].flatten(), minlength=ACTIONS),
    )


def _candidates(
    policy: QPolicy | None, observation: Tensor, cost: Tensor, mask: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor]:
    """The preferred and the exploratory action of each lane, [E] int64 each."""
    if policy is not None:
        return policy.act_both(observation, cost, mask, uniforms)
    # A uniform key per action: the largest among the legal ones is a uniform draw.
    drawn = uniforms.masked_fill(~mask, -1.0).argmax(-1)
    return torch.zeros_like(drawn), drawn


def _transitions(
    stacked: list[Tensor], last: tuple[Tensor, Tensor], cost: Tensor, config: PolicyConfig
) -> Transitions:
    """Multi-step transitions of a [T, E] trajectory, flattened."""
    observation, mask, action, explored, reward, done = stacked
    discount = torch.where(done, 0.0, config.discount)
    steps = n_step(reward, discount, explored, config.n_step)
    length, lanes = reward.shape
    nexts = torch.arange(length, device=reward.device)[:, None] + steps.steps
    lane = torch.arange(lanes, device=reward.device).expand(length, lanes)
    following = torch.cat((observation, last[0][None]))
    legal = torch.cat((mask, last[1][None]))
    transitions = Transitions(
        observation_tm1=observation.flatten(0, 1),
        legal_tm1=mask.flatten(0, 1),
        a_tm1=action.flatten(),
        r_t=steps.r_t.flatten(),
        discount_t=steps.discount_t.flatten(),
        observation_t=following[nexts, lane].flatten(0, 1),
        legal_t=legal[nexts, lane].flatten(0, 1),
        cost=cost.expand(length, lanes).flatten(),
    )
    return canonical(transitions) if config.mirror else transitions


def canonical(batch: Transitions) -> Transitions:
    """Both states of each transition in canonical form; rewards stay, as the mirrored action earns them."""
    down_tm1, down_t = points_down(batch.observation_tm1), points_down(batch.observation_t)
    return replace(
        batch,
        observation_tm1=turn_observation(batch.observation_tm1, down_tm1),
        legal_tm1=turn_by_action(batch.legal_tm1, down_tm1),
        a_tm1=turn_action(batch.a_tm1, down_tm1),
        observation_t=turn_observation(batch.observation_t, down_t),
        legal_t=turn_by_action(batch.legal_t, down_t),
    )
