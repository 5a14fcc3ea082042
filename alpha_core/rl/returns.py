"""Multi-step returns along trajectories."""

from typing import NamedTuple

import torch
from torch import Tensor


class NStep(NamedTuple):
    """Multi-step transitions, one per step of a trajectory.

    Attributes:
        r_t: [T, E] discounted sum of rewards up to the bootstrap state.
        discount_t: [T, E] discount of the bootstrap state's value, 0 where the episode ended before it.
        steps: [T, E] int64, steps between the state acted in and the bootstrap state, 1..n.
    """

    r_t: Tensor
    discount_t: Tensor
    steps: Tensor


def n_step(r_t: Tensor, discount_t: Tensor, cut_tm1: Tensor, n: int) -> NStep:
    """Returns over up to n steps, cut before an exploratory action (Watkins 1989) and at the trajectory's end.

    R = r_0 + g_0 (r_1 + g_1 (r_2 + ...)), continued from step k to k + 1 only while k + 1 < n and the action of step
    k + 1 was the one the policy prefers. A window across an exploratory action would charge its cost to the actions
    before it.

    Args:
        r_t: [T, E] reward of each step.
        discount_t: [T, E] discount after each step, 0 where it ended the episode.
        cut_tm1: [T, E] bool, whether the action of this step was exploratory.
        n: most steps, at least 1.

    Raises:
        ValueError: n below 1.
    """
    if n < 1:
        raise ValueError(f"n was {n}, must be at least 1")
    length = r_t.shape[0]
    total, discount = r_t.clone(), discount_t.clone()
    steps = torch.ones_like(cut_tm1, dtype=torch.int64)
    open_ = torch.ones_like(cut_tm1)
    for k in range(1, min(n, length)):
        # Windows that start at t and still run take step t + k; the last k rows have no such step.
        open_ = open_[: length - k] & ~cut_tm1[k:] & (discount[: length - k] != 0)
        head = slice(0, length - k)
        total[head] += torch.where(open_, discount[head] * r_t[k:], 0.0)
        discount[head] = torch.where(open_, discount[head] * discount_t[k:], discount[head])
        steps[head] += open_
    return NStep(total, discount, steps)
