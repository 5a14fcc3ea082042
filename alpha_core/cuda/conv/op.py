"""The convolution as PyTorch operators: the tensor's device chooses the form, shapes are known without running, and
gradients flow.

    alpha::conv_forward(x, weight, bias, taps, reset) -> y, last, inner
    alpha::conv_backward(grad, grad_last, x, weight, bias, taps, reset, inner) -> grad_x, grad_weight, grad_bias,
        grad_taps

`inner` keeps y before its SiLU for the backward pass on a CPU; the kernels compute it anew, and there it is empty.
"""

from typing import Any

import torch
from torch import Tensor

from alpha_core.cuda.conv import shifted

Gradients = tuple[Tensor, Tensor, Tensor, Tensor]


@torch.library.custom_op("alpha::conv_forward", mutates_args=(), device_types="cpu")
def conv_forward(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """y [B, T, C], the next taps [B, W - 1, C] and `inner`; see `conv_silu`."""
    return shifted.forward(x, weight, bias, taps, reset)


@torch.library.custom_op("alpha::conv_backward", mutates_args=(), device_types="cpu")
def conv_backward(
    grad: Tensor,
    grad_last: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    taps: Tensor,
    reset: Tensor | None,
    inner: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, weight, bias and taps."""
    return shifted.backward(grad, grad_last, x, weight, taps, reset, inner)


@conv_forward.register_kernel("cuda")
def _(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    from alpha_core.cuda.conv import kernels

    return *kernels.forward(x, weight, bias, taps, reset), weight.new_empty(0, 0, 0)


@conv_backward.register_kernel("cuda")
def _(
    grad: Tensor,
    grad_last: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    taps: Tensor,
    reset: Tensor | None,
    inner: Tensor,
) -> Gradients:
    from alpha_core.cuda.conv import kernels

    return kernels.backward(grad, grad_last, x, weight, bias, taps, reset)


@conv_forward.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    kept = x.shape if x.device.type == "cpu" else (0, 0, 0)
    return x.new_empty(x.shape), taps.new_empty(taps.shape), weight.new_empty(kept)


@conv_backward.register_fake
def _(
    grad: Tensor,
    grad_last: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    taps: Tensor,
    reset: Tensor | None,
    inner: Tensor,
) -> Gradients:
    return (
        x.new_empty(x.shape),
        weight.new_empty(weight.shape),
        bias.new_empty(bias.shape),
        taps.new_empty(taps.shape),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*inputs, output[2])


def _backward(ctx: Any, grad: Tensor, grad_last: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    grads = torch.ops.alpha.conv_backward(grad.contiguous(), grad_last.contiguous(), *ctx.saved_tensors)
    return *grads, None


conv_forward.register_autograd(_backward, setup_context=_setup)
