"""What a policy reads off return distributions: their means, and one draw from each; the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.c51.dense import sample_atoms
from alpha_core.cuda.c51.op import c51_values

__all__ = ["sample_atoms", "values_and_draws"]


def values_and_draws(
    logits: Tensor, support: Tensor, uniforms: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Mean of each distribution softmax(logits) over the support, and its quantile at a uniform.

    Not differentiable: policies act on it, losses go through the logits.

    Args:
        logits: [n, A, Z] float32.
        support: [Z] float32, increasing.
        uniforms: [n, A] float32 in [0, 1), or None for no draws.

    Returns:
        means [n, A], and draws [n, A] where uniforms are given.
    """
    means, draws = c51_values(logits, support, uniforms)
    return means, None if uniforms is None else draws
