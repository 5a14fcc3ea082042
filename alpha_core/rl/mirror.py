"""The long/short mirror: in a market with all prices inverted, buying is selling and the best action mirrors.

A policy that knows this need only learn half of what it sees: each state is turned so that its alpha points up (its
canonical form), and the action is turned back. Experience counts twice, and no long or short bias can be learned.
"""

from functools import cache

import torch
from torch import Tensor

OBSERVATION_SIGNS: tuple[float, ...] = (-1, 1, -1, 1, 1, -1, -1, 1, -1, -1)
"""Sign of each observation under inversion of prices: alpha, position, flow, imbalances and the resting order's side
flip; spread, unrealised PnL, time left and volatility do not."""

ACTION_MIRROR: tuple[int, ...] = (0, 2, 1, 4, 3, 6, 5, 7, 8)
"""Buy and sell, bid and ask change places; wait, cancel and flatten stay."""

ALPHA = 0
"""Place of the alpha in the observation."""


@cache
def _signs(device: torch.device, dtype: torch.dtype) -> Tensor:
    """OBSERVATION_SIGNS where they are needed: a copy at each use would be one from the host."""
    with torch.inference_mode(False):
        return torch.tensor(OBSERVATION_SIGNS, dtype=dtype, device=device)


@cache
def _mirror(device: torch.device) -> Tensor:
    """ACTION_MIRROR likewise."""
    with torch.inference_mode(False):
        return torch.tensor(ACTION_MIRROR, device=device)


def points_down(observation: Tensor) -> Tensor:
    """Whether a state's canonical form is its mirror image: its alpha is below 0. [..., 10] -> [...] bool."""
    return observation[..., ALPHA] < 0


def turn_observation(observation: Tensor, turned: Tensor) -> Tensor:
    """Observations with those of `turned` mirrored; [..., 10] float32, [...] bool."""
    signs = _signs(observation.device, observation.dtype)
    return torch.where(turned[..., None], observation * signs, observation)


def turn_action(action: Tensor, turned: Tensor) -> Tensor:
    """Actions with those of `turned` mirrored; [...] int64, [...] bool. Its own inverse."""
    mirrored = _mirror(action.device)[action]
    return torch.where(turned, mirrored, action)


def turn_by_action(values: Tensor, turned: Tensor) -> Tensor:
    """One value per action, with those of `turned` mirrored; [..., 9], [...] bool. Its own inverse."""
    return torch.where(turned[..., None], values[..., _mirror(values.device)], values)
