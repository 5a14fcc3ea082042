"""The cell over a sequence as the paper writes it, step by step, differentiated by autograd."""

import torch
from torch import Tensor


def cfc_loop(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The oracle of `cfc_scan`; same arguments, shapes and results."""
    hidden, outputs = state, []
    for t in range(gates.shape[1]):
        if reset is not None:
            hidden = hidden.masked_fill(reset[:, t, None], 0.0)
        first, second, offset, slope = (gates[:, t] + hidden @ weight).chunk(4, dim=-1)
        share = torch.sigmoid(slope * dt[:, t, None] + offset)
        hidden = torch.tanh(first) * (1 - share) + share * torch.tanh(second)
        outputs.append(hidden)
    return torch.stack(outputs, dim=1), hidden
