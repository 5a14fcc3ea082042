"""The convolution for a CPU: a multiply-add of the whole sequence per lag, in place, in either direction.

The weights of a tap are made contiguous first, or each multiply-add would take five times as long.
"""

import torch
from torch import Tensor
from torch.nn.functional import silu

from alpha_core.cuda.conv.reference import next_taps, past_rows, rows_since_reset


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(y [B, T, C], next taps [B, W - 1, C], y before its SiLU [B, T, C])."""
    given, x, (T, W) = x.dtype, x.to(weight.dtype), (x.shape[1], weight.shape[1])
    padded, by_tap = torch.cat((taps, x), dim=1), weight.t().contiguous().unbind(0)
    age = None if reset is None else rows_since_reset(reset, W)
    inner = torch.addcmul(bias, x, by_tap[W - 1])
    for lag in range(1, W):
        inner.addcmul_(past_rows(padded, T, lag, age), by_tap[W - 1 - lag])
    return silu(inner).to(given), next_taps(padded[:, T:], age), inner


def backward(
    grad: Tensor,
    grad_last: Tensor,
    x: Tensor,
    weight: Tensor,
    taps: Tensor,
    reset: Tensor | None,
    inner: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of (x, weight, bias, taps)."""
    given, x, (T, W) = x.dtype, x.to(weight.dtype), (x.shape[1], weight.shape[1])
    padded, by_tap = torch.cat((taps, x), dim=1), weight.t().contiguous().unbind(0)
    age = None if reset is None else rows_since_reset(reset, W)
    grad_inner = torch.ops.aten.silu_backward(grad.to(weight.dtype), inner)
    grad_padded, grad_weight, product = (
        torch.zeros_like(padded),
        torch.empty_like(weight),
        torch.empty_like(inner),
    )
    grad_padded[:, T:] = next_taps(grad_last, age)
    for lag in range(W):
        rows = slice(W - 1 - lag, W - 1 - lag + T)
        seen = grad_inner if age is None or lag == 0 else grad_inner.masked_fill((age < lag)[..., None], 0.0)
        grad_weight[:, W - 1 - lag] = torch.mul(seen, padded[:, rows], out=product).sum((0, 1))
        grad_padded[:, rows].addcmul_(seen, by_tap[W - 1 - lag])
    grad_taps, grad_x = grad_padded.split((W - 1, T), dim=1)
    return grad_x.to(given, copy=True), grad_weight, grad_inner.sum((0, 1)), grad_taps.clone()
