"""The gate as PyTorch operators: the tensor's device chooses the form, shapes are known without running, and
gradients flow.

    alpha::vsn_forward(x, weight, bias, gated) -> y, gate
    alpha::vsn_backward(grad, grad_gate, x, weight, bias, gate, with_x) -> grad_x, grad_weight, grad_bias

x is [N, F]. The gate [N, F], in the precision of the weights, is needed by the backward pass on a CPU; the kernels
compute it anew, and there it is empty unless `gated` asks for it. So is grad_x unless `with_x`: x is mostly data.
"""

from typing import Any

import torch
from torch import Tensor

from alpha_core.cuda.vsn import dense

Gradients = tuple[Tensor, Tensor, Tensor]


@torch.library.custom_op("alpha::vsn_forward", mutates_args=(), device_types="cpu")
def vsn_forward(x: Tensor, weight: Tensor, bias: Tensor, gated: bool) -> tuple[Tensor, Tensor]:
    """y [N, F] and the gate [N, F]; see `vsn_gate`."""
    return dense.forward(x, weight, bias)


@torch.library.custom_op("alpha::vsn_backward", mutates_args=(), device_types="cpu")
def vsn_backward(
    grad: Tensor,
    grad_gate: Tensor | None,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    gate: Tensor,
    with_x: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, weight and bias."""
    return dense.backward(grad, grad_gate, x, weight, gate, with_x)


@vsn_forward.register_kernel("cuda")
def _(x: Tensor, weight: Tensor, bias: Tensor, gated: bool) -> tuple[Tensor, Tensor]:
    from alpha_core.cuda.vsn import kernels

    return kernels.forward(x, weight, bias, gated)


@vsn_backward.register_kernel("cuda")
def _(
    grad: Tensor,
    grad_gate: Tensor | None,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    gate: Tensor,
    with_x: bool,
) -> Gradients:
    from alpha_core.cuda.vsn import kernels

    return kernels.backward(grad, grad_gate, x, weight, bias, with_x)


@vsn_forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, gated: bool) -> tuple[Tensor, Tensor]:
    kept = x.shape if gated or x.device.type == "cpu" else (0, 0)
    return x.new_empty(x.shape), weight.new_empty(kept)


@vsn_backward.register_fake
def _(
    grad: Tensor,
    grad_gate: Tensor | None,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    gate: Tensor,
    with_x: bool,
) -> Gradients:
    of_x = x.new_empty(x.shape if with_x else (0, 0))
    return of_x, weight.new_empty(weight.shape), bias.new_empty(bias.shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *values, gated = inputs
    ctx.set_materialize_grads(False)
    if not gated:
        ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*values, output[1])


def _backward(ctx: Any, grad: Tensor | None, grad_gate: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weight, bias, gate = ctx.saved_tensors
    grad = torch.zeros_like(x) if grad is None else grad.contiguous()
    grad_gate = None if grad_gate is None else grad_gate.contiguous()
    with_x = ctx.needs_input_grad[0]
    of_x, *others = torch.ops.alpha.vsn_backward(grad, grad_gate, x, weight, bias, gate, with_x)
    return of_x if with_x else None, *others, None


vsn_forward.register_autograd(_backward, setup_context=_setup)
