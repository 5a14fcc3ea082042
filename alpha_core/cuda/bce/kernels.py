"""The loss in one pass over the rows, the gradient with it; then one small program for the horizons.

Each program sums losses and mask over its own rows; the second kernel adds the partial sums in a fixed order, so the
bits do not change from run to run.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 128
"""Rows of a block."""

PROGRAMS = 528
"""Of the first kernel at most: four for each multiprocessor."""


@triton.jit
def bce_fwd_kernel(
    logits, up, mask, slope, parts,
    N,
    H: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    h = tl.arange(0, WIDTH)
    losses, counts = tl.zeros((ROWS, WIDTH), tl.float32), tl.zeros((ROWS, WIDTH), tl.float32)
    for block in tl.range(tl.program_id(0), tl.cdiv(N, ROWS), tl.num_programs(0), num_stages=1):
        r = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        inside = (r < N)[:, None] & (h < H)[None, :]
        spot = r[:, None] * H + h[None, :]
        x = tl.load(logits + spot, inside, 0.0).to(tl.float32)
        target, keep = tl.load(up + spot, inside, 0.0), tl.load(mask + spot, inside, 0.0)
        small = tl.exp(-tl.abs(x))  # never overflows
        losses += (tl.where(x > 0, x, 0.0) - x * target + tl.log(1 + small)) * keep
        counts += keep
        if KEEP:
            share = tl.where(x > 0, 1.0, small) / (1 + small)
            tl.store(slope + spot, ((share - target) * keep).to(slope.dtype.element_ty), inside)
    parts += tl.program_id(0) * (2 * H) + h
    tl.store(parts, tl.sum(losses, 0), h < H)
    tl.store(parts + H, tl.sum(counts, 0), h < H)


@triton.jit
def bce_horizons_kernel(
    parts, weights, loss, scale, PARTS, H: tl.constexpr, WIDTH: tl.constexpr, MOST: tl.constexpr
):
    h, part = tl.arange(0, WIDTH), tl.arange(0, MOST)
    inside = (part < PARTS)[:, None] & (h < H)[None, :]
    spot = part[:, None] * (2 * H) + h[None, :]
    losses = tl.sum(tl.load(parts + spot, inside, 0.0), 0)
    counts = tl.sum(tl.load(parts + spot + H, inside, 0.0), 0)
    share = tl.load(weights + h, h < H, 0.0) / tl.where(counts < 1, 1.0, counts)
    tl.store(scale + h, share, h < H)
    tl.store(loss, tl.sum(losses * share, 0))


def forward(
    logits: Tensor, up: Tensor, mask: Tensor, weights: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """See `op.bce_forward`."""
    logits, (N, H) = logits.contiguous(), logits.shape
    programs, width = min(triton.cdiv(N, ROWS), PROGRAMS), max(2, triton.next_power_of_2(H))
    slope, parts = logits.new_empty((N, H) if keep else (0, 0)), weights.new_empty(programs, 2, H)
    loss, scale = weights.new_empty(()), torch.empty_like(weights)
    bce_fwd_kernel[(programs,)](
        logits, up.contiguous(), mask.contiguous(), slope, parts, N, H=H, WIDTH=width, ROWS=ROWS, KEEP=keep,
        num_warps=4,
    )  # fmt: skip
    most = max(2, triton.next_power_of_2(programs))
    bce_horizons_kernel[(1,)](parts, weights, loss, scale, programs, H=H, WIDTH=width, MOST=most, num_warps=4)
    return loss, slope, scale
