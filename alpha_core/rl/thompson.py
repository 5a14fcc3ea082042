"""Thompson selection: one draw from each action's return distribution, the best draw acts."""

import torch
from torch import Tensor

from alpha_core.cuda.c51 import sample_atoms


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
