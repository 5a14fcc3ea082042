"""The recurrence in chunks: matrix products inside a chunk, a short loop over chunks (the dual form)."""

import torch
from torch import Tensor
from torch.nn.functional import pad

LOG_DECAY_FLOOR = -1e4
"""exp of it is 0 in any float type; without a floor an enormous step would make infinity minus infinity."""


def ssd_chunked(
    x: Tensor,
    b: Tensor,
    c: Tensor,
    delta: Tensor,
    *,
    a_log: Tensor,
    d: Tensor,
    state: Tensor,
    reset: Tensor | None,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """Equal to `ssd_sequential`; K chunks of L rows, the last one padded with rows that change nothing."""
    T = x.shape[1]
    missing = -T % chunk
    driven = x * delta[..., None]
    log_decay = (-torch.exp(a_log) * delta).clamp(min=LOG_DECAY_FLOOR)
    u, b, c, log_decay = (_chunks(v, missing, chunk) for v in (driven, b, c, log_decay))
    epoch = None if reset is None else _chunks(reset, missing, chunk).cumsum(-1)
    # Sums in double: a huge step early in a chunk must not cost the small ones after it their digits.
    total = log_decay.double().cumsum(-2).transpose(-1, -2)  # [B, K, H, L]

    within = _decay_within(total, epoch, x.dtype)  # [B, K, H, L, L]
    scores = c @ b.transpose(-1, -2)  # [B, K, L, L]
    y = (scores[:, :, None] * within) @ u.transpose(2, 3)  # [B, K, H, L, P]

    to_end = within[..., -1, :]  # [B, K, H, L]
    ends = (u.transpose(2, 3) * to_end[..., None]).transpose(-1, -2) @ b[:, :, None]  # [B, K, H, P, N]
    from_start = total.exp().to(x.dtype)  # [B, K, H, L]
    if epoch is not None:
        from_start = from_start * (epoch == 0)[:, :, None]
    before, state = _over_chunks(ends, from_start[..., -1], state)
    y = y + (c[:, :, None] @ before.transpose(-1, -2)) * from_start[..., None]
    y = y.transpose(2, 3).flatten(1, 2)[:, :T]
    return y + d[:, None] * x, state


def _chunks(v: Tensor, missing: int, chunk: int) -> Tensor:
    """[B, T, ...] to [B, K, L, ...], zeros appended: no step, no input, no reset."""
    if missing:
        v = pad(v, (0, 0) * (v.dim() - 2) + (0, missing))
    return v.unflatten(1, (-1, chunk))


def _decay_within(total: Tensor, epoch: Tensor | None, dtype: torch.dtype) -> Tensor:
    """[B, K, H, L, L]: what row i keeps of what entered at row j, 0 above the diagonal and across a reset."""
    L = total.shape[-1]
    difference = (total[..., :, None] - total[..., None, :]).to(dtype)
    gone = torch.ones(L, L, dtype=torch.bool, device=total.device).triu(1)
    if epoch is not None:
        gone = (gone | (epoch[..., :, None] != epoch[..., None, :]))[:, :, None]
    return difference.masked_fill(gone, -torch.inf).exp()


def _over_chunks(ends: Tensor, decay: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """(states before each chunk [B, K, H, P, N], last state) from each chunk's own contribution and decay."""
    before = []
    for own, left in zip(ends.unbind(1), decay.unbind(1), strict=True):
        before.append(state)
        state = torch.addcmul(own, state, left[..., None, None])
    return torch.stack(before, dim=1), state
