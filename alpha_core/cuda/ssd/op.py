"""The scan as PyTorch operators: the tensor's device chooses the form, shapes are known without running, and
gradients flow.

    alpha::ssd_forward(x, b, c, delta, a_log, d, state, reset, chunk, keep) -> y, last, starts
    alpha::ssd_backward(grad_y, grad_last, x, b, c, delta, a_log, d, reset, starts, chunk) -> seven gradients

`starts` [B, K, H, P, N] are the states before each of the K chunks, all that the backward pass needs beside the
inputs; without `keep` there are none (K = 0).
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from alpha_core.cuda.ssd import chunked

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""Of x, b, c, delta, a_log, d and the state before the first row."""


@torch.library.custom_op("alpha::ssd_forward", mutates_args=(), device_types="cpu")
def ssd_forward(
    x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor, state: Tensor,
    reset: Tensor | None, chunk: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """y [B, T, H, P], the last state [B, H, P, N] and `starts`; see `ssd_scan`."""
    return chunked.forward(x, b, c, delta, a_log, d, state, reset, chunk, keep)


@torch.library.custom_op("alpha::ssd_backward", mutates_args=(), device_types="cpu")
def ssd_backward(
    grad_y: Tensor, grad_last: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor,
    reset: Tensor | None, starts: Tensor, chunk: int,
) -> Gradients:  # fmt: skip
    """Gradients of everything but the resets."""
    return chunked.backward(grad_y, grad_last, x, b, c, delta, a_log, d, reset, starts, chunk)


@ssd_forward.register_kernel("cuda")
def _(
    x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor, state: Tensor,
    reset: Tensor | None, chunk: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _device_form(x).forward(x, b, c, delta, a_log, d, state, reset, chunk, keep)


@ssd_backward.register_kernel("cuda")
def _(
    grad_y: Tensor, grad_last: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor,
    reset: Tensor | None, starts: Tensor, chunk: int,
) -> Gradients:  # fmt: skip
    return _device_form(x).backward(grad_y, grad_last, x, b, c, delta, a_log, d, reset, starts, chunk)


@ssd_forward.register_fake
def _(
    x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor, state: Tensor,
    reset: Tensor | None, chunk: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    chunks = -(-x.shape[1] // chunk) if keep else 0
    starts = state.new_empty(x.shape[0], chunks, *state.shape[1:])
    return x.new_empty(x.shape), state.new_empty(state.shape), starts


@ssd_backward.register_fake
def _(
    grad_y: Tensor, grad_last: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor,
    reset: Tensor | None, starts: Tensor, chunk: int,
) -> Gradients:  # fmt: skip
    return (
        x.new_empty(x.shape), b.new_empty(b.shape), c.new_empty(c.shape), delta.new_empty(delta.shape),
        a_log.new_empty(a_log.shape), d.new_empty(d.shape), grad_last.new_empty(grad_last.shape),
    )  # fmt: skip


def _device_form(x: Tensor) -> ModuleType:
    """The kernels; the torch calls for float64, in which they do not compute."""
    if x.dtype == torch.float64:
        return chunked
    from alpha_core.cuda.ssd import kernels

    return kernels


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, b, c, delta, a_log, d, _, reset, ctx.chunk, _ = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)  # or a zero gradient as large as `starts` would be written for nothing
    ctx.save_for_backward(x, b, c, delta, a_log, d, reset, output[2])


def _backward(
    ctx: Any, grad_y: Tensor | None, grad_last: Tensor | None, _: None
) -> tuple[Tensor | None, ...]:
    x, starts = ctx.saved_tensors[0], ctx.saved_tensors[-1]
    grad_y = x.new_zeros(x.shape) if grad_y is None else grad_y.contiguous()
    grad_last = torch.zeros_like(starts[:, 0]) if grad_last is None else grad_last.contiguous()
    grads = torch.ops.alpha.ssd_backward(grad_y, grad_last, *ctx.saved_tensors, ctx.chunk)
    return *grads, None, None, None


ssd_forward.register_autograd(_backward, setup_context=_setup)
