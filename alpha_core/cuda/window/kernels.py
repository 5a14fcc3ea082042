"""The last row of a window as one kernel each way: a program holds one head of one window, every number is read once.

Gradients that several programs add to (of b and c over heads, of a_log and d over windows) are written apart and
summed afterwards in a fixed order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

WARPS = 2
"""A window of 16 rows of 64 numbers leaves 16 numbers to each of 64 threads."""


@triton.jit
def _weights(
    b, c, delta, rate, n, h, K, H: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, STATES: tl.constexpr
):
    """Of each row of a window: its score, step, sum of the steps behind it, what is left of it; and b and c."""
    k = tl.arange(0, ROWS)
    s = tl.arange(0, STATES)
    b_tile = tl.load(b + (n * K + k[:, None]) * N + s[None, :], (k < K)[:, None] & (s < N)[None, :], 0.0)
    b_tile = b_tile.to(tl.float32)
    c_row = tl.load(c + n * N + s, s < N, 0.0).to(tl.float32)
    score = tl.sum(b_tile * c_row[None, :], 1)
    step = tl.load(delta + (n * K + k) * H + h, k < K, 0.0)
    later = tl.load(delta + (n * K + k + 1) * H + h, k + 1 < K, 0.0)
    behind = tl.cumsum(later, 0, reverse=True)
    return score, step, behind, tl.exp(-rate * behind), b_tile, c_row


@triton.jit
def window_fwd_kernel(
    x, b, c, delta, a_log, d, y,
    K, H: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    n, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k, p = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    rate = tl.exp(tl.load(a_log + h))
    score, step, _, decay, _, _ = _weights(b, c, delta, rate, n, h, K, H, N, ROWS, STATES)
    inside = (k < K)[:, None] & (p < P)[None, :]
    tile = tl.load(x + ((n * K + k[:, None]) * H + h) * P + p[None, :], inside, 0.0).to(tl.float32)
    weight = score * decay * step + tl.where(k == K - 1, tl.load(d + h), 0.0)
    tl.store(y + (n * H + h) * P + p, tl.sum(tile * weight[:, None], 0).to(y.dtype.element_ty), p < P)


@triton.jit
def window_bwd_kernel(
    grad, x, b, c, delta, a_log, d, grad_x, part_b, part_c, grad_delta, part_a, part_d,
    K, H: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, STATES: tl.constexpr,
):  # fmt: skip
    n, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k, p, s = tl.arange(0, ROWS), tl.arange(0, WIDTH), tl.arange(0, STATES)
    rate, direct = tl.exp(tl.load(a_log + h)), tl.load(d + h)
    score, step, behind, decay, b_tile, c_row = _weights(b, c, delta, rate, n, h, K, H, N, ROWS, STATES)
    inside = (k < K)[:, None] & (p < P)[None, :]
    place = ((n * K + k[:, None]) * H + h) * P + p[None, :]
    tile = tl.load(x + place, inside, 0.0).to(tl.float32)
    g = tl.load(grad + (n * H + h) * P + p, p < P, 0.0).to(tl.float32)
    seen = tl.sum(tile * g[None, :], 1)
    last = k == K - 1
    weight = score * decay * step + tl.where(last, direct, 0.0)
    tl.store(grad_x + place, (weight[:, None] * g[None, :]).to(grad_x.dtype.element_ty), inside)
    grad_score = seen * decay * step
    states = (k < K)[:, None] & (s < N)[None, :]
    at = (n * K + k[:, None]) * H + h
    tl.store(part_b + at * N + s[None, :], grad_score[:, None] * c_row[None, :], states)
    tl.store(part_c + (n * H + h) * N + s, tl.sum(grad_score[:, None] * b_tile, 0), s < N)
    fading = seen * score * step * decay
    # Subtracting a row from the sum that holds it would leave rounding where nothing is: sum the rows before it.
    before = tl.sum(tl.where(k[None, :] < k[:, None], fading[None, :], 0.0), 1)
    tl.store(grad_delta + (n * K + k) * H + h, seen * score * decay - rate * before, k < K)
    tl.store(part_a + n * H + h, -rate * tl.sum(fading * behind, 0))
    tl.store(part_d + n * H + h, tl.sum(tl.where(last, seen, 0.0), 0))


def forward(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> Tensor:
    """See `op.window_forward`."""
    x, b, c, delta = (v.contiguous() for v in (x, b, c, delta))
    n, _, H, P = x.shape
    y = x.new_empty(n, H, P)
    if n:
        window_fwd_kernel[(n, H)](x, b, c, delta, a_log, d, y, **_sizes(x, b), num_warps=WARPS)
    return y


def backward(
    grad: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `op.window_backward`."""
    x, b, c, delta = (v.contiguous() for v in (x, b, c, delta))
    (n, K, H, _), N = x.shape, b.shape[-1]
    grad_x, grad_delta = torch.empty_like(x), torch.empty_like(delta)
    part_b, part_c = delta.new_empty(n, K, H, N), delta.new_empty(n, H, N)
    part_a, part_d = delta.new_empty(n, H), delta.new_empty(n, H)
    if n:
        window_bwd_kernel[(n, H)](
            grad, x, b, c, delta, a_log, d, grad_x, part_b, part_c, grad_delta, part_a, part_d,
            **_sizes(x, b), num_warps=WARPS,
        )  # fmt: skip
    grad_b, grad_c = part_b.sum(2).to(b.dtype), part_c.sum(1).to(c.dtype)
    return grad_x, grad_b, grad_c, grad_delta, part_a.sum(0), part_d.sum(0)


def _sizes(x: Tensor, b: Tensor) -> dict[str, int]:
    (_, K, H, P), N = x.shape, b.shape[-1]
    rounded = {"ROWS": K, "WIDTH": P, "STATES": N}
    return {"K": K, "H": H, "P": P, "N": N} | {
        name: triton.next_power_of_2(size) for name, size in rounded.items()
    }
