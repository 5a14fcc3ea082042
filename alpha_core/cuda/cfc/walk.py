"""Launches `walk.cu`: the scan with weights and state on chip, for widths that fit."""

from pathlib import Path

import torch
from torch import Tensor

from alpha_core.cuda.nvrtc import compiled

SOURCE = Path(__file__).with_name("walk.cu")
SEQUENCES = 8
WIDEST = 128


def fits(D: int, dtype: torch.dtype) -> bool:
    """Whether the kernel takes this width and type of gates."""
    return D % 16 == 0 and D <= WIDEST and dtype in (torch.float32, torch.bfloat16)


def forward(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """See `op.cfc_forward`."""
    D, (T, B) = weight.shape[0], dt.shape
    hidden, last = gates.new_empty(T, B, D), torch.empty_like(state)
    active = gates.new_empty(T, B, 4 * D, dtype=torch.float32)
    arguments = [gates, weight, dt, state, dt if reset is None else reset, hidden, last, active, T, B]
    _launch("cfc_forward", arguments, D, B, exact=gates.dtype == torch.float32, resets=reset is not None)
    return hidden, last, active


def backward(
    grad_hidden: Tensor, grad_last: Tensor, weight: Tensor, active: Tensor, dt: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See `op.cfc_backward`."""
    D, (T, B) = weight.shape[0], dt.shape
    grad_gates, grad_state = grad_hidden.new_empty(T, B, 4 * D), torch.empty_like(grad_last)
    mask = dt if reset is None else reset
    arguments = [grad_hidden, grad_last, weight, active, dt, mask, grad_gates, grad_state, T, B]
    exact = grad_hidden.dtype == torch.float32
    _launch("cfc_backward", arguments, D, B, exact=exact, resets=reset is not None)
    return grad_gates, grad_state


def _launch(kernel: str, arguments: list[Tensor | int], D: int, B: int, *, exact: bool, resets: bool) -> None:
    shared = 8 * D * D if exact else 0  # what rounding took from the weights
    run = compiled((SOURCE,), kernel, shared, D=D, EXACT=int(exact), RESETS=int(resets))
    run(grid=(-(-B // SEQUENCES), 1, 1), block=(2 * D, 1, 1), args=arguments, shared_mem=shared)
