"""The long/short mirror image of experience: what a short seller of the inverted market would have seen and earned."""

import torch
from torch import Tensor

from alpha_core.rl.replay import Transitions

OBSERVATION_SIGNS: tuple[float, ...] = (-1, 1, -1, 1, 1, -1, -1, 1, -1, -1)
"""Sign of each observation under inversion of prices: alpha, position, flow, imbalances and the resting order's side
flip; spread, unrealised PnL, time left and volatility do not."""

ACTION_MIRROR: tuple[int, ...] = (0, 2, 1, 4, 3, 6, 5, 7, 8)
"""Buy and sell, bid and ask change places; wait, cancel and flatten stay."""


def mirror_observation(observation: Tensor) -> Tensor:
    """[..., 10] observation of the inverted market."""
    return observation * torch.tensor(OBSERVATION_SIGNS, device=observation.device)


def mirror_action(action: Tensor) -> Tensor:
    """[...] int64 actions in the inverted market."""
    return torch.tensor(ACTION_MIRROR, device=action.device)[action]


def mirror_transitions(batch: Transitions) -> Transitions:
    """The same experience with buy and sell exchanged; rewards stay, as the mirrored action earns them."""
    order = torch.tensor(ACTION_MIRROR, device=batch.a_tm1.device)
    return Transitions(
        observation_tm1=mirror_observation(batch.observation_tm1),
        legal_tm1=batch.legal_tm1[:, order],
        a_tm1=mirror_action(batch.a_tm1),
        r_t=batch.r_t,
        discount_t=batch.discount_t,
        observation_t=mirror_observation(batch.observation_t),
        legal_t=batch.legal_t[:, order],
        cost=batch.cost,
    )
