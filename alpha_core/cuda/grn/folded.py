"""The heads with W1 folded into the two vectors that read it: w (W1 e + b1) = (W1^T w) e + w b1.

Only two numbers per head are ever read from e1 = W1 e2 + b1, so the D x D product per row is not needed.
`forward` and `backward` are the operator's form for a CPU: few torch calls, nothing large computed twice.
"""

import torch
from torch import Tensor
from torch.nn.functional import gelu

from alpha_core.cuda.grn.weights import GRNWeights


def fold(weights: GRNWeights) -> tuple[Tensor, Tensor]:
    """The readers of e2 [H, 2, D] and their biases [H, 2]: gate, main."""
    w = weights
    readers = torch.stack((w.w_gate, w.w_main), dim=1)
    biases = torch.stack((w.b_gate, w.b_main), dim=1)
    return readers @ w.w1, torch.baddbmm(biases[..., None], readers, w.b1[..., None])[..., 0]


def forward(
    h: Tensor, w2: Tensor, b2: Tensor, readers: Tensor, biases: Tensor, w_skip: Tensor, b_skip: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(logits [N, H], gate and main before the sigmoid [N, H, 2], W2 h + b2 [N, H D], its GELU [N, H D])."""
    h = h.to(w2.dtype)
    inner = torch.addmm(b2.flatten(), h, w2.flatten(0, 1).t())
    e2 = gelu(inner)
    N, (H, D) = len(h), b2.shape
    heads, read = e2.view(N, H, D), w2.new_empty(N, H, 2)
    torch.baddbmm(biases[:, None], heads.transpose(0, 1), readers.transpose(1, 2), out=read.transpose(0, 1))
    gate, main = read.unbind(2)
    logits = torch.addmm(b_skip, h, w_skip.t()).addcmul_(gate.sigmoid(), main)
    return logits, read, inner, e2


def backward(
    grad: Tensor,
    h: Tensor,
    w2: Tensor,
    readers: Tensor,
    w_skip: Tensor,
    read: Tensor,
    inner: Tensor,
    e2: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of (h, w2, b2, readers, biases, w_skip, b_skip)."""
    N, (H, D), given, h = len(h), w2.shape[:2], h.dtype, h.to(w2.dtype)
    gate, main = read.transpose(0, 1).unbind(2)  # [H, N]
    gate, outer = gate.sigmoid(), grad.t()
    of_read = torch.stack((outer * main * gate * (1 - gate), outer * gate), dim=2)  # [H, N, 2]
    grad_e2 = torch.empty_like(e2).view(N, H, D)
    torch.bmm(of_read, readers, out=grad_e2.transpose(0, 1))
    grad_inner = torch.ops.aten.gelu_backward(grad_e2.view_as(inner), inner)
    return (
        torch.addmm(grad @ w_skip, grad_inner, w2.flatten(0, 1)).to(given),
        (grad_inner.t() @ h).view_as(w2),
        grad_inner.sum(0).view(H, D),
        of_read.transpose(1, 2) @ e2.view(N, H, D).transpose(0, 1),
        of_read.sum(1),
        outer @ h,
        grad.sum(0),
    )
