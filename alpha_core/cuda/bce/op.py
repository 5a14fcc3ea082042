"""The loss as a PyTorch operator: the tensor's device chooses the form, shapes are known without running, and
gradients flow.

    alpha::bce_forward(logits, up, mask, weights, keep) -> loss, slope, scale

All but weights [H] are [N, H]. The gradient is made in the same pass, when `keep` asks for it, in two parts: slope
[N, H] is mask (sigmoid(logit) - up), scale [H] is weight / rows, known only at the pass's end. The backward pass
multiplies. Without `keep` the slope is empty.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus


@torch.library.custom_op("alpha::bce_forward", mutates_args=(), device_types="cpu")
def bce_forward(
    logits: Tensor, up: Tensor, mask: Tensor, weights: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss and the two parts of its gradient; see `masked_bce`."""
    full = logits.to(weights.dtype)
    # log(1 + exp(x)) - x u is what max(x, 0) - x u + log(1 + exp(-|x|)) is, in half the passes.
    losses = softplus(full).addcmul_(full, up, value=-1).mul_(mask)
    scale = weights / mask.sum(0).clamp(min=1)
    slope = torch.sigmoid(full).sub_(up).mul_(mask).to(logits.dtype) if keep else logits.new_empty(0, 0)
    return torch.dot(losses.sum(0), scale), slope, scale


@bce_forward.register_kernel("cuda")
def _(logits: Tensor, up: Tensor, mask: Tensor, weights: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    from alpha_core.cuda.bce import kernels

    return kernels.forward(logits, up, mask, weights, keep)


@bce_forward.register_fake
def _(logits: Tensor, up: Tensor, mask: Tensor, weights: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    return (
        weights.new_empty(()),
        logits.new_empty(logits.shape if keep else (0, 0)),
        torch.empty_like(weights),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    if inputs[0].requires_grad and not inputs[-1]:
        raise ValueError("alpha::bce_forward: keep was False, must be True for logits that need a gradient")
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*output[1:])


def _backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    slope, scale = ctx.saved_tensors
    return (slope * (grad * scale).to(slope.dtype), None, None, None, None)


bce_forward.register_autograd(_backward, setup_context=_setup)
