"""Root-mean-square norm of a gated row, as at the end of Mamba2; the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.norm.op import norm_forward

__all__ = ["gated_norm"]


def gated_norm(y: Tensor, z: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """out = w g / sqrt(mean(g^2) + eps), g = y silu(z), over the last dimension.

    Args:
        y: [..., C].
        z: [..., C], the gate.
        weight: w [C].
        eps: below which a row counts as zero.

    Returns:
        [..., C] in the precision of y.
    """
    shape = y.shape
    return norm_forward(y.reshape(-1, shape[-1]), z.reshape(-1, shape[-1]), weight, eps).view(shape)
