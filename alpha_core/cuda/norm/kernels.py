"""The gated norm as one kernel each way: every row is read once and written once.

The gradient of w is summed in each program over its rows, and over programs afterwards in a fixed order.
"""

import triton
import triton.language as tl
from torch import Tensor

ROWS = 4
"""Rows that a program holds at a time: 4 KB in float32 at C = 256."""

PROGRAMS = 1056
"""Programs of the backward kernel, eight for each multiprocessor of the largest device it was measured on."""


@triton.jit
def norm_fwd_kernel(
    y, z, weight, out,
    N, stride_y, stride_z, eps,
    C: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    inside = (r < N)[:, None] & (c < C)[None, :]
    value = tl.load(y + r[:, None] * stride_y + c[None, :], inside, 0.0).to(tl.float32)
    gate = tl.load(z + r[:, None] * stride_z + c[None, :], inside, 0.0).to(tl.float32)
    g = value * gate / (1 + tl.exp(-gate))
    root = tl.rsqrt(tl.sum(g * g, 1) / C + eps)
    w = tl.load(weight + c, c < C, 0.0)
    tl.store(
        out + r[:, None] * C + c[None, :], (g * root[:, None] * w[None, :]).to(out.dtype.element_ty), inside
    )


@triton.jit
def norm_bwd_kernel(
    grad, y, z, weight, grad_y, grad_z, part_weight,
    N, stride_y, stride_z, eps, blocks,
    C: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    c = tl.arange(0, WIDTH)
    w = tl.load(weight + c, c < C, 0.0)[None, :]
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for block in tl.range(blocks, num_stages=1):
        r = (tl.cast(program, tl.int64) * blocks + block) * ROWS + tl.arange(0, ROWS)
        inside = (r < N)[:, None] & (c < C)[None, :]
        value = tl.load(y + r[:, None] * stride_y + c[None, :], inside, 0.0).to(tl.float32)
        gate_in = tl.load(z + r[:, None] * stride_z + c[None, :], inside, 0.0).to(tl.float32)
        d = tl.load(grad + r[:, None] * C + c[None, :], inside, 0.0).to(tl.float32)
        share = 1 / (1 + tl.exp(-gate_in))
        gate = gate_in * share
        g = value * gate
        root = tl.rsqrt(tl.sum(g * g, 1) / C + eps)[:, None]
        wd = w * d
        d_g = root * (wd - g * root * root * (tl.sum(wd * g, 1) / C)[:, None])
        total += d * g * root
        d_z = d_g * value * share * (1 + gate_in * (1 - share))
        tl.store(grad_y + r[:, None] * C + c[None, :], (d_g * gate).to(grad_y.dtype.element_ty), inside)
        tl.store(grad_z + r[:, None] * C + c[None, :], d_z.to(grad_z.dtype.element_ty), inside)
    tl.store(part_weight + program * C + c, tl.sum(total, 0), c < C)


def forward(y: Tensor, z: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `op.norm_forward`."""
    (N, C), y, z = y.shape, _by_row(y), _by_row(z)
    out = y.new_empty(N, C)
    norm_fwd_kernel[(triton.cdiv(N, ROWS),)](
        y, z, weight, out, N, y.stride(0), z.stride(0), eps, C=C, WIDTH=triton.next_power_of_2(C), ROWS=ROWS
    )
    return out


def backward(grad: Tensor, y: Tensor, z: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """See `op.norm_backward`."""
    (N, C), y, z = y.shape, _by_row(y), _by_row(z)
    grad_y, grad_z = y.new_empty(N, C), z.new_empty(N, C)
    blocks = max(1, triton.cdiv(N, ROWS * PROGRAMS))
    programs = triton.cdiv(N, ROWS * blocks)
    part = weight.new_empty(programs, C)
    norm_bwd_kernel[(programs,)](
        grad, y, z, weight, grad_y, grad_z, part, N, y.stride(0), z.stride(0), eps, blocks,
        C=C, WIDTH=triton.next_power_of_2(C), ROWS=ROWS,
    )  # fmt: skip
    return grad_y, grad_z, part.sum(0)


def _by_row(v: Tensor) -> Tensor:
    """Rows may lie apart, as slices of a wider projection do; within a row numbers lie side by side."""
    return v if v.stride(1) == 1 else v.contiguous()
