"""The heads with W1 folded into the two vectors that read it: w (W1 e + b1) = (W1^T w) e + w b1.

Only two numbers per head are ever read from e1 = W1 e2 + b1, so the D x D product per row is not needed.
"""

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear

from alpha_core.cuda.grn.weights import GRNWeights


def grn_folded(h: Tensor, weights: GRNWeights) -> Tensor:
    """Equal to `grn_formula` up to rounding."""
    w, H = weights, weights.w2.shape[0]
    e2 = gelu(linear(h, w.w2.flatten(0, 1), w.b2.flatten()))  # [..., H D]
    readers = torch.stack((w.w_gate, w.w_main))  # [2, H, D]
    biases = (readers * w.b1).sum(-1) + torch.stack((w.b_gate, w.b_main))
    folded = torch.einsum("rhi,hij->rhj", readers, w.w1)
    # Block-diagonal [2 H, H D]: one plain product beats H small ones.
    blocks = torch.eye(H, dtype=h.dtype, device=h.device)[:, :, None] * folded[:, None]
    gate, main = linear(e2, blocks.flatten(2).flatten(0, 1), biases.flatten()).chunk(2, dim=-1)
    return linear(h, w.w_skip, w.b_skip) + torch.sigmoid(gate) * main
