"""The heads as PyTorch operators: the tensor's device chooses the form, shapes are known without running, and
gradients flow.

    alpha::grn_forward(h, w2, b2, readers, biases, w_skip, b_skip) -> logits, read, inner, e2
    alpha::grn_backward(grad, h, w2, b2, readers, w_skip, read, inner, e2) -> gradients of the forward's arguments

h is [N, D] in any precision; weights, logits and their gradients share another. Kept for the backward pass: `read`
[N, H, 2], what the gate and the main path read from e2; and on a CPU `inner` = W2 h + b2 and `e2`, which the kernels
compute anew, so that there both are empty.
"""

from typing import Any

import torch
from torch import Tensor

from alpha_core.cuda.grn import folded

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@torch.library.custom_op("alpha::grn_forward", mutates_args=(), device_types="cpu")
def grn_forward(
    h: Tensor, w2: Tensor, b2: Tensor, readers: Tensor, biases: Tensor, w_skip: Tensor, b_skip: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits [N, H], `readers` [H, 2, D] and `biases` [H, 2] from `folded.fold`, and what is kept."""
    return folded.forward(h, w2, b2, readers, biases, w_skip, b_skip)


@torch.library.custom_op("alpha::grn_backward", mutates_args=(), device_types="cpu")
def grn_backward(
    grad: Tensor,
    h: Tensor,
    w2: Tensor,
    b2: Tensor,
    readers: Tensor,
    w_skip: Tensor,
    read: Tensor,
    inner: Tensor,
    e2: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of h, w2, b2, readers, biases, w_skip and b_skip from that of the logits."""
    return folded.backward(grad, h, w2, readers, w_skip, read, inner, e2)


@grn_forward.register_kernel("cuda")
def _(
    h: Tensor, w2: Tensor, b2: Tensor, readers: Tensor, biases: Tensor, w_skip: Tensor, b_skip: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from alpha_core.cuda.grn import kernels

    logits, read = kernels.forward(h, w2, b2, readers, biases, w_skip, b_skip)
    return logits, read, w2.new_empty(0, 0), w2.new_empty(0, 0)


@grn_backward.register_kernel("cuda")
def _(
    grad: Tensor,
    h: Tensor,
    w2: Tensor,
    b2: Tensor,
    readers: Tensor,
    w_skip: Tensor,
    read: Tensor,
    inner: Tensor,
    e2: Tensor,
) -> Gradients:
    from alpha_core.cuda.grn import kernels

    return kernels.backward(grad, h, w2, b2, readers, w_skip, read)


@grn_forward.register_fake
def _(
    h: Tensor, w2: Tensor, b2: Tensor, readers: Tensor, biases: Tensor, w_skip: Tensor, b_skip: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    N, H = h.shape[0], w2.shape[0]
    kept = (N, b2.numel()) if h.device.type == "cpu" else (0, 0)
    return w2.new_empty(N, H), w2.new_empty(N, H, 2), w2.new_empty(kept), w2.new_empty(kept)


@grn_backward.register_fake
def _(
    grad: Tensor,
    h: Tensor,
    w2: Tensor,
    b2: Tensor,
    readers: Tensor,
    w_skip: Tensor,
    read: Tensor,
    inner: Tensor,
    e2: Tensor,
) -> Gradients:
    own, biases = torch.empty_like, (readers.new_empty(readers.shape[:2]), w_skip.new_empty(w_skip.shape[:1]))
    return own(h), own(w2), own(b2), own(readers), biases[0], own(w_skip), biases[1]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    h, w2, b2, readers, _, w_skip, _ = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(h, w2, b2, readers, w_skip, *output[1:])


def _backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 7
    return torch.ops.alpha.grn_backward(grad.contiguous(), *ctx.saved_tensors)


grn_forward.register_autograd(_backward, setup_context=_setup)
