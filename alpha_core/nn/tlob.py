"""TLOB: attention among rows and among features in turn (Berti & Kasneci 2025, arXiv 2502.15757)."""

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from alpha_core.nn.initial import linear
from alpha_core.nn.windows import SHRINK, Tail, WindowNetwork
from alpha_core.shapes import FEATURES

WIDTH, LAYERS, GROWTH = 40, 4, 4
"""As published: width of a row, pairs of layers, hidden width of the perceptrons in units of the token's."""


class Attention(nn.Module):
    """One head among tokens, residual, norm, and a perceptron with a residual where the width stays.

    Args:
        width: of a token.
        outputs: width left.
        generator: source of the first weights.
    """

    def __init__(self, width: int, outputs: int, *, generator: Generator) -> None:
        super().__init__()
        self.qkv = linear(width, 3 * width, generator=generator)
        self.out = linear(width, width, generator=generator)
        self.norm = nn.LayerNorm(width)
        self.first = linear(width, GROWTH * width, generator=generator)
        self.second = linear(GROWTH * width, outputs, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """[n, tokens, width] to [n, tokens, outputs]."""
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        x = self.norm(x + self.out(scaled_dot_product_attention(query, key, value)))
        mixed = self.second(gelu(self.first(x)))
        return mixed + x if mixed.shape == x.shape else mixed


class TLOB(WindowNetwork):
    """Norm -> embedding + position -> LAYERS x (rows attend, features attend) -> tail; the last pair leaves a quarter.

    Attention inside a window looks both ways, as published: the window ends with the row that is asked, so nothing
    of the future is in it. Differs from the paper: it reads our 40 features instead of the prices and sizes of ten
    levels and the order's type; queries, keys and values are projected once, where the authors' code does it twice;
    five horizons share the network; `window` is ours to set (published: 128).

    Args:
        feature_clip: see Network.
        window: K, rows seen.
        generator: source of the first weights.
    """

    position: Tensor

    def __init__(self, feature_clip: float, window: int, *, generator: Generator) -> None:
        super().__init__(feature_clip, window)
        self.embed = linear(FEATURES, WIDTH, generator=generator)
        self.register_buffer("position", sinusoids(window, WIDTH), persistent=False)
        self.among_rows, self.among_features = nn.ModuleList(), nn.ModuleList()
        for layer in range(LAYERS):
            left = SHRINK if layer == LAYERS - 1 else 1
            self.among_rows.append(Attention(WIDTH, WIDTH // left, generator=generator))
            self.among_features.append(Attention(window, window // left, generator=generator))
        self.tail = Tail((WIDTH // SHRINK) * (window // SHRINK), generator=generator)

    def of_windows(self, windows: Tensor) -> Tensor:
        """See WindowNetwork."""
        x = self.embed(self.norm(windows)) + self.position
        for rows, features in zip(self.among_rows, self.among_features, strict=True):
            x = features(rows(x).transpose(1, 2)).transpose(1, 2)
        return self.tail(x)


def sinusoids(rows: int, width: int) -> Tensor:
    """Positions 0, 1, ... as sines and cosines of falling frequency, [rows, width] (Vaswani et al. 2017)."""
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    phase = torch.arange(rows)[:, None] * rate
    return torch.stack((phase.sin(), phase.cos()), dim=-1).flatten(1)
