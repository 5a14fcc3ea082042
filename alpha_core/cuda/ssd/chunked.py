"""The recurrence in chunks in torch calls: matrix products inside a chunk, a short loop over chunks (the dual form).

The backward pass is written out, because it needs no more than the inputs and the states between chunks.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

LOG_DECAY_FLOOR = -1e4
"""exp of it is 0 in any float type; without a floor an enormous step would make infinity minus infinity."""

GRID = 1.5 * 2.0**20
"""Adding and subtracting it rounds a double of that floor or above to a multiple of 2^-32."""


class Decays(NamedTuple):
    """Decays of K chunks of L rows; those across a reset are 0."""

    log: Tensor  # [B, K, H, L] double, of each row
    within: Tensor  # [B, K, H, L, L], what row i keeps of what entered at row j, 0 above the diagonal
    from_start: Tensor  # [B, K, H, L], what row i keeps of the state at the chunk's start
    to_end: Tensor  # [B, K, H, L], what the state at the chunk's end keeps of what entered at row j


def forward(
    x: Tensor,
    b: Tensor,
    c: Tensor,
    delta: Tensor,
    a_log: Tensor,
    d: Tensor,
    state: Tensor,
    reset: Tensor | None,
    chunk: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, last state, states before each chunk [B, K, H, P, N] if to `keep`); see `ssd_scan`."""
    decays = _decays(_chunks(delta, chunk), a_log, reset, chunk, state.dtype)
    b, c = (_chunks(v.to(state.dtype), chunk)[:, :, None] for v in (b, c))  # [B, K, 1, L, N]
    driven = _by_head(x * delta[..., None], chunk)
    ends = driven.transpose(-1, -2) @ (b * decays.to_end[..., None])  # [B, K, H, P, N]
    starts, last = _carry(ends, decays.from_start[..., -1], state)
    y = ((c @ b.transpose(-1, -2)) * decays.within) @ driven
    _add_product(y, c * decays.from_start[..., None], starts.transpose(-1, -2))
    y = torch.addcmul(_rows(y, x.shape[1]), d[:, None], x).to(x.dtype)
    return y, last, starts if keep else starts[:, :0].clone()


def backward(
    grad_y: Tensor,
    grad_last: Tensor,
    x: Tensor,
    b: Tensor,
    c: Tensor,
    delta: Tensor,
    a_log: Tensor,
    d: Tensor,
    reset: Tensor | None,
    starts: Tensor,
    chunk: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, b, c, delta, a_log, d and the first state, from those of the results; see README.md."""
    T, kinds = x.shape[1], (x.dtype, b.dtype, c.dtype, delta.dtype)
    decays = _decays(_chunks(delta, chunk), a_log, reset, chunk, starts.dtype)
    step = _chunks(delta, chunk).transpose(-1, -2)  # [B, K, H, L]
    b, c = (_chunks(v.to(starts.dtype), chunk)[:, :, None] for v in (b, c))
    x, grad_y = (_by_head(v.to(starts.dtype), chunk) for v in (x, grad_y))

    # Every row reads the state at its chunk's start and adds to the one at its end, which later chunks read.
    left = decays.from_start[..., -1]
    ends = grad_y.transpose(-1, -2) @ (c * decays.from_start[..., None])  # [B, K, H, P, N]
    after, grad_state = _carry(ends, left, grad_last, backwards=True)
    read = (grad_y @ starts).mul_(decays.from_start[..., None])
    wrote = (x @ after).mul_(decays.to_end[..., None])
    written = (wrote * b).sum(-1)

    # Row i reads what entered at row j of its chunk.
    scores = c @ b.transpose(-1, -2)  # [B, K, 1, L, L]
    grad_x = (scores * decays.within).transpose(-1, -2) @ grad_y
    _add_product(grad_x, b * decays.to_end[..., None], after.transpose(-1, -2))
    grad_x = torch.addcmul(d[:, None, None] * grad_y, grad_x, step[..., None])
    inner = (grad_y @ x.transpose(-1, -2)).mul_(decays.within)
    grad_d = inner.diagonal(dim1=-2, dim2=-1).sum((0, 1, 3))
    flows = inner * scores
    grad_step = flows.sum(-2) + written
    flows.mul_(step[..., None, :])
    inner = inner.mul_(step[..., None, :]).sum(2)  # [B, K, L, L]
    grad_b = (inner.transpose(-1, -2) @ c[:, :, 0]).add_(wrote.mul_(step[..., None]).sum(2))
    grad_c = (inner @ b[:, :, 0]).add_(read.sum(2))

    # The log decay of a row acts on all that passes it: what has arrived since, less what entered since.
    flows, stored = flows.double(), written * step
    change = flows.sum(-1) - flows.sum(-2) + (read * c).sum(-1) - stored
    passed = (starts * after).sum((-1, -2)) * left
    grad_log = change.flip(-1).cumsum(-1).flip(-1) + (stored.sum(-1) + passed)[..., None]
    grad_log = grad_log.masked_fill(decays.log <= LOG_DECAY_FLOOR, 0.0)
    grad_a_log = (grad_log * decays.log).sum((0, 1, 3)).to(a_log.dtype)
    grad_step = grad_step - grad_log * torch.exp(a_log.double())[:, None]
    grads = _rows(grad_x, T), grad_b.flatten(1, 2)[:, :T], grad_c.flatten(1, 2)[:, :T], _rows(grad_step, T)
    grad_x, grad_b, grad_c, grad_delta = (
        v.to(kind).contiguous() for v, kind in zip(grads, kinds, strict=True)
    )
    return grad_x, grad_b, grad_c, grad_delta, grad_a_log, grad_d, grad_state


def _chunks(v: Tensor, chunk: int) -> Tensor:
    """[B, T, ...] to [B, K, L, ...], zeros appended: no step, no input, no reset."""
    missing = -v.shape[1] % chunk
    if missing:
        v = pad(v, (0, 0) * (v.dim() - 2) + (0, missing))
    return v.unflatten(1, (-1, chunk))


def _by_head(v: Tensor, chunk: int) -> Tensor:
    """[B, T, H, P] to [B, K, H, L, P], contiguous for the products to come."""
    return _chunks(v, chunk).transpose(2, 3).contiguous()


def _rows(v: Tensor, T: int) -> Tensor:
    """[B, K, H, L, ...] to [B, T, H, ...]."""
    return v.transpose(2, 3).flatten(1, 2)[:, :T]


def _decays(delta: Tensor, a_log: Tensor, reset: Tensor | None, chunk: int, dtype: torch.dtype) -> Decays:
    """Of step sizes [B, K, L, H]."""
    log = (-torch.exp(a_log) * delta).clamp(min=LOG_DECAY_FLOOR).double().transpose(-1, -2)
    # Sums in double: a huge step early in a chunk must not cost the small ones after it their digits. Multiples
    # of one small number add up without error, so that no difference depends on the rows before it.
    total = (log if dtype == torch.float64 else log + GRID - GRID).cumsum(-1)
    within = (total[..., :, None] - total[..., None, :]).to(dtype)
    gone = torch.ones(chunk, chunk, dtype=torch.bool, device=delta.device).triu(1)
    from_start = total.exp().to(dtype)
    if reset is not None:
        epoch = _chunks(reset, chunk).cumsum(-1)
        gone = (gone | (epoch[..., :, None] != epoch[..., None, :]))[:, :, None]
        from_start = from_start * (epoch == 0)[:, :, None]
    within = within.masked_fill_(gone, -torch.inf).exp_()
    return Decays(log, within, from_start, within[..., -1, :])


def _carry(ends: Tensor, decay: Tensor, state: Tensor, *, backwards: bool = False) -> tuple[Tensor, Tensor]:
    """(state that each chunk finds [B, K, H, P, N], the last one) from each chunk's own share and decay."""
    found, decay = torch.empty_like(ends), decay[..., None, None]
    for k in reversed(range(ends.shape[1])) if backwards else range(ends.shape[1]):
        found[:, k] = state
        state = torch.addcmul(ends[:, k], state, decay[:, k])
    return found, state


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, in place."""
    total.flatten(0, 2).baddbmm_(left.flatten(0, 2), right.flatten(0, 2))
