"""Selective state-space recurrence of Mamba2 (Dao & Gu 2024, arXiv 2405.21060); the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.ssd.chunked import ssd_chunked
from alpha_core.cuda.ssd.reference import ssd_sequential

__all__ = ["ssd_scan"]


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
        x: [B, T, H, P].
        b: [B, T, N] input map, shared by the heads.
        c: [B, T, N] output map, shared by the heads.
        delta: [B, T, H] step sizes, >= 0.
        a_log: [H].
        d: [H] direct path.
        state: [B, H, P, N] before the first row.
        reset: [B, T] bool, True where a row starts afresh from a zero state; None for nowhere.
        chunk: rows evaluated together; 1 walks row by row.

    Returns:
        y [B, T, H, P] and the last state [B, H, P, N].
    """
    if x.shape[1] == 0:
        return x.new_empty(x.shape), state
    chunk = min(chunk, x.shape[1])
    if chunk == 1:
        return ssd_sequential(x, b, c, delta, a_log=a_log, d=d, state=state, reset=reset)
    return ssd_chunked(x, b, c, delta, a_log=a_log, d=d, state=state, reset=reset, chunk=chunk)
