"""Variable-selection gate (Lim et al. 2021, Temporal Fusion Transformers); the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.vsn.reference import vsn_formula

__all__ = ["vsn_gate"]


def vsn_gate(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """y = F g x with g = softmax(x W + b) over the F features, so that a uniform gate is the identity.

    Args:
        x: [..., F].
        weight: [F, F], inputs by rows.
        bias: [F].

    Returns:
        y [..., F] and the gate g [..., F].
    """
    return vsn_formula(x, weight, bias)
