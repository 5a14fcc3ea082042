"""The market seen in a mirror: bids and asks exchanged, so that every rise is a fall.

Nothing in a book says that up is special, and a handful of days does: their drift, their lopsided depth. Half of
the training streams are therefore walked in the mirror, which keeps a network from learning the drift of its days.
"""

import torch
from torch import Tensor

from alpha_core.errors import DataError

ODD = frozenset(
    {
        "microprice_minus_mid",
        *(f"queue_imbalance_{level}" for level in range(1, 6)),
        "total_imbalance",
        "book_aggression",
        "mean_order_size_imbalance",
        *(f"{kind}ofi_{level}" for kind in ("", "delta_") for level in ("1", "2", "3", "4", "5", "6_10")),
        *(f"{kind}{name}" for kind in ("", "delta_") for name in ("signed_volume", "trade_count_imbalance")),
        "mid_change",
        "mid_change_10",
    }
)
"""Features that change sign when bids and asks are exchanged."""

EVEN = frozenset(
    {
        "spread",
        "log1p_depth",
        "log_volatility_ema",
        "log_intensity_ema",
        "log1p_duration",
        *(f"time_{wave}_{period}" for wave in ("sin", "cos") for period in ("60s", "6s", "600ms", "60ms")),
    }
)
"""Features that stay as they are."""


def parity(names: tuple[str, ...]) -> Tensor:
    """[F] float32, -1 for odd features and +1 for even ones.

    Raises:
        DataError: a feature is in neither list.
    """
    unknown = [name for name in names if name not in ODD and name not in EVEN]
    if unknown or not names:
        raise DataError(
            f"parity of the features {unknown or 'without names'} is unknown, needed by perception.mirror: "
            "list them as odd or even, or set mirror = false"
        )
    return torch.tensor([-1.0 if name in ODD else 1.0 for name in names])


def mirrored_streams(streams: int, epoch: int) -> Tensor:
    """[B] bool: every other stream, and the others in the next epoch."""
    return (torch.arange(streams) + epoch) % 2 == 1
