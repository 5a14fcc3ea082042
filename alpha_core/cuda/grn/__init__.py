"""Gated residual heads (Lim et al. 2021, Temporal Fusion Transformers); the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.grn.folded import fold
from alpha_core.cuda.grn.op import grn_forward
from alpha_core.cuda.grn.weights import GRNWeights

__all__ = ["GRNWeights", "grn_heads"]


def grn_heads(h: Tensor, weights: GRNWeights) -> Tensor:
    """logit = (w_skip h + b_skip) + sigmoid(w_gate e1 + b_gate)(w_main e1 + b_main).

    e2 = GELU(w2 h + b2), e1 = w1 e2 + b1, with the exact (erf) GELU.

    Args:
        h: [..., D], in the precision of the weights or in half.
        weights: ten tensors, stacked over the H heads.

    Returns:
        logits [..., H] in the precision of the weights.
    """
    flat = h.reshape(-1, h.shape[-1])
    readers, biases = fold(weights)
    w = weights
    logits, *_ = grn_forward(flat, w.w2, w.b2, readers, biases, w.w_skip, w.b_skip)
    return logits.view(*h.shape[:-1], logits.shape[1])
