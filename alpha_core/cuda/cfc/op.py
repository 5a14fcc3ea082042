"""The scan as PyTorch operators: the tensor's device chooses the form, shapes are known without running, and
gradients flow. Everything here is time-first.

    alpha::cfc_forward(gates, weight, dt, state, reset) -> hidden, last, active
    alpha::cfc_backward(grad_hidden, grad_last, weight, active, dt, reset) -> grad_gates, grad_state

`active` [T, B, 4D] float keeps what the backward pass needs: sigmoid(2 p1), sigmoid(2 p2), the share, the slope.
"""

from typing import Any

import torch
from torch import Tensor

from alpha_core.cuda.cfc import scan


@torch.library.custom_op("alpha::cfc_forward", mutates_args=(), device_types="cpu")
def cfc_forward(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states [T, B, D], the last one [B, D], and `active` of gates [T, B, 4D]; see `cfc_scan`."""
    return scan.forward(gates, weight, dt, state, reset)


@torch.library.custom_op("alpha::cfc_backward", mutates_args=(), device_types="cpu")
def cfc_backward(
    grad_hidden: Tensor, grad_last: Tensor, weight: Tensor, active: Tensor, dt: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates [T, B, 4D] and of the state before the first row [B, D]."""
    return scan.backward(grad_hidden, grad_last, weight, active, dt, reset)


@cfc_forward.register_kernel("cuda")
def _(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    from alpha_core.cuda.cfc import kernels, walk

    form = walk if walk.fits(weight.shape[0], gates.dtype) else kernels
    return form.forward(gates, weight, dt, state, reset)


@cfc_backward.register_kernel("cuda")
def _(
    grad_hidden: Tensor, grad_last: Tensor, weight: Tensor, active: Tensor, dt: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor]:
    from alpha_core.cuda.cfc import kernels, walk

    form = walk if walk.fits(weight.shape[0], grad_hidden.dtype) else kernels
    return form.backward(grad_hidden, grad_last, weight, active, dt, reset)


@cfc_forward.register_fake
def _(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    hidden = gates.new_empty(*dt.shape, weight.shape[0])
    return hidden, torch.empty_like(state), gates.new_empty(gates.shape, dtype=state.dtype)


@cfc_backward.register_fake
def _(
    grad_hidden: Tensor, grad_last: Tensor, weight: Tensor, active: Tensor, dt: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor]:
    return grad_hidden.new_empty(active.shape), torch.empty_like(grad_last)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, weight, dt, state, reset = inputs
    hidden, _, active = output
    ctx.mark_non_differentiable(active)
    ctx.save_for_backward(hidden, active, weight, dt, state, reset)


def _backward(ctx: Any, grad_hidden: Tensor, grad_last: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    hidden, active, weight, dt, state, reset = ctx.saved_tensors
    grad_gates, grad_state = torch.ops.alpha.cfc_backward(
        grad_hidden.contiguous(), grad_last.contiguous(), weight, active, dt, reset
    )
    before = torch.cat((state[None].to(hidden.dtype), hidden[:-1]))
    if reset is not None:
        before = before.masked_fill(reset[..., None], 0.0)
    grad_weight = (before.flatten(0, 1).t() @ grad_gates.flatten(0, 1)).to(weight.dtype)
    grad_dt = None
    if ctx.needs_input_grad[2]:
        D = weight.shape[0]
        grad_dt = (grad_gates[..., 2 * D : 3 * D] * active[..., 3 * D :]).sum(-1).to(dt.dtype)
    return grad_gates, grad_weight, grad_dt, grad_state, None


cfc_forward.register_autograd(_backward, setup_context=_setup)
