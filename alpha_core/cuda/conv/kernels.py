"""The convolution as one kernel each way, bound by memory: a lane walks a stretch of one sequence's rows with the
last three inputs, or the next three gradients, in registers, so that every number is read once.

A program has LANES stretches of SPAN rows and CHANNELS channels. A lane also reads the three rows before its stretch
and, backward, the three after it. On a reset row the inputs kept are set to zero, and at the end of a sequence they
are the next taps. Weight gradients are summed along the walk and over the lanes, then over the programs in a fixed
order, so the bits do not change from run to run.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TAPS = 4
"""Width of the convolution that the kernels are written for."""


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _before(
    x, taps, reset, b, t, x_batch, x_row, c, there, wide, T, C, LAG: tl.constexpr, RESETS: tl.constexpr
):
    """The inputs LAG rows before row t of sequence b: a row of x or a tap, 0 where a reset lies between."""
    s = t - LAG
    row = tl.load(x + b * x_batch + s * x_row + c, there & (s >= 0) & wide, 0.0).to(tl.float32)
    tap = tl.load(taps + (b * 3 + s + 3) * C + c, there & (s < 0) & wide, 0.0)
    value = tl.where(s >= 0, row, tap)
    if RESETS:
        for back in tl.static_range(1, LAG):
            fresh = tl.load(reset + b * T + t - back, there & (t >= back), 0)
            value = tl.where(fresh != 0, 0.0, value)
    return value


@triton.jit
def conv_fwd_kernel(
    x, weight, bias, taps, reset, y, last,
    T, C, STRETCHES, COUNT, x_batch, x_row,
    SPAN: tl.constexpr, LANES: tl.constexpr, CHANNELS: tl.constexpr, RESETS: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(C, CHANNELS)
    lane = (tl.program_id(0) // blocks * LANES + tl.arange(0, LANES))[:, None]
    c = (tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS))[None, :]
    there, wide = lane < COUNT, c < C
    b, t = (lane // STRETCHES).to(tl.int64), lane % STRETCHES * SPAN
    w3, w2 = tl.load(weight + c * 4, wide, 0.0), tl.load(weight + c * 4 + 1, wide, 0.0)
    w1, w0 = tl.load(weight + c * 4 + 2, wide, 0.0), tl.load(weight + c * 4 + 3, wide, 0.0)
    offset = tl.load(bias + c, wide, 0.0)
    x1 = _before(x, taps, reset, b, t, x_batch, x_row, c, there, wide, T, C, 1, RESETS)
    x2 = _before(x, taps, reset, b, t, x_batch, x_row, c, there, wide, T, C, 2, RESETS)
    x3 = _before(x, taps, reset, b, t, x_batch, x_row, c, there, wide, T, C, 3, RESETS)
    rows = x + b * x_batch + t.to(tl.int64) * x_row + c
    out = y + (b * T + t) * C + c
    coming = tl.load(rows, there & wide, 0.0)
    for step in tl.range(SPAN, num_stages=1):
        live = there & (t + step < T)
        x0 = coming.to(tl.float32)
        rows += x_row  # the next row arrives while this one is worked on
        coming = tl.load(rows, there & (t + step + 1 < T) & (step + 1 < SPAN) & wide, 0.0)
        if RESETS:
            fresh = tl.load(reset + b * T + t + step, live, 0) != 0
            x1, x2, x3 = tl.where(fresh, 0.0, x1), tl.where(fresh, 0.0, x2), tl.where(fresh, 0.0, x3)
        inner = offset + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
        tl.store(out, (inner * _sigmoid(inner)).to(y.dtype.element_ty), live & wide)
        out += C
        x3, x2, x1 = tl.where(live, x2, x3), tl.where(live, x1, x2), tl.where(live, x0, x1)
    ends = there & (t + SPAN >= T) & wide
    last += b * (3 * C) + c
    tl.store(last, x3, ends)
    tl.store(last + C, x2, ends)
    tl.store(last + 2 * C, x1, ends)


@triton.jit
def conv_bwd_kernel(
    grad, grad_last, x, weight, bias, taps, reset, grad_x, grad_taps, parts,
    T, C, STRETCHES, COUNT, x_batch, x_row,
    SPAN: tl.constexpr, LANES: tl.constexpr, CHANNELS: tl.constexpr, RESETS: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(C, CHANNELS)
    group = tl.program_id(0) // blocks
    lane = (group * LANES + tl.arange(0, LANES))[:, None]
    c = (tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS))[None, :]
    there, wide = lane < COUNT, c < C
    b, t = (lane // STRETCHES).to(tl.int64), lane % STRETCHES * SPAN
    w3, w2 = tl.load(weight + c * 4, wide, 0.0), tl.load(weight + c * 4 + 1, wide, 0.0)
    w1, w0 = tl.load(weight + c * 4 + 2, wide, 0.0), tl.load(weight + c * 4 + 3, wide, 0.0)
    offset = tl.load(bias + c, wide, 0.0)
    x1 = _before(x, taps, reset, b, t, x_batch, x_row, c, there, wide, T, C, 1, RESETS)
    x2 = _before(x, taps, reset, b, t, x_batch, x_row, c, there, wide, T, C, 2, RESETS)
    x3 = _before(x, taps, reset, b, t, x_batch, x_row, c, there, wide, T, C, 3, RESETS)
    none = tl.zeros((LANES, CHANNELS), tl.float32)
    # Gradients of the last three inputs so far, and of the weights and the bias over the own rows.
    d1, d2, d3, s0, s1, s2, s3, sb = none, none, none, none, none, none, none, none
    age = tl.full((LANES, 1), 3, tl.int32)  # rows since a reset; no reset before the stretch matters to it
    rows = x + b * x_batch + t.to(tl.int64) * x_row + c
    place = (b * T + t) * C + c
    x0_next, g_next = tl.load(rows, there & wide, 0.0), tl.load(grad + place, there & wide, 0.0)
    for step in tl.range(SPAN + 3, num_stages=1):
        live = there & (t + step < T)
        x0, g = x0_next.to(tl.float32), g_next.to(tl.float32)
        rows += x_row
        place += C
        ahead = there & (t + step + 1 < T) & (step < SPAN + 2) & wide
        x0_next, g_next = tl.load(rows, ahead, 0.0), tl.load(grad + place, ahead, 0.0)
        if RESETS:
            fresh = tl.load(reset + b * T + t + step, live, 0) != 0
            x1, x2, x3 = tl.where(fresh, 0.0, x1), tl.where(fresh, 0.0, x2), tl.where(fresh, 0.0, x3)
            age = tl.where(live, tl.where(fresh, 0, age + 1), age)
        inner = offset + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
        share = _sigmoid(inner)
        d = tl.where(live, g * share * (1 + inner * (1 - share)), 0.0)
        if step < SPAN:
            s0 += d * x0
            s1 += d * x1
            s2 += d * x2
            s3 += d * x3
            sb += d
        done = d3 + tl.where(age >= 3, w3 * d, 0.0)
        d3 = d2 + tl.where(age >= 2, w2 * d, 0.0)
        d2 = d1 + tl.where(age >= 1, w1 * d, 0.0)
        d1 = w0 * d
        past = t + step - T  # three rows after the last one, the next taps' gradients join
        kept = there & (past >= 0) & (past < 3) & wide
        outer = tl.load(grad_last + (b * 3 + past) * C + c, kept, 0.0)
        done += tl.where(age >= 2 - past, outer, 0.0)
        s = t + step - 3
        tl.store(
            grad_x + (b * T + s) * C + c,
            done.to(grad_x.dtype.element_ty),
            there & (step >= 3) & (s < T) & wide,
        )
        tl.store(grad_taps + (b * 3 + s + 3) * C + c, done, there & (s < 0) & wide)
        x3, x2, x1 = x2, x1, x0
    own = tl.arange(0, CHANNELS) + tl.program_id(0) % blocks * CHANNELS
    parts += group.to(tl.int64) * (5 * C) + own
    tl.store(parts, tl.sum(s3, 0), own < C)
    tl.store(parts + C, tl.sum(s2, 0), own < C)
    tl.store(parts + 2 * C, tl.sum(s1, 0), own < C)
    tl.store(parts + 3 * C, tl.sum(s0, 0), own < C)
    tl.store(parts + 4 * C, tl.sum(sb, 0), own < C)


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor]:
    """y and the next taps, see `op.conv_forward`; x may be a slice of wider rows."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    y, last = x.new_empty(x.shape), torch.empty_like(taps)
    groups, blocks, plan = _plan(x, weight, reset)
    conv_fwd_kernel[(groups * blocks,)](
        x, weight.contiguous(), bias, taps.contiguous(), _bytes(reset, weight), y, last, **plan
    )
    return y, last


def backward(
    grad: Tensor,
    grad_last: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    taps: Tensor,
    reset: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `op.conv_backward`."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    groups, blocks, plan = _plan(x, weight, reset)
    grad_x, grad_taps = x.new_empty(x.shape), torch.empty_like(taps)
    parts = weight.new_empty(groups, 5, x.shape[2])
    conv_bwd_kernel[(groups * blocks,)](
        grad, grad_last, x, weight.contiguous(), bias, taps.contiguous(), _bytes(reset, weight), grad_x, grad_taps,
        parts, **plan,
    )  # fmt: skip
    sums = parts.sum(0)
    return grad_x, sums[:4].t().contiguous(), sums[4].clone(), grad_taps


def _bytes(reset: Tensor | None, any_: Tensor) -> Tensor:
    return any_ if reset is None else reset.contiguous().view(torch.uint8)


def _plan(x: Tensor, weight: Tensor, reset: Tensor | None) -> tuple[int, int, dict[str, int]]:
    """Groups of lanes, blocks of channels, and what the kernels are told of the shapes.

    Raises:
        ValueError: the weights are not four wide.
    """
    if weight.shape[1] != TAPS:
        raise ValueError(
            f"conv_silu: width of weight was {weight.shape[1]}, must be {TAPS} on CUDA: use four taps"
        )
    B, T, C = x.shape
    span = (
        32 if B * T > 100_000 else 8
    )  # short stretches where there would be too few lanes to fill the device
    stretches, lanes, channels = triton.cdiv(T, span), 16, 32
    count = B * stretches
    plan = {
        "T": T, "C": C, "STRETCHES": stretches, "COUNT": count, "x_batch": x.stride(0), "x_row": x.stride(1),
        "SPAN": span, "LANES": lanes, "CHANNELS": channels, "RESETS": reset is not None, "num_warps": 4,
    }  # fmt: skip
    return triton.cdiv(count, lanes), triton.cdiv(C, channels), plan
