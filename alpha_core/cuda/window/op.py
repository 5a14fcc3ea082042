"""The last row of a window as PyTorch operators: the tensor's device chooses the form.

alpha::window_forward(x, b, c, delta, a_log, d) -> y
alpha::window_backward(grad, x, b, c, delta, a_log, d) -> six gradients
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from alpha_core.cuda.window import dense
from alpha_core.cuda.window.dense import Gradients


@torch.library.custom_op("alpha::window_forward", mutates_args=(), device_types="cpu")
def window_forward(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> Tensor:
    """[n, H, P]; see `window_last`."""
    return dense.forward(x, b, c, delta, a_log, d)


@torch.library.custom_op("alpha::window_backward", mutates_args=(), device_types="cpu")
def window_backward(
    grad: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor
) -> Gradients:
    """Gradients of all arguments."""
    return dense.backward(grad, x, b, c, delta, a_log, d)


@window_forward.register_kernel("cuda")
def _(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> Tensor:
    return _device_form(x).forward(x, b, c, delta, a_log, d)


@window_backward.register_kernel("cuda")
def _(grad: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> Gradients:
    return _device_form(x).backward(grad, x, b, c, delta, a_log, d)


@window_forward.register_fake
def _(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], *x.shape[2:])


@window_backward.register_fake
def _(grad: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> Gradients:
    return (
        x.new_empty(x.shape), b.new_empty(b.shape), c.new_empty(c.shape), delta.new_empty(delta.shape),
        a_log.new_empty(a_log.shape), d.new_empty(d.shape),
    )  # fmt: skip


def _device_form(x: Tensor) -> ModuleType:
    """The kernels; the torch calls for float64, in which they do not compute."""
    if x.dtype == torch.float64:
        return dense
    from alpha_core.cuda.window import kernels

    return kernels


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> Gradients:
    return torch.ops.alpha.window_backward(grad.contiguous(), *ctx.saved_tensors)


window_forward.register_autograd(_backward, setup_context=_setup)
