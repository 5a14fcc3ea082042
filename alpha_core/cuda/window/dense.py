"""The last row of a window in torch calls, its backward pass written out; the maths is in README.md."""

import torch
from torch import Tensor

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""Of x, b, c, delta, a_log and d."""


def forward(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> Tensor:
    """See `window_last`."""
    wide, b, c = (v.to(delta.dtype) for v in (x, b, c))
    _, decay = _decays(delta, a_log)
    weight = (b @ c[:, :, None]) * decay * delta
    y = torch.einsum("nkh,nkhp->nhp", weight, wide) + d[:, None] * wide[:, -1]
    return y.to(x.dtype)


def backward(
    grad: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor
) -> Gradients:
    """Gradients for the gradient [n, H, P] of the result."""
    grad, wide, wide_b, wide_c = (v.to(delta.dtype) for v in (grad, x, b, c))
    behind, decay = _decays(delta, a_log)
    score = wide_b @ wide_c[:, :, None]
    seen = torch.einsum("nhp,nkhp->nkh", grad, wide)
    grad_x = (score * decay * delta)[..., None] * grad[:, None]
    grad_x[:, -1] += d[:, None] * grad
    grad_score = (seen * decay * delta).sum(-1)
    # What a row adds fades with all steps behind it, so each step's gradient gathers from the rows before it.
    fading = seen * score * delta * decay
    earlier = fading.cumsum(1) - fading
    grad_delta = seen * score * decay - torch.exp(a_log) * earlier
    grad_a_log = -torch.exp(a_log) * (fading * behind).sum((0, 1))
    return (
        grad_x.to(x.dtype),
        (grad_score[..., None] * wide_c[:, None]).to(b.dtype),
        (grad_score[..., None] * wide_b).sum(1).to(c.dtype),
        grad_delta,
        grad_a_log,
        seen[:, -1].sum(0),
    )


def _decays(delta: Tensor, a_log: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of the steps behind each row, and what is left of a row after them, [n, K, H] each."""
    behind = torch.cat((delta[:, 1:].flip(1).cumsum(1).flip(1), torch.zeros_like(delta[:, :1])), 1)
    return behind, torch.exp(-torch.exp(a_log) * behind)
