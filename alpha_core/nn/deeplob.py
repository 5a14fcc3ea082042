"""DeepLOB: convolutions over book levels and time, an inception module, an LSTM (Zhang, Zohren, Roberts 2019)."""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import leaky_relu, max_pool1d

from alpha_core.errors import DataError
from alpha_core.nn.initial import drawn, linear
from alpha_core.nn.reference import Carried, Reference
from alpha_core.shapes import FEATURES, HORIZONS

CHANNELS, BRANCH, HIDDEN = 16, 32, 64
"""As published: filters of a convolution and of an inception branch, units of the LSTM."""

TAPS, BLOCKS = 4, 3
"""Rows of a convolution over time, two of which follow each convolution over the book."""

SHORT, LONG, POOL = 3, 5, 3
"""Rows that the inception module's branches look at."""

LEVELS = 5
BY_LEVEL = tuple(
    f"{kind}_{level}" for level in range(1, LEVELS + 1) for kind in ("queue_imbalance", "ofi", "delta_ofi")
)
"""The features that belong to a level, level by level: the image that the convolutions run over."""

SLOPE = 0.01


class DeepLOB(Reference):
    """Kinds of a level -> levels -> the rest -> inception -> LSTM -> one linear layer; leaky ReLU between.

    Differs from the paper: there the image holds prices and sizes of ten levels, and its three blocks join price and
    size, then the two sides, then the levels. Our features are differences of the sides already: queue imbalance,
    order flow and its change for five levels. The blocks join these three, then the levels, then the 25 features
    that belong to no level (sixth to tenth level pooled among them). Convolutions see the past alone, without
    padding between layers; the LSTM is carried on from row to row, where the paper starts it afresh for each window
    of 100; five horizons share the network. No batch norm, as in the paper.

    Args:
        feature_clip: see Network.
        feature_names: names of the columns.
        generator: source of the first weights.

    Raises:
        DataError: features by level are missing.
    """

    by_level: Tensor
    others: Tensor

    def __init__(self, feature_clip: float, feature_names: Sequence[str], *, generator: Generator) -> None:
        missing = [name for name in BY_LEVEL if name not in feature_names]
        if missing:
            raise DataError(
                f"features {', '.join(missing)} are absent, DeepLOB reads them level by level: pass feature_names, "
                "or choose another perception.network"
            )
        super().__init__(feature_clip, BLOCKS * 2 * (TAPS - 1) + LONG - 1)
        columns = [feature_names.index(name) for name in BY_LEVEL]
        self.register_buffer("by_level", torch.tensor(columns), persistent=False)
        rest = [column for column in range(FEATURES) if column not in columns]
        self.register_buffer("others", torch.tensor(rest), persistent=False)
        kinds = len(BY_LEVEL) // LEVELS
        self.kinds = drawn(nn.Conv2d, 1, CHANNELS, (1, kinds), stride=(1, kinds), generator=generator)
        self.levels = drawn(nn.Conv2d, CHANNELS, CHANNELS, (1, LEVELS), generator=generator)
        self.rest = drawn(nn.Conv2d, CHANNELS + len(rest), CHANNELS, 1, generator=generator)
        self.time = nn.ModuleList(
            drawn(nn.Conv2d, CHANNELS, CHANNELS, (TAPS, 1), generator=generator) for _ in range(2 * BLOCKS)
        )
        self.narrow = nn.ModuleList(
            drawn(nn.Conv1d, CHANNELS, BRANCH, 1, generator=generator) for _ in range(3)
        )
        self.short = drawn(nn.Conv1d, BRANCH, BRANCH, SHORT, generator=generator)
        self.long = drawn(nn.Conv1d, BRANCH, BRANCH, LONG, generator=generator)
        self.lstm = drawn(nn.LSTM, 3 * BRANCH, HIDDEN, batch_first=True, generator=generator)
        self.out = linear(HIDDEN, len(HORIZONS), generator=generator)

    def initial_state(self, batch: int) -> Carried:
        """Zeros: rows, and the LSTM's hidden and cell state."""
        zeros = self.mean.new_zeros(batch, HIDDEN)
        return Carried((*super().initial_state(batch).parts, zeros, zeros))

    def unbroken(self, rows: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See Reference.unbroken; the memory is the LSTM's."""
        book = self._over_time(leaky_relu(self.kinds(rows[:, None, :, self.by_level]), SLOPE), 0)
        book = self._over_time(leaky_relu(self.levels(book), SLOPE), 1)
        others = rows[:, -book.shape[2] :, self.others].transpose(1, 2)[..., None]
        joined = self._over_time(leaky_relu(self.rest(torch.cat((book, others), dim=1)), SLOPE), 2)
        features = self._inception(joined[..., 0]).transpose(1, 2)
        with torch.autocast(rows.device.type, enabled=False):
            hidden, cell = (part[None] for part in memory)
            out, (hidden, cell) = self.lstm(features.float(), (hidden, cell))
        return self.out(out), (hidden[0], cell[0])

    def _over_time(self, x: Tensor, block: int) -> Tensor:
        """The two convolutions over time of a block: [B, C, n, levels] to [B, C, n - 6, levels]."""
        for layer in self.time[2 * block : 2 * block + 2]:
            x = leaky_relu(layer(x), SLOPE)
        return x

    def _inception(self, x: Tensor) -> Tensor:
        """[B, C, T + 4] to [B, 3 x BRANCH, T]: three looks at the last rows side by side."""
        T = x.shape[2] - (LONG - 1)
        short, long, pooled = self.narrow
        looks = (
            self.short(leaky_relu(short(x), SLOPE)),
            self.long(leaky_relu(long(x), SLOPE)),
            pooled(max_pool1d(x, POOL, stride=1)),
        )
        return torch.cat([leaky_relu(look[..., -T:], SLOPE) for look in looks], dim=1)
