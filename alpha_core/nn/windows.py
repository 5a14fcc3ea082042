"""What TLOB and MLPLOB share: a network that sees one window of rows at a time, its norm and its tail."""

from itertools import pairwise

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import gelu

from alpha_core.nn.initial import linear
from alpha_core.nn.reference import Reference
from alpha_core.shapes import FEATURES, HORIZONS

SHRINK = 4
"""The last layer, and each layer of the tail, leave one value in so many."""

TAIL = 128
"""The tail shrinks until so many values are left, which the logits are read from."""


class BilinearNorm(nn.Module):
    """Weighted sum of a window standardised over its rows and over its features (Tran et al. 2021).

    Args:
        window: K.
        features: F.
    """

    def __init__(self, window: int, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, 0.5]))
        self.over_rows = nn.Parameter(torch.stack((torch.ones(features), torch.zeros(features))))
        self.over_features = nn.Parameter(torch.stack((torch.ones(window, 1), torch.zeros(window, 1))))

    def forward(self, x: Tensor) -> Tensor:
        """[n, K, F] to the same shape."""
        rows = _standardised(x, 1) * self.over_rows[0] + self.over_rows[1]
        features = _standardised(x, 2) * self.over_features[0] + self.over_features[1]
        return self.weight[0] * rows + self.weight[1] * features


def _standardised(x: Tensor, dim: int) -> Tensor:
    """Mean 0 and variance 1 along a dimension; what does not vary there becomes 0."""
    centred = x - x.mean(dim, keepdim=True)
    return centred / (centred.square().mean(dim, keepdim=True) + 1e-5).sqrt()


class Tail(nn.Module):
    """Flattens a window and shrinks it fourfold a layer, GELU between, down to the logits.

    Args:
        values: in a window that comes out of the last layer.
        generator: source of the first weights.
    """

    def __init__(self, values: int, *, generator: Generator) -> None:
        super().__init__()
        widths = [values]
        while widths[-1] > TAIL:
            widths.append(widths[-1] // SHRINK)
        self.layers = nn.ModuleList(
            linear(wide, narrow, generator=generator) for wide, narrow in pairwise(widths)
        )
        self.out = linear(widths[-1], len(HORIZONS), generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """[n, K', D'] to logits [n, H]."""
        x = x.flatten(1)
        for layer in self.layers:
            x = gelu(layer(x))
        return self.out(x)


class WindowNetwork(Reference):
    """A network of one window, asked once for each row with the window that ends there.

    Args:
        feature_clip: see Network.
        window: K, rows of a window, the row itself among them.
    """

    def __init__(self, feature_clip: float, window: int) -> None:
        super().__init__(feature_clip, window - 1)
        self.window = window
        self.norm = BilinearNorm(window, FEATURES)

    def unbroken(self, rows: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See Reference.unbroken; there is no memory beside the rows."""
        windows = rows.unfold(1, self.window, 1).transpose(2, 3)
        return self.of_windows(windows.flatten(0, 1)).unflatten(0, windows.shape[:2]), memory

    def of_windows(self, windows: Tensor) -> Tensor:
        """Windows [n, K, F] to logits [n, H]."""
        raise NotImplementedError
