"""The gate as one kernel each way: a row is read once, scores and gate stay on chip.

Products are in half precision when x is, else made of three tf32 ones, which is as exact as float32. A program of the
backward pass walks over blocks of rows and keeps its sums for the weights; they are added up in a fixed order
afterwards, so the bits do not change from run to run.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

FORWARD = ({"ROWS": 64, "num_warps": 4}, {"ROWS": 64, "num_warps": 4})
BACKWARD = ({"ROWS": 32, "num_warps": 8}, {"ROWS": 64, "num_warps": 4})
"""Each for float32 and for half precision, such that no register spills at F = 40."""

PROGRAMS = 528
"""Of the backward pass at most: four for each multiprocessor."""

WIDEST = 128
"""Largest F whose weights fit on chip beside the rows."""


@triton.jit
def _gate(x, w, bias, wide):
    """softmax(x W + b) over the features."""
    scores = tl.dot(x, w, input_precision="tf32x3") + bias[None, :]
    scores = tl.where(wide[None, :], scores, float("-inf"))
    powers = tl.exp(scores - tl.max(scores, 1)[:, None])
    return powers / tl.sum(powers, 1)[:, None]


@triton.jit
def vsn_fwd_kernel(
    x, weight, bias, y, gate,
    N,
    F: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KIND: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    f = tl.arange(0, WIDTH)
    wide = f < F
    inside = (r < N)[:, None] & wide[None, :]
    spot = r[:, None] * F + f[None, :]
    row = tl.load(x + spot, inside, 0.0)
    w = tl.load(weight + f[:, None] * F + f[None, :], wide[:, None] & wide[None, :], 0.0).to(KIND)
    g = _gate(row.to(KIND), w, tl.load(bias + f, wide, 0.0), wide)
    tl.store(y + spot, (row.to(tl.float32) * g * F).to(y.dtype.element_ty), inside)
    if GATED:
        tl.store(gate + spot, g, inside)


@triton.jit
def vsn_bwd_kernel(
    grad, grad_gate, x, weight, bias, grad_x, part_weight, part_bias,
    N,
    F: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KIND: tl.constexpr, GATED: tl.constexpr,
    WITH_X: tl.constexpr,
):  # fmt: skip
    f = tl.arange(0, WIDTH)
    wide = f < F
    square, whole = f[:, None] * F + f[None, :], wide[:, None] & wide[None, :]
    w = tl.load(weight + square, whole, 0.0).to(KIND)
    b = tl.load(bias + f, wide, 0.0)
    of_weight, of_bias = tl.zeros((WIDTH, WIDTH), tl.float32), tl.zeros((ROWS, WIDTH), tl.float32)
    for block in tl.range(tl.program_id(0), tl.cdiv(N, ROWS), tl.num_programs(0), num_stages=1):
        r = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        inside = (r < N)[:, None] & wide[None, :]
        spot = r[:, None] * F + f[None, :]
        row = tl.load(x + spot, inside, 0.0)
        outer = tl.load(grad + spot, inside, 0.0).to(tl.float32) * F
        g = _gate(row.to(KIND), w, b, wide)
        of_gate = outer * row.to(tl.float32)
        if GATED:
            of_gate += tl.load(grad_gate + spot, inside, 0.0)
        scores = g * (of_gate - tl.sum(g * of_gate, 1)[:, None])
        of_bias += scores
        scores = scores.to(KIND)
        if WITH_X:
            of_row = tl.dot(scores, tl.trans(w), outer * g, input_precision="tf32x3")
            tl.store(grad_x + spot, of_row.to(grad_x.dtype.element_ty), inside)
        of_weight = tl.dot(tl.trans(row.to(KIND)), scores, of_weight, input_precision="tf32x3")
    program = tl.program_id(0)
    tl.store(part_weight + program * F * F + square, of_weight, whole)
    tl.store(part_bias + program * F + f, tl.sum(of_bias, 0), wide)


def forward(x: Tensor, weight: Tensor, bias: Tensor, gated: bool) -> tuple[Tensor, Tensor]:
    """See `op.vsn_forward`."""
    x, plan = x.contiguous(), _plan(x, FORWARD)
    y, gate = torch.empty_like(x), weight.new_empty(x.shape if gated else (0, 0))
    vsn_fwd_kernel[(triton.cdiv(len(x), plan["ROWS"]),)](
        x, weight.contiguous(), bias, y, gate if gated else y, len(x), GATED=gated, **plan
    )
    return y, gate


def backward(
    grad: Tensor, grad_gate: Tensor | None, x: Tensor, weight: Tensor, bias: Tensor, with_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """See `op.vsn_backward`."""
    x, plan, (N, F) = x.contiguous(), _plan(x, BACKWARD), x.shape
    programs = min(triton.cdiv(N, plan["ROWS"]), PROGRAMS)
    grad_x, part_weight, part_bias = (
        x.new_empty(x.shape if with_x else (0, 0)),
        weight.new_empty(programs, F, F),
        weight.new_empty(programs, F),
    )
    gated = grad_gate is not None
    vsn_bwd_kernel[(programs,)](
        grad, grad_gate if gated else grad, x, weight.contiguous(), bias, grad_x, part_weight, part_bias, N,
        GATED=gated, WITH_X=with_x, **plan,
    )  # fmt: skip
    return grad_x, part_weight.sum(0), part_bias.sum(0)


def _plan(x: Tensor, choices: tuple[dict[str, int], dict[str, int]]) -> dict[str, Any]:
    """What a kernel is compiled for. Raises ValueError when the weights do not fit on chip."""
    F = x.shape[1]
    if F > WIDEST:
        raise ValueError(f"vsn_gate: F was {F}, must be at most {WIDEST} on CUDA: use fewer features")
    kinds = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
    kind = tl.float32 if triton.knobs.runtime.interpret else kinds[x.dtype]  # it has no bfloat16 products
    width = max(16, triton.next_power_of_2(F))
    return {"F": F, "WIDTH": width, "KIND": kind, **choices[kind != tl.float32]}
