"""The gate for a CPU: the formula in few torch calls, and its derivative."""

import torch
from torch import Tensor


def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(y [N, F], gate [N, F])."""
    full = x.to(weight.dtype)
    # Not addmm, whose error for a single row is half as large again.
    gate = torch.softmax((full @ weight).add_(bias), dim=1)
    return torch.mul(full, gate).mul_(x.shape[1]).to(x.dtype), gate


def backward(
    grad: Tensor, grad_gate: Tensor | None, x: Tensor, weight: Tensor, gate: Tensor, with_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (x, weight, bias)."""
    given, x = x.dtype, x.to(weight.dtype)
    outer = x.shape[1] * grad.to(weight.dtype)
    of_gate = outer * x if grad_gate is None else torch.addcmul(grad_gate, outer, x)
    scores = torch.ops.aten._softmax_backward_data(of_gate, gate, 1, gate.dtype)
    of_x = torch.addmm(outer.mul_(gate), scores, weight.t()) if with_x else x.new_empty(0, 0)
    return of_x.to(given), x.t() @ scores, scores.sum(0)
