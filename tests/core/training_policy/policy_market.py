"""A small replayed market on which policies are run and trained in tests."""

import numpy as np
import torch

from alpha_core.market.data import MarketData
from alpha_core.shapes import FEATURES, LEVELS
from tests.core.market.market_synthetic import ladder, market_from_book, prints


def trending_market(rows: int, *, seed: int, readable: bool) -> MarketData:
    """The touch drifts with a slow signal; the alpha shows that signal, or noise when it is not readable."""
    rng = np.random.default_rng(seed)
    signal, bid, books, tapes, signals = 0.0, 1000, [], [], []
    for _ in range(rows):
        signal = 0.98 * signal + 0.2 * rng.normal()
        step = int(rng.random() < 0.25) * (1 if rng.random() < 1 / (1 + np.exp(-2.5 * signal)) else -1)
        books.append(ladder(bid, bid + 1, 20, LEVELS))
        side = {"buys": [(bid + 1, 3)]} if rng.random() < 0.5 else {"sells": [(bid, 3)]}
        tapes.append(prints(touch=(bid, bid + 1), **side))
        signals.append(signal)
        bid += step
    alpha = np.array(signals) if readable else rng.normal(size=rows)
    market = market_from_book(np.stack(books), np.stack(tapes), alpha=alpha.astype(np.float32))
    assert market.features.shape[1] == FEATURES
    return market


def tiles(market: MarketData, horizon: int) -> torch.Tensor:
    return torch.arange(0, market.rows - horizon - 2, horizon)
