"""Means and draws as one kernel: every logit is read once, and nothing but the results is written."""

import triton
import triton.language as tl
from torch import Tensor

ROWS = 16
"""Distributions that a program holds: 16 of 64 atoms leave 8 numbers to each of 128 threads."""


@triton.jit
def values_kernel(
    logits, support, uniforms, means, draws,
    rows, Z: tl.constexpr, ATOMS: tl.constexpr, DRAW: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    z = tl.arange(0, ATOMS)
    inside = (r < rows)[:, None] & (z < Z)[None, :]
    value = tl.load(logits + r.to(tl.int64)[:, None] * Z + z[None, :], inside, float("-inf"))
    atoms = tl.load(support + z, z < Z, 0.0)
    # Rows beyond the last have no largest logit; whatever they come to is not written.
    weight = tl.exp(value - tl.max(value, 1)[:, None])
    total = tl.sum(weight, 1)
    tl.store(means + r, tl.sum(weight * atoms[None, :], 1) / total, r < rows)
    if DRAW:
        level = tl.load(uniforms + r, r < rows, 0.0)
        cumulative = tl.cumsum(weight, 1)
        last = tl.sum(tl.where(z[None, :] == Z - 1, cumulative, 0.0), 1)
        below = (cumulative < (level * last)[:, None]) & (z < Z)[None, :]
        chosen = tl.minimum(tl.sum(below.to(tl.int32), 1), Z - 1)
        draw = tl.sum(tl.where(z[None, :] == chosen[:, None], atoms[None, :], 0.0), 1)
        tl.store(draws + r, tl.where(total == total, draw, total), r < rows)


def values(logits: Tensor, support: Tensor, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    """See `op.c51_values`."""
    n, A, Z = logits.shape
    means, draws = logits.new_empty(n, A), logits.new_empty(0 if uniforms is None else n, A)
    if n:
        values_kernel[(triton.cdiv(n * A, ROWS),)](
            logits.contiguous(), support.contiguous(), logits if uniforms is None else uniforms.contiguous(),
            means, draws, n * A, Z=Z, ATOMS=triton.next_power_of_2(Z), DRAW=uniforms is not None, ROWS=ROWS,
        )  # fmt: skip
    return means, draws
