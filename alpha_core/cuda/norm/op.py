"""The gated norm as PyTorch operators: the tensor's device chooses the form.

alpha::norm_forward(y, z, weight, eps) -> out
alpha::norm_backward(grad, y, z, weight, eps) -> grad_y, grad_z, grad_weight
"""

from typing import Any

import torch
from torch import Tensor

from alpha_core.cuda.norm import dense


@torch.library.custom_op("alpha::norm_forward", mutates_args=(), device_types="cpu")
def norm_forward(y: Tensor, z: Tensor, weight: Tensor, eps: float) -> Tensor:
    """[N, C] of y and z [N, C]; see `gated_norm`."""
    return dense.forward(y, z, weight, eps)


@torch.library.custom_op("alpha::norm_backward", mutates_args=(), device_types="cpu")
def norm_backward(
    grad: Tensor, y: Tensor, z: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of y, z and the weight."""
    return dense.backward(grad, y, z, weight, eps)


@norm_forward.register_kernel("cuda")
def _(y: Tensor, z: Tensor, weight: Tensor, eps: float) -> Tensor:
    from alpha_core.cuda.norm import kernels

    return kernels.forward(y, z, weight, eps)


@norm_backward.register_kernel("cuda")
def _(grad: Tensor, y: Tensor, z: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    from alpha_core.cuda.norm import kernels

    return kernels.backward(grad, y, z, weight, eps)


@norm_forward.register_fake
def _(y: Tensor, z: Tensor, weight: Tensor, eps: float) -> Tensor:
    return y.new_empty(y.shape)


@norm_backward.register_fake
def _(grad: Tensor, y: Tensor, z: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return y.new_empty(y.shape), z.new_empty(z.shape), weight.new_empty(weight.shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grads = torch.ops.alpha.norm_backward(grad.contiguous(), *ctx.saved_tensors, ctx.eps)
    return *grads, None


norm_forward.register_autograd(_backward, setup_context=_setup)
