"""Selective state-space recurrence of Mamba2 (Dao & Gu 2024, arXiv 2405.21060); the maths is in README.md."""

import torch
from torch import Tensor

from alpha_core.cuda.ssd.op import ssd_forward
from alpha_core.cuda.ssd.reference import ssd_sequential

__all__ = ["ssd_scan"]

LARGEST_CHUNK = 64
"""Work inside a chunk grows with the square of its rows, and a kernel holds it on chip."""


def ssd_scan(
    x: Tensor,
    b: Tensor,
    c: Tensor,
    delta: Tensor,
    *,
    a_log: Tensor,
    d: Tensor,
    state: Tensor,
    reset: Tensor | None = None,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """h_t = exp(delta_t A) h_{t-1} + delta_t x_t b_t^T,  y_t = h_t c_t + d x_t,  A = -exp(a_log) per head.

    Args:
        x: [B, T, H, P]; with b and c the one argument that may be bfloat16 while the rest is float32.
        b: [B, T, N] input map, shared by the heads.
        c: [B, T, N] output map, shared by the heads.
        delta: [B, T, H] step sizes, >= 0.
        a_log: [H].
        d: [H] direct path.
        state: [B, H, P, N] before the first row.
        reset: [B, T] bool, True where a row starts afresh from a zero state; None for nowhere.
        chunk: rows evaluated together, at most 64 of them; 1 walks row by row.

    Returns:
        y [B, T, H, P] and the last state [B, H, P, N].

    Raises:
        ValueError: shapes or devices do not fit together.
    """
    leaves = (x, b, c, delta, a_log, d, state)
    _check(*leaves, reset)
    if x.shape[1] == 0:
        return x.new_empty(x.shape), state
    chunk = min(chunk, x.shape[1], LARGEST_CHUNK)
    if chunk == 1:
        return ssd_sequential(x, b, c, delta, a_log=a_log, d=d, state=state, reset=reset)
    keep = torch.is_grad_enabled() and any(v.requires_grad for v in leaves)
    y, last, _ = ssd_forward(*leaves, reset, chunk, keep)
    return y, last


def _check(
    x: Tensor,
    b: Tensor,
    c: Tensor,
    delta: Tensor,
    a_log: Tensor,
    d: Tensor,
    state: Tensor,
    reset: Tensor | None,
) -> None:
    (B, T, H, P), N = x.shape, b.shape[-1]
    expected = [
        (b, (B, T, N)),
        (c, (B, T, N)),
        (delta, (B, T, H)),
        (a_log, (H,)),
        (d, (H,)),
        (state, (B, H, P, N)),
    ]
    if reset is not None:
        expected.append((reset, (B, T)))
    for name, (v, shape) in zip(("b", "c", "delta", "a_log", "d", "state", "reset"), expected, strict=False):
        if v.shape != shape:
            raise ValueError(f"{name} was {list(v.shape)}, must be {list(shape)} beside x {list(x.shape)}")
        if v.device != x.device:
            raise ValueError(f"{name} was on {v.device}, must be on {x.device} with x")
