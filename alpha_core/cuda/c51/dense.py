"""Means and draws of return distributions in torch calls."""

import torch
from torch import Tensor


def sample_atoms(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Index of the first atom whose cumulative probability reaches the uniform, [...] int64.

    Args:
        weights: [..., Z] non-negative masses, normalised or not: they are compared with u times their sum.
        uniforms: [...] in [0, 1).
    """
    cumulative = weights.cumsum(-1)
    below = cumulative < uniforms[..., None] * cumulative[..., -1:]
    # bytes add several times faster than the int64 that a bool sum makes.
    return below.sum(-1, dtype=torch.uint8).long() if weights.shape[-1] < 256 else below.sum(-1)


def values(logits: Tensor, support: Tensor, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    """See `op.c51_values`."""
    probs = logits.softmax(-1)
    means = probs @ support
    return means, means.new_empty(0, means.shape[1]) if uniforms is None else support[
        sample_atoms(probs, uniforms)
    ]
