"""Where episodes may start."""

import torch
from torch import Tensor

from alpha_core.errors import ConfigError


def episode_starts(segment: Tensor, horizon: int, latency: int, *, stride: int | None = None) -> Tensor:
    """Rows from which a whole episode, its last decision's arrival included, lies inside one segment.

    An episode from row s decides on rows s .. s + H - 1 and settles on row s + H; its last decision would
    arrive on row s + H - 1 + latency.

    Args:
        segment: [R] int, contiguous runs of equal values.
        horizon: H, decisions per episode.
        latency: rows between a decision and its arrival.
        stride: rows between starts inside a segment; None tiles the segment without overlap (stride H).

    Returns:
        [n] int64 rows in ascending order, on the segment's device; empty when no segment is long enough.

    Raises:
        ConfigError: horizon or stride below 1, or latency below 0.
    """
    stride = horizon if stride is None else stride
    if horizon < 1 or stride < 1 or latency < 0:
        raise ConfigError(
            f"episode starts: horizon was {horizon} and stride {stride}, must be at least 1; "
            f"latency was {latency}, must be at least 0"
        )
    if segment.numel() == 0:
        return torch.empty(0, dtype=torch.int64, device=segment.device)
    _, inverse, counts = torch.unique_consecutive(segment, return_inverse=True, return_counts=True)
    first = torch.cumsum(counts, 0) - counts
    offset = torch.arange(segment.numel(), device=segment.device) - first[inverse]
    span = horizon + max(latency - 1, 0)
    fits = offset + span < counts[inverse]
    return torch.nonzero(fits & (offset % stride == 0)).flatten()
