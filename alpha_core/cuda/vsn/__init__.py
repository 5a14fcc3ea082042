"""Variable-selection gate (Lim et al. 2021, Temporal Fusion Transformers); the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.vsn.op import vsn_forward

__all__ = ["vsn_gate", "vsn_select"]


def vsn_gate(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """y = F g x with g = softmax(x W + b) over the F features, so that a uniform gate is the identity.

    Args:
        x: [..., F], in the precision of the weights or in half.
        weight: [F, F], inputs by rows.
        bias: [F].

    Returns:
        y [..., F] in the precision of x and the gate g [..., F] in that of the weights.
    """
    y, gate = vsn_forward(x.reshape(-1, x.shape[-1]), weight, bias, True)
    return y.view(x.shape), gate.view(x.shape)


def vsn_select(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The y of `vsn_gate` alone: on a device the gate is then never written."""
    return vsn_forward(x.reshape(-1, x.shape[-1]), weight, bias, False)[0].view(x.shape)
