"""The scan as one kernel each way: a program walks its sequences through all rows with the state on chip.

A program has 16 sequences, the least that a matrix unit takes. In half precision the hidden weights stay in its
registers for the whole walk (128 KB at D = 128); in float32, where they do not fit, they are read anew from the
cache for every row and multiplied in three tf32 parts, which is as exact as float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

SEQUENCES = 16
LARGEST_HALF = tl.constexpr(65504.0)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _part(base, index: tl.constexpr, units, D: tl.constexpr, transposed: tl.constexpr, kind: tl.constexpr):
    """One of the four [D, D] matrices stacked in W [D, 4D], in the precision of the products."""
    inside = (units < D)[:, None] & (units < D)[None, :]
    if transposed:
        offsets = units[None, :] * (4 * D) + index * D + units[:, None]
    else:
        offsets = units[:, None] * (4 * D) + index * D + units[None, :]
    w = tl.load(base + offsets, inside, 0.0)
    if kind == tl.float16:
        w = tl.where(
            w > LARGEST_HALF, LARGEST_HALF, tl.where(w < -LARGEST_HALF, -LARGEST_HALF, w)
        )  # NaN stays
    return w.to(kind)


@triton.jit
def cfc_fwd_kernel(
    gates, weight, dt, state, reset, hidden, last, active,
    T, B,
    D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    KIND: tl.constexpr, RESIDENT: tl.constexpr, RESETS: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    units = tl.arange(0, WIDTH)
    here = b < B
    inside = here[:, None] & (units < D)[None, :]
    one = b[:, None] * D + units[None, :]  # [ROWS, WIDTH] into [B, D]
    four = b[:, None] * (4 * D) + units[None, :]  # into [B, 4D]
    h = tl.load(state + one, inside, 0.0)
    if RESIDENT:
        w1, w2 = _part(weight, 0, units, D, False, KIND), _part(weight, 1, units, D, False, KIND)
        wb, wa = _part(weight, 2, units, D, False, KIND), _part(weight, 3, units, D, False, KIND)
    g1, g2 = tl.load(gates + four, inside, 0.0), tl.load(gates + four + D, inside, 0.0)
    gb, ga = tl.load(gates + four + 2 * D, inside, 0.0), tl.load(gates + four + 3 * D, inside, 0.0)
    for t in tl.range(T, num_stages=1):
        p1, p2, pb, pa = g1.to(tl.float32), g2.to(tl.float32), gb.to(tl.float32), ga.to(tl.float32)
        ahead = inside & (t + 1 < T)  # the next row's gates arrive while this one is worked on
        gates += B * (4 * D)
        g1, g2 = tl.load(gates + four, ahead, 0.0), tl.load(gates + four + D, ahead, 0.0)
        gb, ga = tl.load(gates + four + 2 * D, ahead, 0.0), tl.load(gates + four + 3 * D, ahead, 0.0)
        gap = tl.load(dt + b, here, 0.0)
        dt += B
        if RESETS:
            fresh = tl.load(reset + b, here, 0)
            reset += B
            h = tl.where((fresh != 0)[:, None], 0.0, h)
        if not RESIDENT:
            w1, w2 = _part(weight, 0, units, D, False, KIND), _part(weight, 1, units, D, False, KIND)
            wb, wa = _part(weight, 2, units, D, False, KIND), _part(weight, 3, units, D, False, KIND)
        before = h.to(KIND)
        p1 = tl.dot(before, w1, p1, input_precision="tf32x3")
        p2 = tl.dot(before, w2, p2, input_precision="tf32x3")
        pb = tl.dot(before, wb, pb, input_precision="tf32x3")
        pa = tl.dot(before, wa, pa, input_precision="tf32x3")
        k1, k2 = _sigmoid(2 * p1), _sigmoid(2 * p2)
        share = _sigmoid(pa * gap[:, None] + pb)
        h = 2 * (k1 + share * (k2 - k1)) - 1
        tl.store(hidden + one, h.to(hidden.dtype.element_ty), inside)
        tl.store(active + four, k1, inside)
        tl.store(active + four + D, k2, inside)
        tl.store(active + four + 2 * D, share, inside)
        tl.store(active + four + 3 * D, pa, inside)
        hidden += B * D
        active += B * (4 * D)
    tl.store(last + one, h, inside)


@triton.jit
def cfc_bwd_kernel(
    grad_hidden, grad_last, weight, active, dt, reset, grad_gates, grad_state,
    T, B,
    D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    KIND: tl.constexpr, RESIDENT: tl.constexpr, RESETS: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    units = tl.arange(0, WIDTH)
    here = b < B
    inside = here[:, None] & (units < D)[None, :]
    one = b[:, None] * D + units[None, :]
    four = b[:, None] * (4 * D) + units[None, :]
    carried = tl.load(grad_last + one, inside, 0.0)
    if RESIDENT:
        w1, w2 = _part(weight, 0, units, D, True, KIND), _part(weight, 1, units, D, True, KIND)
        wb, wa = _part(weight, 2, units, D, True, KIND), _part(weight, 3, units, D, True, KIND)
    end = tl.cast(T - 1, tl.int64) * B
    dt += end
    reset += end
    active += end * (4 * D)
    grad_gates += end * (4 * D)
    grad_hidden += end * D
    k1, k2 = tl.load(active + four, inside, 0.0), tl.load(active + four + D, inside, 0.0)
    share = tl.load(active + four + 2 * D, inside, 0.0)
    outer = tl.load(grad_hidden + one, inside, 0.0)
    for back in tl.range(T, num_stages=1):
        grad = carried + outer.to(tl.float32)
        gap = tl.load(dt + b, here, 0.0)[:, None]
        dt -= B
        d1, d2 = 4 * k1 * (1 - k1) * (1 - share) * grad, 4 * k2 * (1 - k2) * share * grad
        db = 2 * (k2 - k1) * share * (1 - share) * grad
        da = db * gap
        ahead = inside & (back + 1 < T)
        active -= B * (4 * D)
        grad_hidden -= B * D
        k1, k2 = tl.load(active + four, ahead, 0.0), tl.load(active + four + D, ahead, 0.0)
        share = tl.load(active + four + 2 * D, ahead, 0.0)
        outer = tl.load(grad_hidden + one, ahead, 0.0)
        if not RESIDENT:
            w1, w2 = _part(weight, 0, units, D, True, KIND), _part(weight, 1, units, D, True, KIND)
            wb, wa = _part(weight, 2, units, D, True, KIND), _part(weight, 3, units, D, True, KIND)
        first = tl.dot(d1.to(KIND), w1, input_precision="tf32x3")
        second = tl.dot(db.to(KIND), wb, input_precision="tf32x3")
        first = tl.dot(d2.to(KIND), w2, first, input_precision="tf32x3")
        second = tl.dot(da.to(KIND), wa, second, input_precision="tf32x3")
        carried = first + second
        if RESETS:
            fresh = tl.load(reset + b, here, 0)
            reset -= B
            carried = tl.where((fresh != 0)[:, None], 0.0, carried)
        tl.store(grad_gates + four, d1.to(grad_gates.dtype.element_ty), inside)
        tl.store(grad_gates + four + D, d2.to(grad_gates.dtype.element_ty), inside)
        tl.store(grad_gates + four + 2 * D, db.to(grad_gates.dtype.element_ty), inside)
        tl.store(grad_gates + four + 3 * D, da.to(grad_gates.dtype.element_ty), inside)
        grad_gates -= B * (4 * D)
    tl.store(grad_state + one, carried, inside)


def forward(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """See `op.cfc_forward`; products in half precision when the gates are, else exact in float32."""
    D, (T, B) = weight.shape[0], dt.shape
    hidden, last = gates.new_empty(T, B, D), torch.empty_like(state)
    active = gates.new_empty(T, B, 4 * D, dtype=torch.float32)
    half = gates.dtype != torch.float32
    cfc_fwd_kernel[(triton.cdiv(B, SEQUENCES),)](
        gates, weight, dt, state, _bytes(reset, dt), hidden, last, active, T, B,
        RESETS=reset is not None, **_shape(D, tl.float16 if half else tl.float32),
    )  # fmt: skip
    return hidden, last, active


def backward(
    grad_hidden: Tensor, grad_last: Tensor, weight: Tensor, active: Tensor, dt: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See `op.cfc_backward`; bfloat16 has the range that gradients need."""
    D, (T, B) = weight.shape[0], dt.shape
    grad_gates, grad_state = grad_hidden.new_empty(T, B, 4 * D), torch.empty_like(grad_last)
    half = grad_hidden.dtype != torch.float32 and not triton.knobs.runtime.interpret  # which has no bfloat16
    cfc_bwd_kernel[(triton.cdiv(B, SEQUENCES),)](
        grad_hidden, grad_last, weight, active, dt, _bytes(reset, dt), grad_gates, grad_state, T, B,
        RESETS=reset is not None, **_shape(D, tl.bfloat16 if half else tl.float32),
    )  # fmt: skip
    return grad_gates, grad_state


def _bytes(reset: Tensor | None, dt: Tensor) -> Tensor:
    return dt if reset is None else reset.view(torch.uint8)


def _shape(D: int, kind: tl.dtype) -> dict[str, object]:
    width = max(16, triton.next_power_of_2(D))
    return {
        "D": D,
        "WIDTH": width,
        "ROWS": SEQUENCES,
        "KIND": kind,
        "RESIDENT": kind != tl.float32 and width <= 128,
        "num_warps": max(1, width // 8),
    }
