"""The scan as one kernel each way: a program walks one head of one sequence chunk by chunk, the state on chip.

All of a chunk's work is done where its rows are, so that every input is read once and every result written once.
Products of float32 are made of three tf32 ones, those of bfloat16 add up in float32. Loop-invariant code stays in
the loops (`disable_licm`): hoisted, its registers would be spilled.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from alpha_core.cuda.ssd.chunked import LOG_DECAY_FLOOR

FLOOR = tl.constexpr(LOG_DECAY_FLOOR)
WARPS = 4
LARGEST_STATE = 64 * 64
"""Numbers of a head's state [P, N], padded, with which a chunk of 64 rows fits on chip."""


@triton.jit
def _tile(base, stride, rows, columns, inside):
    """[rows, columns] of a matrix whose columns lie side by side; zeros outside."""
    return tl.load(base + rows[:, None] * stride + columns[None, :], inside, 0.0)


@triton.jit
def _split(v, EXACT: tl.constexpr):
    """v as products take it: float32 as the nearest tf32 number and the rest, or bfloat16 (twice the same)."""
    high = v.to(tl.bfloat16)
    low = high
    if EXACT:
        v = v.to(tl.float32)
        high = ((v.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
        low = v - high
    return high, low


@triton.jit
def _turn(v):
    return tl.trans(v[0]), tl.trans(v[1])


@triton.jit
def _add(total, left, right, EXACT: tl.constexpr):
    """total + left @ right of split factors."""
    if EXACT:
        total = tl.dot(left[1], right[0], total, input_precision="tf32")
        total = tl.dot(left[0], right[1], total, input_precision="tf32")
    return tl.dot(left[0], right[0], total, input_precision="tf32")


@triton.jit
def _since_reset(fresh, total, fresh_next, total_next):
    return fresh | fresh_next, tl.where(fresh_next != 0, total_next, total + total_next)


@triton.jit
def _decays(step, rate, reset, i, here, RESETS: tl.constexpr):
    """log decay [L] double, its running sum as two floats, epoch, decays from the start, to the end, of all.

    The running sum starts anew at a reset, so that no bit of it depends on the rows before.
    """
    log_decay = rate * step.to(tl.float64)
    log_decay = tl.where(log_decay < FLOOR, FLOOR, log_decay)
    epoch = tl.zeros_like(i)
    if RESETS:
        fresh = tl.load(reset + i, here, 0).to(tl.int32)
        epoch = tl.cumsum(fresh, 0)
        _, total = tl.associative_scan((fresh, log_decay), 0, _since_reset)
    else:
        total = tl.cumsum(log_decay, 0)
    whole = tl.sum(tl.where(i == i.shape[0] - 1, total, 0.0), 0)
    high = total.to(tl.float32)
    low = (total - high.to(tl.float64)).to(tl.float32)
    start, end, through = high, (whole - total).to(tl.float32), whole.to(tl.float32)
    if RESETS:
        resets = tl.sum(fresh, 0)
        start = tl.where(epoch == 0, start, float("-inf"))
        end = tl.where(epoch == resets, end, float("-inf"))
        through = tl.where(resets == 0, through, float("-inf"))
    return log_decay, high, low, epoch, tl.exp(start), tl.exp(end), tl.exp(through)


@triton.jit
def _within(high, low, kept):
    return tl.exp(tl.where(kept, high + low, float("-inf")))


@triton.jit
def ssd_fwd_kernel(
    x, b, c, delta, a_log, d, state, reset, y, last, starts,
    T, x_batch, x_row, b_batch, b_row, c_batch, c_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr, STATES: tl.constexpr, EXACT: tl.constexpr, RESETS: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(0) % H, (tl.program_id(0) // H).to(tl.int64)
    i, p, n = tl.arange(0, ROWS), tl.arange(0, WIDTH), tl.arange(0, STATES)
    chunks, first = tl.cdiv(T, CHUNK), sequence * T  # the sequence's first row in [B T]
    square = (p < P)[:, None] & (n < N)[None, :]
    state_at = p[:, None] * N + n[None, :]
    x += sequence * x_batch + head * P
    b += sequence * b_batch
    c += sequence * c_batch
    y += (first * H + head) * P
    delta += first * H + head
    rate, skip = -tl.exp(tl.load(a_log + head).to(tl.float64)), tl.load(d + head)
    own = (sequence * H + head) * (P * N)
    h = tl.load(state + own + state_at, square, 0.0)  # [P, N]
    for k in tl.range(chunks, num_stages=1, disable_licm=True):
        t = k * CHUNK + i
        here = (i < CHUNK) & (t < T)
        t = t.to(tl.int64)
        wide, slim = here[:, None] & (p < P)[None, :], here[:, None] & (n < N)[None, :]
        if KEEP:
            tl.store(starts + ((sequence * chunks + k) * H + head) * (P * N) + state_at, h, square)
        step = tl.load(delta + t * H, here, 0.0)
        _, high, low, epoch, from_start, to_end, left = _decays(
            step, rate, reset + first + k * CHUNK, i, here, RESETS
        )
        bs, cs = _tile(b, b_row, t, n, slim), _tile(c, c_row, t, n, slim)
        xs = _tile(x, x_row, t, p, wide)
        # Row i (first index) reads what entered at row j (second index).
        kept = i[:, None] >= i[None, :]
        if RESETS:
            kept &= epoch[:, None] == epoch[None, :]
        within = _within(high[:, None] - high[None, :], low[:, None] - low[None, :], kept)
        scores = _add(None, _split(cs, EXACT), _turn(_split(bs, EXACT)), EXACT)
        entering = _split(xs, EXACT)
        out = skip * xs.to(tl.float32)
        out = _add(out, _split(cs * from_start[:, None], EXACT), _turn(_split(h, EXACT)), EXACT)
        out = _add(out, _split(scores * within * step[None, :], EXACT), entering, EXACT)
        tl.store(y + t[:, None] * (H * P) + p[None, :], out.to(y.dtype.element_ty), wide)
        h = _add(h * left, _turn(entering), _split(bs * (to_end * step)[:, None], EXACT), EXACT)
    tl.store(last + own + state_at, h, square)


@triton.jit
def ssd_bwd_kernel(
    grad_y, grad_last, x, b, c, delta, a_log, d, reset, starts,
    grad_x, grad_b, grad_c, grad_delta, grad_a_log, grad_d, grad_state,
    T, x_batch, x_row, b_batch, b_row, c_batch, c_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr, STATES: tl.constexpr, EXACT: tl.constexpr, SUMS: tl.constexpr, RESETS: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(0) % H, (tl.program_id(0) // H).to(tl.int64)
    i, p, n = tl.arange(0, ROWS), tl.arange(0, WIDTH), tl.arange(0, STATES)
    chunks, first = tl.cdiv(T, CHUNK), sequence * T
    square = (p < P)[:, None] & (n < N)[None, :]
    state_at = p[:, None] * N + n[None, :]
    x += sequence * x_batch + head * P
    b += sequence * b_batch
    c += sequence * c_batch
    rate, skip = -tl.exp(tl.load(a_log + head).to(tl.float64)), tl.load(d + head)
    own = (sequence * H + head) * (P * N)
    carried = tl.load(
        grad_last + own + state_at, square, 0.0
    )  # gradient of the state at the chunk's end [P, N]
    slope, through = tl.zeros([ROWS], tl.float64), tl.zeros([ROWS], tl.float64)
    for back in tl.range(chunks, num_stages=1, disable_licm=True):
        k = chunks - 1 - back
        t = k * CHUNK + i
        here = (i < CHUNK) & (t < T)
        t = t.to(tl.int64)
        wide, slim = here[:, None] & (p < P)[None, :], here[:, None] & (n < N)[None, :]
        step = tl.load(delta + first * H + head + t * H, here, 0.0)
        log_decay, high, low, epoch, from_start, to_end, left = _decays(
            step, rate, reset + first + k * CHUNK, i, here, RESETS
        )
        bs, cs = _tile(b, b_row, t, n, slim), _tile(c, c_row, t, n, slim)
        at = (first * H + head) * P + t[:, None] * (H * P) + p[None, :]
        gy, xs = tl.load(grad_y + at, wide, 0.0), _tile(x, x_row, t, p, wide)
        h = tl.load(starts + ((sequence * chunks + k) * H + head) * (P * N) + state_at, square, 0.0)

        # What entered at row j (first index) is read by row i (second index) and by the state at the end.
        kept = i[:, None] <= i[None, :]
        if RESETS:
            kept &= epoch[:, None] == epoch[None, :]
        within = _within(high[None, :] - high[:, None], low[None, :] - low[:, None], kept)
        scores = _add(None, _split(bs, EXACT), _turn(_split(cs, EXACT)), EXACT)
        outer, inner, after = _split(gy, EXACT), _split(xs, EXACT), _split(carried, EXACT)
        gx = _add(None, _split(bs * to_end[:, None], EXACT), _turn(after), EXACT)
        gx = _add(gx, _split(scores * within, EXACT), outer, EXACT) * step[:, None] + skip * gy.to(tl.float32)
        tl.store(grad_x + at, gx.to(grad_x.dtype.element_ty), wide)

        pairs = _add(None, inner, _turn(outer), EXACT)
        wrote = _add(None, inner, after, EXACT) * to_end[:, None]
        read = _add(None, outer, _split(h, EXACT), EXACT) * from_start[:, None]
        passed = (tl.sum(tl.sum(h * carried, 1), 0) * left).to(tl.float64)
        carried = _add(carried * left, _turn(outer), _split(cs * from_start[:, None], EXACT), EXACT)
        through += tl.sum(tl.where(i[:, None] == i[None, :], pairs, 0.0), 1).to(tl.float64)

        # The log decay of a row acts on all that passes it: what arrives from there on, less what leaves.
        pairs *= within
        flows = (scores * pairs * step[:, None]).to(SUMS)
        stored = (tl.sum(bs * wrote, 1) * step).to(tl.float64)
        net = (tl.sum(flows, 0) - tl.sum(flows, 1)).to(tl.float64) + tl.sum(cs * read, 1) - stored
        grad_log = tl.cumsum(net, 0, reverse=True) + (tl.sum(stored, 0) + passed)
        grad_log = tl.where(log_decay <= FLOOR, 0.0, grad_log)
        slope += grad_log * log_decay

        moved = _split(pairs, EXACT)
        gb = _add(wrote, moved, _split(cs, EXACT), EXACT)
        gc = _add(read, _turn(moved), _split(bs * step[:, None], EXACT), EXACT)
        grad_step = grad_log * rate + tl.sum(bs * gb, 1)
        tl.store(grad_delta + first * H + head + t * H, grad_step.to(grad_delta.dtype.element_ty), here)
        part = (first * H + head) * N + t[:, None] * (H * N) + n[None, :]
        tl.store(grad_b + part, (gb * step[:, None]).to(grad_b.dtype.element_ty), slim)
        tl.store(grad_c + part, gc.to(grad_c.dtype.element_ty), slim)
    tl.store(grad_state + own + state_at, carried, square)
    tl.store(grad_a_log + sequence * H + head, tl.sum(slope, 0).to(tl.float32))
    tl.store(grad_d + sequence * H + head, tl.sum(through, 0).to(tl.float32))


def forward(
    x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor, state: Tensor,
    reset: Tensor | None, chunk: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """See `op.ssd_forward`."""
    (B, T, H, _), (x, b, c) = x.shape, _side_by_side(x, b, c)
    delta, a_log, d, state = (v.contiguous() for v in (delta, a_log, d, state))
    y, last = x.new_empty(x.shape), torch.empty_like(state)
    starts = state.new_empty(B, triton.cdiv(T, chunk) if keep else 0, *state.shape[1:])
    ssd_fwd_kernel[(B * H,)](
        x, b, c, delta, a_log, d, state, _bytes(reset, delta), y, last, starts, T, *_strides(x, b, c),
        KEEP=keep, RESETS=reset is not None, **_shape(x, b, chunk),
    )  # fmt: skip
    return y, last, starts


def backward(
    grad_y: Tensor, grad_last: Tensor, x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor,
    reset: Tensor | None, starts: Tensor, chunk: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """See `op.ssd_backward`; what heads or sequences share is written apart and added up afterwards."""
    (B, T, H, _), (x, b, c) = x.shape, _side_by_side(x, b, c)
    delta, a_log, d = (v.contiguous() for v in (delta, a_log, d))
    grad_x, grad_delta, grad_state = (
        x.new_empty(x.shape),
        torch.empty_like(delta),
        torch.empty_like(grad_last),
    )
    of_b, of_c = (v.new_empty(B, T, H, v.shape[-1]) for v in (b, c))
    of_a_log, of_d = grad_last.new_empty(B, H), grad_last.new_empty(B, H)
    ssd_bwd_kernel[(B * H,)](
        grad_y, grad_last, x, b, c, delta, a_log, d, _bytes(reset, delta), starts,
        grad_x, of_b, of_c, grad_delta, of_a_log, of_d, grad_state, T, *_strides(x, b, c),
        SUMS=tl.float64 if x.dtype == torch.float32 else tl.float32,
        RESETS=reset is not None, **_shape(x, b, chunk),
    )  # fmt: skip
    grad_a_log, grad_d = of_a_log.sum(0).to(a_log.dtype), of_d.sum(0).to(d.dtype)
    return grad_x, of_b.sum(2), of_c.sum(2), grad_delta, grad_a_log, grad_d, grad_state


def _side_by_side(*tensors: Tensor) -> list[Tensor]:
    """The same with a row's numbers side by side; rows may be far apart, as slices of one projection are."""
    return [v if v[0, 0].is_contiguous() else v.contiguous() for v in tensors]


def _strides(*tensors: Tensor) -> list[int]:
    return [stride for v in tensors for stride in v.stride()[:2]]


def _bytes(reset: Tensor | None, other: Tensor) -> Tensor:
    return other if reset is None else reset.contiguous().view(torch.uint8)


def _shape(x: Tensor, b: Tensor, chunk: int) -> dict[str, object]:
    (H, P), N = x.shape[2:], b.shape[-1]
    if _side(P) * _side(N) > LARGEST_STATE:
        raise ValueError(
            f"the state of a head was {P} x {N}, must be at most 64 x 64 on a GPU: use more heads"
        )
    return {
        "H": H,
        "P": P,
        "N": N,
        "CHUNK": chunk,
        "ROWS": _side(chunk),
        "WIDTH": _side(P),
        "STATES": _side(N),
        # The interpreter has no product of bfloat16.
        "EXACT": x.dtype != torch.bfloat16 or triton.knobs.runtime.interpret,
        "num_warps": WARPS,
    }


def _side(size: int) -> int:
    """Of a tile: a power of two, and at least what a matrix unit takes."""
    return max(16, triton.next_power_of_2(size))
