"""A small market for the training tests: a slow hidden signal tilts some features and the mid."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from alpha_core.training.config import PerceptionConfig
from alpha_core.training.sequences import SequenceData

SPANS = (2, 5, 12, 30, 60)
"""Rows that each horizon's label spans here."""

NAMES = (
    *(f"f{i}" for i in range(30)),
    "spread",
    "microprice_minus_mid",
    "queue_imbalance_1",
    "ofi_1",
    "mid_change",
    "mid_change_10",
    *(f"g{i}" for i in range(4)),
)


def market(rows: int, *, seed: int, strength: float, segments: int = 4) -> SequenceData:
    """AR(1) signal of half-life 20 rows; strength 0 is an exact null."""
    rng = np.random.default_rng(seed)
    segment = np.arange(rows) * segments // rows
    phi = 0.5 ** (1 / 20)
    signal = np.zeros(rows)
    shocks = rng.normal(size=rows) * np.sqrt(1 - phi**2)
    for t in range(1, rows):
        signal[t] = phi * signal[t - 1] * (segment[t] == segment[t - 1]) + shocks[t]
    features = rng.standard_t(5, size=(rows, 40))
    features[:, 3:8] += strength * signal[:, None] * np.linspace(0.2, 0.5, 5)
    features[:, 33] += 0.4 * strength * signal
    move = np.rint(0.3 * strength * signal + 0.9 * rng.normal(size=rows)).astype(np.int32)
    mid = np.cumsum(move)
    features[:, 34] = move
    features[10:, 35] = mid[10:] - mid[:-10]
    labels, valid = np.zeros((rows, 5), np.int32), np.zeros((rows, 5), bool)
    for column, span in enumerate(SPANS):
        labels[:-span, column] = mid[span:] - mid[:-span]
        valid[:-span, column] = segment[span:] == segment[:-span]
    labels[~valid] = 0
    seconds = rng.exponential(0.3, rows) * np.append(0, segment[1:] == segment[:-1])
    return SequenceData(
        features=torch.from_numpy((features * 3 + 1).astype(np.float32)),
        seconds_since_previous=torch.from_numpy(seconds.astype(np.float32)),
        labels=torch.from_numpy(labels),
        valid=torch.from_numpy(valid),
        segment=torch.from_numpy(segment),
        feature_names=NAMES,
    )


@pytest.fixture(scope="session")
def make_market() -> Callable[..., SequenceData]:
    return market


@pytest.fixture(scope="session")
def planted() -> SequenceData:
    return market(16_000, seed=0, strength=1.0)


@pytest.fixture(scope="session")
def small() -> SequenceData:
    return market(1200, seed=1, strength=1.0)


@pytest.fixture(scope="session")
def tiny_config() -> PerceptionConfig:
    return PerceptionConfig(
        hidden=8,
        state=4,
        heads=2,
        chunk=8,
        length=16,
        streams=8,
        epochs=2,
        learning_rate=5e-3,
        weight_decay=0.1,
        patience=2,
        mirror=False,
    )
