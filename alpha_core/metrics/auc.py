"""Area under the ROC curve with ties counted as half, and the weighted form that a bootstrap needs."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alpha_core.errors import DataError

LEAKAGE_AUC = 0.85
"""An AUC above it on order-book data is a leak until proven otherwise."""

LEAKAGE_ACCURACY = 0.75
"""The same for the share of right directions."""


def auc(labels: ArrayLike, scores: ArrayLike) -> float | None:
    """P(score of a positive > score of a negative) + P(equal) / 2, the Mann-Whitney form of the ROC area.

    Args:
        labels: [n] bool or 0/1.
        scores: [n] float, higher means more positive.

    Returns:
        The area, or None when only one class is present.

    Raises:
        DataError: a score is NaN.
    """
    ranked = RankedScores(labels, scores)
    return ranked.area(np.ones(ranked.size, dtype=np.int64))


class RankedScores:
    """Labels and scores sorted once, for the areas of many reweightings of the same rows.

    Args:
        labels: [n] bool or 0/1.
        scores: [n] float without NaN.
    """

    def __init__(self, labels: ArrayLike, scores: ArrayLike) -> None:
        values, up = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
        if np.isnan(values).any():
            row = int(np.isnan(values).argmax())
            raise DataError(
                f"score of row {row} was NaN, must be a number: look for NaN in the model's output"
            )
        order = np.argsort(values, kind="stable")
        self.size = len(order)
        self.positives: NDArray[np.int64] = order[up[order]]
        self.negatives: NDArray[np.int64] = order[~up[order]]
        # How many negatives lie strictly below each positive, and how many up to and including its value.
        high, low = values[self.positives], values[self.negatives]
        self.below: NDArray[np.int64] = np.searchsorted(low, high, side="left")
        self.up_to: NDArray[np.int64] = np.searchsorted(low, high, side="right")
        self.tied = bool((self.below != self.up_to).any())

    def area(self, counts: NDArray[np.int64]) -> float | None:
        """AUC when row i (in the caller's order) counts `counts[i]` times; None without both classes."""
        positive = counts[self.positives]
        negative = np.concatenate(([0], np.cumsum(counts[self.negatives])))
        pairs = int(positive.sum()) * int(negative[-1])
        if pairs == 0:
            return None
        won = int(positive @ negative[self.below])
        twice = won + int(positive @ negative[self.up_to]) if self.tied else 2 * won
        return twice / (2 * pairs)


def leakage_alarm(area: float | None, accuracy: float | None, commoner: float = 0.5) -> bool:
    """Whether a result is too good to be honest on real order-book data.

    Args:
        area: AUC, None when undefined.
        accuracy: share of right directions.
        commoner: share of the commoner direction: who always says that one is as right without knowing anything.
    """
    return (area is not None and area > LEAKAGE_AUC) or (
        accuracy is not None and accuracy > max(LEAKAGE_ACCURACY, commoner)
    )
