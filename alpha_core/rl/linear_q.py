"""Linear action values, the first rung of the ladder: Q(s, a) = W_a x + b_a."""

from typing import NamedTuple

import torch
from torch import Tensor


class LinearQ(NamedTuple):
    """Parameters: weight [A, F], bias [A]."""

    weight: Tensor
    bias: Tensor


def q_values(params: LinearQ, x: Tensor) -> Tensor:
    """Action values of features [B, F], [B, A]."""
    return x @ params.weight.T + params.bias


def gradient(params: LinearQ, x_tm1: Tensor, a_tm1: Tensor, target_tm1: Tensor) -> LinearQ:
    """Gradient of the mean squared TD error over taken actions, mean((Q(s, a) - target)^2).

    Args:
        params: present parameters.
        x_tm1: [B, F] features.
        a_tm1: [B] int64 actions taken.
        target_tm1: [B] targets, constants.
    """
    q_a = q_values(params, x_tm1).gather(-1, a_tm1[:, None]).squeeze(-1)
    error = 2.0 / x_tm1.shape[0] * (q_a - target_tm1)
    by_action = torch.zeros(x_tm1.shape[0], params.bias.shape[0], dtype=x_tm1.dtype, device=x_tm1.device)
    by_action.scatter_(1, a_tm1[:, None], error[:, None])
    return LinearQ(by_action.T @ x_tm1, by_action.sum(0))


def sgd(params: LinearQ, grads: LinearQ, learning_rate: float) -> LinearQ:
    """One step of gradient descent."""
    return LinearQ(
        params.weight - learning_rate * grads.weight,
        params.bias - learning_rate * grads.bias,
    )
