"""The recurrence as the paper writes it, row by row."""

import torch
from torch import Tensor


def ssd_sequential(
    x: Tensor,
    b: Tensor,
    c: Tensor,
    delta: Tensor,
    *,
    a_log: Tensor,
    d: Tensor,
    state: Tensor,
    reset: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The oracle of `ssd_scan` and the live step; same arguments, shapes and results."""
    decay = torch.exp(-torch.exp(a_log) * delta)
    outputs = []
    for t in range(x.shape[1]):
        if reset is not None:
            state = state.masked_fill(reset[:, t, None, None, None], 0.0)
        driven = delta[:, t, :, None, None] * x[:, t, :, :, None] * b[:, t, None, None, :]
        state = decay[:, t, :, None, None] * state + driven
        outputs.append((state * c[:, t, None, None, :]).sum(-1) + d[:, None] * x[:, t])
    return torch.stack(outputs, dim=1), state
