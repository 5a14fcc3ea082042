"""Whether probabilities mean what they say: Brier score, reliability bins, temperature; and MCC."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

TEMPERATURE_BOUNDS = (0.05, 20.0)
"""Search range; the likelihood of a useless score is flat towards infinity, so the top stays finite."""


def sigmoid(logits: ArrayLike) -> NDArray[np.float64]:
    """1 / (1 + exp(-x)) in double, without overflow."""
    x = np.asarray(logits, dtype=np.float64)
    return np.exp(-np.logaddexp(0.0, -x))


def brier(labels: ArrayLike, probabilities: ArrayLike) -> float | None:
    """Mean squared difference of probability and outcome (Brier 1950); None for no rows."""
    y, p = np.asarray(labels, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    return float(np.mean((p - y) ** 2)) if len(y) else None


def mcc(labels: ArrayLike, predictions: ArrayLike) -> float | None:
    """Matthews correlation of two binary series; None when either holds one value only, where it is 0 / 0."""
    y, p = np.asarray(labels, dtype=bool), np.asarray(predictions, dtype=bool)
    if len(y) == 0 or y.all() or not y.any() or p.all() or not p.any():
        return None
    return float(np.corrcoef(y, p)[0, 1])


@dataclass(frozen=True)
class CalibrationBin:
    """Rows whose probability fell into [low, high)."""

    low: float
    high: float
    count: int
    probability: float  # mean forecast
    frequency: float  # share of positives


def calibration_bins(labels: ArrayLike, probabilities: ArrayLike, *, bins: int = 10) -> list[CalibrationBin]:
    """Reliability curve over equal-width bins of [0, 1]; empty bins are left out. The last bin includes 1."""
    y, p = np.asarray(labels, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    index = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.bincount(index, minlength=bins)
    forecast, positive = (np.bincount(index, weights=v, minlength=bins) for v in (p, y))
    return [
        CalibrationBin(
            i / bins,
            (i + 1) / bins,
            int(count[i]),
            float(forecast[i] / count[i]),
            float(positive[i] / count[i]),
        )
        for i in range(bins)
        if count[i]
    ]


def log_loss(labels: ArrayLike, logits: ArrayLike) -> float | None:
    """Mean negative log-likelihood of the outcomes, nats; None for no rows."""
    y, x = np.asarray(labels, dtype=np.float64), np.asarray(logits, dtype=np.float64)
    return float(np.mean(np.logaddexp(0.0, x) - y * x)) if len(y) else None


def fit_temperature(labels: ArrayLike, logits: ArrayLike) -> float:
    """T > 0 that minimises the log loss of logits / T (Guo et al. 2017); 1 when only one class is present.

    The loss is convex in 1 / T, so bisection on its derivative over TEMPERATURE_BOUNDS finds the minimum.
    """
    y, x = np.asarray(labels, dtype=np.float64), np.asarray(logits, dtype=np.float64)
    if len(y) == 0 or y.all() or not y.any():
        return 1.0
    low, high = (1 / t for t in reversed(TEMPERATURE_BOUNDS))
    for _ in range(60):
        middle = (low * high) ** 0.5
        if np.mean((sigmoid(middle * x) - y) * x) < 0:
            low = middle
        else:
            high = middle
    return float(1 / (low * high) ** 0.5)
