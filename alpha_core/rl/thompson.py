"""Thompson selection: one draw from each action's return distribution, the best draw acts."""

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


def thompson_action(weights: Tensor, atoms: Tensor, uniforms: Tensor, legal: Tensor | None = None) -> Tensor:
    """argmax over actions of one inverse-CDF draw each; ties go to the lowest index, [B] int64.

    Args:
        weights: [B, A, Z] return distributions, normalised or not.
        atoms: [Z] increasing support.
        uniforms: [B, A] in [0, 1).
        legal: [B, A] bool; the others are never chosen. All legal when None.
    """
    drawn = atoms[sample_atoms(weights, uniforms)]
    return first_argmax(drawn if legal is None else drawn.masked_fill(~legal, -torch.inf))


def first_argmax(values: Tensor) -> Tensor:
    """Lowest index of the maximum over the last dimension, [...] int64.

    torch.argmax does not promise which of equal maxima it returns, and devices differ.
    """
    top = values.amax(-1, keepdim=True)
    places = torch.arange(values.shape[-1], device=values.device)
    return torch.where(values == top, places, values.shape[-1]).amin(-1)
