"""The heads as kernels: a program reads its rows of h once and walks over the heads; e2 stays on chip.

The forward kernel writes, a row and head, the logit and what the gate and the main path read from e2. The backward
pass is two kernels: `grn_bwd_kernel` computes e2 anew and writes the gradient of h, that of the pre-activation
W2 h + b2, and each program's sums over its own rows for the vectors; `grn_weights_kernel` then makes the gradient of
W2 from the second of these, a head and a range of rows a program. Partial sums are added up in a fixed order
afterwards, so the bits do not change from run to run.

Products are in half precision when h is, else made of three tf32 ones, which is as exact as float32.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 128
"""Largest D whose W2 of one head fits on chip beside the rows."""

FEW = 16
"""The least rows or columns that a matrix unit takes."""

PARTS = 52
"""Ranges of rows in the gradient of W2: with five heads 260 programs, two for each multiprocessor."""

# With 64 rows or more in float32, triton 3.6 makes the transposed W2 a factor of the warp-group unit and reads past it.
FORWARD = ({"ROWS": 32, "STAGES": 1, "num_warps": 8}, {"ROWS": 128, "STAGES": 2, "num_warps": 8})
BACKWARD = (
    {"ROWS": 32, "UNITS": 32, "STAGES": 1, "num_warps": 8},
    {"ROWS": 64, "UNITS": 64, "STAGES": 2, "num_warps": 4},
)
WEIGHTS = ({"ROWS": 32, "STAGES": 3, "num_warps": 8}, {"ROWS": 64, "STAGES": 3, "num_warps": 8})
"""Each for float32 and for half precision, such that no register spills at D = 128. The backward kernel works on
UNITS of a head at a time: with all 128 the registers do not suffice."""

DENSITY = tl.constexpr(0.3989422804014327)  # 1 / sqrt(2 pi), the normal density at 0
MINUS_HALF_LOG2_E = tl.constexpr(-0.7213475204444817)  # exp(-x^2 / 2) = exp2(this x^2)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _normal_tail(x):
    """1 - Phi(|x|), of which the exact GELU and its derivative are made.

    Its logarithm is nearly a parabola: a polynomial of degree 8, fitted to the least largest error, is within 5e-8
    for all x, the rounding of float32. It has one transcendental call and no division, unlike the usual forms of erf.
    """
    u = tl.abs(x)
    p = 3.373780782567337e-05 + u * -2.334948476345744e-06
    p = -0.00019170365703757852 + u * (-0.0001612937921890989 + u * p)
    p = -0.05253361165523529 + u * (0.007126865442842245 + u * p)
    p = -1.1511059999465942 + u * (-0.4591982960700989 + u * p)
    return tl.exp2(-1.0 + u * p)


@triton.jit
def grn_fwd_kernel(
    h, w2, b2, readers, biases, w_skip, b_skip, logits, read,
    N, H,
    D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KIND: tl.constexpr, STAGES: tl.constexpr,
    HEADS: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    units, heads = tl.arange(0, WIDTH), tl.arange(0, HEADS)
    here, wide, some = r < N, units < D, heads < H
    x = tl.load(h + r[:, None] * D + units[None, :], here[:, None] & wide[None, :], 0.0).to(KIND)
    skip = tl.load(w_skip + heads[None, :] * D + units[:, None], some[None, :] & wide[:, None], 0.0)
    result = tl.dot(x, skip.to(KIND), input_precision="tf32x3") + tl.load(b_skip + heads, some, 0.0)[None, :]
    for head in tl.range(H, num_stages=STAGES):
        square = head * D * D + units[:, None] + units[None, :] * D  # W2 transposed: [in, out]
        w = tl.load(w2 + square, wide[:, None] & wide[None, :], 0.0)
        inner = tl.dot(x, w, input_precision="tf32x3") + tl.load(b2 + head * D + units, wide, 0.0)[None, :]
        e2 = tl.maximum(inner, 0.0) - tl.abs(inner) * _normal_tail(inner)
        vector = readers + head * (2 * D) + units
        gate = tl.sum(e2 * tl.load(vector, wide, 0.0)[None, :], 1) + tl.load(biases + 2 * head)
        main = tl.sum(e2 * tl.load(vector + D, wide, 0.0)[None, :], 1) + tl.load(biases + 2 * head + 1)
        tl.store(read + r * (2 * H) + 2 * head, gate, here)
        tl.store(read + r * (2 * H) + 2 * head + 1, main, here)
        result += tl.where((heads == head)[None, :], (_sigmoid(gate) * main)[:, None], 0.0)
    tl.store(logits + r[:, None] * H + heads[None, :], result, here[:, None] & some[None, :])


@triton.jit
def grn_bwd_kernel(
    grad, read, h, w2, b2, readers, w_skip, grad_h, grad_inner, part_readers, part_biases, part_skip,
    N, H,
    D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KIND: tl.constexpr, STAGES: tl.constexpr,
    FEW: tl.constexpr, HEADS: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    r = program * ROWS + tl.arange(0, ROWS)
    inputs, few, heads = tl.arange(0, WIDTH), tl.arange(0, FEW), tl.arange(0, HEADS)
    here, wide, some = r < N, inputs < D, heads < H
    x = tl.load(h + r[:, None] * D + inputs[None, :], here[:, None] & wide[None, :], 0.0).to(KIND)

    # The skip path and the biases, all heads at once.
    inside = here[:, None] & some[None, :]
    outers = tl.load(grad + r[:, None] * H + heads[None, :], inside, 0.0)
    gates = _sigmoid(tl.load(read + r[:, None] * (2 * H) + 2 * heads[None, :], inside, 0.0))
    mains = tl.load(read + r[:, None] * (2 * H) + 2 * heads[None, :] + 1, inside, 0.0)
    part_biases += program * (3 * H) + heads
    tl.store(part_biases, tl.sum(outers * mains * gates * (1 - gates), 0), some)
    tl.store(part_biases + H, tl.sum(outers * gates, 0), some)
    tl.store(part_biases + 2 * H, tl.sum(outers, 0), some)
    by_head = heads[:, None] * D + inputs[None, :]
    skip = tl.load(w_skip + by_head, some[:, None] & wide[None, :], 0.0).to(KIND)
    total = tl.dot(outers.to(KIND), skip, input_precision="tf32x3")
    of_skip = tl.dot(tl.trans(outers.to(KIND)), x, input_precision="tf32x3")
    tl.store(part_skip + program * (H * D) + by_head, of_skip, some[:, None] & wide[None, :])

    part_readers += program * (2 * H * D)
    for step in tl.range(H * (WIDTH // UNITS), num_stages=STAGES):
        head = step // (WIDTH // UNITS)
        units = step % (WIDTH // UNITS) * UNITS + tl.arange(0, UNITS)
        unit = units < D
        square = head * D * D + units[:, None] * D + inputs[None, :]  # [out, in]
        w = tl.load(w2 + square, unit[:, None] & wide[None, :], 0.0)
        inner = tl.dot(x, tl.trans(w), input_precision="tf32x3")
        inner += tl.load(b2 + head * D + units, unit, 0.0)[None, :]
        outer = tl.load(grad + r * H + head, here, 0.0)
        gate = _sigmoid(tl.load(read + r * (2 * H) + 2 * head, here, 0.0))
        main = tl.load(read + r * (2 * H) + 2 * head + 1, here, 0.0)
        d_gate, d_main = outer * main * gate * (1 - gate), outer * gate
        tail = _normal_tail(inner)
        # The sums over rows that the readers get, as a product: no shuffling between lanes is as fast.
        both = tl.where(
            (few == 0)[:, None], d_gate[None, :], tl.where((few == 1)[:, None], d_main[None, :], 0.0)
        )
        e2 = tl.maximum(inner, 0.0) - tl.abs(inner) * tail
        of_readers = tl.dot(both.to(KIND), e2.to(KIND), input_precision="tf32x3")
        pair = (2 * head + few)[:, None] * D + units[None, :]
        tl.store(part_readers + pair, of_readers, (few < 2)[:, None] & unit[None, :])
        density = tl.exp2(inner * inner * MINUS_HALF_LOG2_E) * DENSITY
        slope = tl.where(inner > 0, 1 - tail, tail) + inner * density
        vector = readers + head * (2 * D) + units
        for_gate, for_main = tl.load(vector, unit, 0.0), tl.load(vector + D, unit, 0.0)
        d_inner = (d_gate[:, None] * for_gate[None, :] + d_main[:, None] * for_main[None, :]) * slope
        total = tl.dot(d_inner.to(KIND), w, total, input_precision="tf32x3")
        spot = r[:, None] * (H * D) + (head * D + units)[None, :]
        tl.store(grad_inner + spot, d_inner.to(grad_inner.dtype.element_ty), here[:, None] & unit[None, :])
    spot = r[:, None] * D + inputs[None, :]
    tl.store(grad_h + spot, total.to(grad_h.dtype.element_ty), here[:, None] & wide[None, :])


@triton.jit
def grn_weights_kernel(
    grad_inner, h, part_w2, part_b2,
    N, H, SPAN,
    D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KIND: tl.constexpr, STAGES: tl.constexpr,
    FEW: tl.constexpr,
):  # fmt: skip
    head, part = tl.program_id(0), tl.program_id(1).to(tl.int64)
    units = tl.arange(0, WIDTH)
    wide = units < D
    of_weights = tl.zeros((WIDTH, WIDTH), tl.float32)
    of_bias = tl.zeros((WIDTH, FEW), tl.float32)
    ones = tl.full((ROWS, FEW), 1.0, KIND)  # a sum over rows is a product with them
    for step in tl.range(SPAN // ROWS, num_stages=STAGES):
        r = part * SPAN + step * ROWS + tl.arange(0, ROWS)
        inside = (r < N)[:, None] & wide[None, :]
        d = tl.load(grad_inner + r[:, None] * (H * D) + head * D + units[None, :], inside, 0.0)
        x = tl.load(h + r[:, None] * D + units[None, :], inside, 0.0).to(KIND)
        of_weights = tl.dot(tl.trans(d), x, of_weights, input_precision="tf32x3")
        of_bias = tl.dot(tl.trans(d), ones, of_bias, input_precision="tf32x3")
    spot = part * H + head
    square = units[:, None] * D + units[None, :]
    tl.store(part_w2 + spot * D * D + square, of_weights, wide[:, None] & wide[None, :])
    first = (tl.arange(0, FEW) == 0)[None, :] & wide[:, None]
    tl.store(part_b2 + spot * D + units[:, None] + tl.zeros((1, FEW), tl.int32), of_bias, first)


def forward(
    h: Tensor, w2: Tensor, b2: Tensor, readers: Tensor, biases: Tensor, w_skip: Tensor, b_skip: Tensor
) -> tuple[Tensor, Tensor]:
    """See `op.grn_forward`."""
    N, H, kind = len(h), len(w2), _kind(h)
    logits, read = w2.new_empty(N, H), w2.new_empty(N, H, 2)
    plan = _plan(w2, kind, FORWARD[kind != torch.float32])
    grn_fwd_kernel[(triton.cdiv(N, plan["ROWS"]),)](
        h.contiguous(),
        w2.to(kind),
        b2,
        readers.contiguous(),
        biases,
        w_skip,
        b_skip,
        logits,
        read,
        N,
        H,
        **plan,
    )
    return logits, read


def backward(
    grad: Tensor, h: Tensor, w2: Tensor, b2: Tensor, readers: Tensor, w_skip: Tensor, read: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `op.grn_backward`."""
    (N, D), H, kind, h = h.shape, len(w2), _kind(h), h.contiguous()
    grad_h, grad_inner = torch.empty_like(h), h.new_empty(N, H, D, dtype=kind)
    plan = _plan(w2, kind, BACKWARD[kind != torch.float32])
    programs = triton.cdiv(N, plan["ROWS"])
    part_readers, part_skip = w2.new_empty(programs, H, 2, D), w2.new_empty(programs, H, D)
    part_biases = w2.new_empty(programs, 3, H)
    grn_bwd_kernel[(programs,)](
        grad, read, h, w2.to(kind), b2, readers.contiguous(), w_skip, grad_h, grad_inner,
        part_readers, part_biases, part_skip, N, H, FEW=FEW, **plan,
    )  # fmt: skip
    grad_w2, grad_b2 = _weights(grad_inner, h, w2)
    of_biases = part_biases.sum(0)
    return (
        grad_h, grad_w2, grad_b2, part_readers.sum(0), of_biases[:2].t().clone(), part_skip.sum(0),
        of_biases[2].clone(),
    )  # fmt: skip


def _weights(grad_inner: Tensor, h: Tensor, w2: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of W2 and b2."""
    (N, H, D), kind = grad_inner.shape, grad_inner.dtype
    plan = _plan(w2, kind, WEIGHTS[kind != torch.float32])
    del plan["HEADS"]
    rows = plan["ROWS"]
    parts = max(1, min(triton.cdiv(N, 8 * rows), PARTS))
    span = triton.cdiv(triton.cdiv(N, parts), rows) * rows
    part_w2, part_b2 = w2.new_empty(parts, H, D, D), w2.new_empty(parts, H, D)
    grn_weights_kernel[(H, parts)](grad_inner, h, part_w2, part_b2, N, H, span, FEW=FEW, **plan)
    return part_w2.sum(0), part_b2.sum(0)


def _kind(h: Tensor) -> torch.dtype:
    """Precision of the products: that of h, but float32 in the interpreter, which has no bfloat16."""
    return torch.float32 if triton.knobs.runtime.interpret else h.dtype


def _plan(w2: Tensor, kind: torch.dtype, choice: dict[str, int]) -> dict[str, Any]:
    """What a kernel is compiled for. Raises ValueError when W2 of a head does not fit on chip."""
    H, D, _ = w2.shape
    if D > WIDEST:
        raise ValueError(f"grn_heads: width D was {D}, must be at most {WIDEST} on CUDA: use narrower heads")
    named = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}[kind]
    width, heads = (max(FEW, triton.next_power_of_2(size)) for size in (D, H))
    fitting = {name: min(value, width) if name == "UNITS" else value for name, value in choice.items()}
    return {"D": D, "WIDTH": width, "HEADS": heads, "KIND": named, **fitting}
