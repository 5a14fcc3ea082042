"""The loss as the design writes it, differentiated by autograd."""

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def masked_bce_formula(logits: Tensor, up: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """The oracle of `masked_bce`; same arguments, shapes and result."""
    losses = binary_cross_entropy_with_logits(logits, up, reduction="none") * mask
    rows = tuple(range(logits.dim() - 1))
    return (losses.sum(rows) / mask.sum(rows).clamp(min=1) * weights).sum()
