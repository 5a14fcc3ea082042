"""The heads as the design writes them, one formula after the other."""

import torch
from torch import Tensor
from torch.nn.functional import gelu

from alpha_core.cuda.grn.weights import GRNWeights


def grn_formula(h: Tensor, weights: GRNWeights) -> Tensor:
    """The oracle of `grn_heads`; same arguments, shapes and result."""
    w = weights
    e2 = gelu(torch.einsum("hij,...j->...hi", w.w2, h) + w.b2)
    e1 = torch.einsum("hij,...hj->...hi", w.w1, e2) + w.b1
    skip = torch.einsum("hi,...i->...h", w.w_skip, h) + w.b_skip
    gate = torch.sigmoid((w.w_gate * e1).sum(-1) + w.b_gate)
    return skip + gate * ((w.w_main * e1).sum(-1) + w.b_main)
