"""Masked binary cross-entropy over several horizons; the maths is in README.md."""

import torch
from torch import Tensor

from alpha_core.cuda.bce.op import bce_forward

__all__ = ["masked_bce"]


def masked_bce(logits: Tensor, up: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean over horizons of the mean binary cross-entropy over the rows that the mask keeps.

    Args:
        logits: [..., H].
        up: [..., H] float, 1 where the event came.
        mask: [..., H] float, 0 on rows without a direction.
        weights: [H] float.

    Returns:
        A number in the precision of the weights. A horizon without rows counts as 0.
    """
    H, keep = logits.shape[-1], torch.is_grad_enabled() and logits.requires_grad
    return bce_forward(logits.reshape(-1, H), up.reshape(-1, H), mask.reshape(-1, H), weights, keep)[0]
