"""MLPLOB: two-layer perceptrons that mix features and rows in turn (Berti & Kasneci 2025, arXiv 2502.15757)."""

from torch import Generator, Tensor, nn
from torch.nn.functional import gelu

from alpha_core.nn.initial import linear
from alpha_core.nn.windows import SHRINK, Tail, WindowNetwork
from alpha_core.shapes import FEATURES

WIDTH, LAYERS = 40, 3
"""As published."""

FEATURE_GROWTH, ROW_GROWTH = 4, 2
"""Hidden width of a perceptron over features, and over rows, in units of what it reads."""


class Mixer(nn.Module):
    """GELU(norm(x + W2 GELU(W1 x))) along the last dimension; no residual where the width changes.

    Args:
        inputs: width read.
        hidden: width between.
        outputs: width left.
        generator: source of the first weights.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, *, generator: Generator) -> None:
        super().__init__()
        self.first = linear(inputs, hidden, generator=generator)
        self.second = linear(hidden, outputs, generator=generator)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        mixed = self.second(gelu(self.first(x)))
        return gelu(self.norm(mixed + x if mixed.shape == x.shape else mixed))


class MLPLOB(WindowNetwork):
    """Norm -> embedding -> LAYERS x (mix features, mix rows) -> tail; the last pair leaves a quarter of each.

    Differs from the paper: it reads our 40 features instead of the prices and sizes of ten levels and the order's
    type; five horizons share the network instead of one network each; `window` is ours to set (published: 384).

    Args:
        feature_clip: see Network.
        window: K, rows seen.
        generator: source of the first weights.
    """

    def __init__(self, feature_clip: float, window: int, *, generator: Generator) -> None:
        super().__init__(feature_clip, window)
        self.embed = linear(FEATURES, WIDTH, generator=generator)
        self.over_features, self.over_rows = nn.ModuleList(), nn.ModuleList()
        for layer in range(LAYERS):
            left = SHRINK if layer == LAYERS - 1 else 1
            self.over_features.append(
                Mixer(WIDTH, FEATURE_GROWTH * WIDTH, WIDTH // left, generator=generator)
            )
            self.over_rows.append(Mixer(window, ROW_GROWTH * window, window // left, generator=generator))
        self.tail = Tail((WIDTH // SHRINK) * (window // SHRINK), generator=generator)

    def of_windows(self, windows: Tensor) -> Tensor:
        """See WindowNetwork."""
        x = gelu(self.embed(self.norm(windows)))
        for features, rows in zip(self.over_features, self.over_rows, strict=True):
            x = rows(features(x).transpose(1, 2)).transpose(1, 2)
        return self.tail(x)
