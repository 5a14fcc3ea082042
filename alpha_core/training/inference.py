"""Running a trained network over whole segments, causally, with the state carried exactly."""

from typing import Any

import torch
from torch import Tensor

from alpha_core.nn.network import Network
from alpha_core.training.sequences import SequenceData, blocks, lane_rows

MAX_LANES = 64
BLOCK_ROWS = 4096
"""Rows in flight: enough to fill the arithmetic, few enough to stay in cache. A matter of speed only."""


@torch.no_grad()
def logits_of(model: Network[Any], data: SequenceData) -> Tensor:
    """Logits [N, 5] float32 on the host; each row sees its own segment up to itself and nothing else.

    Whole segments run side by side in lanes; a lane's state is cleared exactly where the next segment begins.
    """
    device = model.mean.device
    features, seconds = data.features.to(device), data.seconds_since_previous.to(device)
    first = data.first_of_segment()
    positions, used = lane_rows(torch.nonzero(first).flatten(), data.rows, MAX_LANES)
    out = torch.empty(data.rows, data.labels.shape[1])
    state = None
    for block in blocks(positions, used, first, max(1, BLOCK_ROWS // len(positions))):
        rows = block.rows.to(device)
        reset = None if block.reset is None else block.reset.to(device)
        logits, state = model(features[rows], seconds[rows], state, reset)
        out[block.rows[block.used]] = logits.cpu()[block.used]
    return out


@torch.no_grad()
def mean_gate(model: Network[Any], features: Tensor) -> Tensor:
    """Mean share of attention per feature over the given rows [n, 40], [40] summing to 1."""
    parts = features.to(model.mean.device).split(BLOCK_ROWS)
    total = torch.stack([model.gate(part).sum(0) for part in parts]).sum(0)
    return (total / len(features)).cpu()
