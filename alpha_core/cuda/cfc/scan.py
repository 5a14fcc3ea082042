"""The cell over a sequence in as few torch calls a step as possible: four forward, two backward.

At these widths the cost of a step is the number of calls, so everything that does not depend on the step
before is done for all steps at once. Two rewritings, both exact algebra, are in README.md: the state
is carried as k = (1 + h) / 2, which turns both tanh into one sigmoid call over three gates; and the backward
pass multiplies by coefficients that are ready before it starts.
"""

import torch
from torch import Tensor

TANH_AS_SIGMOID = (2.0, 2.0, 1.0, 1.0)
"""tanh(p) = 2 sigmoid(2 p) - 1 doubles the first two pre-activations and leaves offset and slope."""


def forward(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(hidden [T, B, D], last [B, D], activations [T, B, 4D]: sigmoids of both candidates, share, raw slope)."""
    D = weight.shape[0]
    scale = weight.new_tensor(TANH_AS_SIGMOID).repeat_interleave(D)
    scaled = weight * scale
    active = torch.addcmul(-scaled.sum(0), gates.to(state.dtype), scale)
    recurrent = 2 * scaled
    half = torch.empty(*dt.shape, D, dtype=state.dtype, device=gates.device)
    previous = (state + 1) / 2
    steps = zip(
        active.unbind(0),
        active[..., : 3 * D].unbind(0),
        active[..., :D].unbind(0),
        active[..., D : 2 * D].unbind(0),
        active[..., 2 * D : 3 * D].unbind(0),
        active[..., 3 * D :].unbind(0),
        dt[..., None].unbind(0),
        half.unbind(0),
        _resets(reset, dt.shape[0]),
        strict=True,
    )
    for every, sigmoids, first, second, offset, slope, gap, out, fresh in steps:
        if fresh is not None:
            previous = previous.masked_fill(fresh, 0.5)
        every.addmm_(previous, recurrent)
        offset.addcmul_(slope, gap)
        sigmoids.sigmoid_()
        previous = torch.lerp(first, second, offset, out=out)
    hidden = 2 * half - 1
    return hidden.to(gates.dtype), hidden[-1].clone(), active


def _resets(reset: Tensor | None, length: int) -> list[Tensor | None]:
    """Per step the [B, 1] mask, or None on the many steps where no sequence starts afresh."""
    if reset is None:
        return [None] * length
    some = reset.any(1).tolist()
    return [mask[:, None] if any_ else None for mask, any_ in zip(reset.unbind(0), some, strict=True)]


def _coefficients(active: Tensor, dt: Tensor) -> Tensor:
    """d h_t / d (first, second, offset, slope) elementwise, [T, B, 4, D]."""
    first, second, share, _ = active.unflatten(-1, (4, -1)).unbind(-2)
    rest = 1 - share
    out = torch.empty_like(active).unflatten(-1, (4, -1))
    out[..., 0, :] = 4 * first * (1 - first) * rest
    out[..., 1, :] = 4 * second * (1 - second) * share
    out[..., 2, :] = 2 * (second - first) * share * rest
    out[..., 3, :] = out[..., 2, :] * dt[..., None]
    return out


def backward(
    grad_hidden: Tensor, grad_last: Tensor, weight: Tensor, active: Tensor, dt: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor]:
    """(gradient of the pre-activations [T, B, 4D], gradient of the initial state [B, D])."""
    T, given = grad_hidden.shape[0], grad_hidden.dtype
    grad_hidden, coefficients = grad_hidden.to(active.dtype), _coefficients(active, dt)
    back = weight.t().contiguous()
    grad_gates = torch.empty_like(coefficients)
    flat = grad_gates.flatten(2).unbind(0)
    outer, each, out = grad_hidden.unbind(0), coefficients.unbind(0), grad_gates.unbind(0)
    fresh = _resets(reset, T)
    carried = outer[T - 1] + grad_last
    for t in range(T - 1, -1, -1):
        torch.mul(each[t], carried[:, None], out=out[t])
        mask = fresh[t]
        if mask is not None:
            through = (flat[t] @ back).masked_fill(mask, 0.0)
            carried = outer[t - 1] + through if t else through
        else:
            carried = torch.addmm(outer[t - 1], flat[t], back) if t else flat[0] @ back
    return grad_gates.flatten(2).to(given), carried
