"""Moving-block bootstrap: intervals that respect the dependence of neighbouring rows."""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from alpha_core.metrics.auc import RankedScores

MIN_BLOCKS = 5
"""Fewer blocks than this in a sample say nothing about its spread, so no interval is given."""


class Interval(NamedTuple):
    """Ends of a confidence interval; both None when it is undefined."""

    low: float | None
    high: float | None


def block_counts(rows: int, block: int, generator: Generator) -> NDArray[np.int64]:
    """How often each row appears in one moving-block resample (Kunsch 1989), [rows].

    ceil(rows / block) blocks start at uniform positions in [0, rows - block].
    """
    starts = generator.integers(0, rows - block + 1, size=-(-rows // block))
    edges = np.bincount(starts, minlength=rows + 1) - np.bincount(starts + block, minlength=rows + 1)
    return np.cumsum(edges[:rows])


def auc_interval(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    block: int,
    resamples: int,
    generator: Generator,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of the AUC under a moving-block bootstrap of the rows.

    Args:
        labels: [n] bool, in time order.
        scores: [n] float.
        block: rows per block; at least the rows that one label spans, since labels overlap that far.
        resamples: number of resamples.
        generator: source of the block positions.
        level: coverage.

    Returns:
        The interval; undefined when there are fewer than MIN_BLOCKS blocks or one class only.
    """
    ranked = RankedScores(labels, scores)
    if ranked.size < MIN_BLOCKS * block:
        return Interval(None, None)
    areas = (ranked.area(block_counts(ranked.size, block, generator)) for _ in range(resamples))
    defined = [area for area in areas if area is not None]
    if not defined:
        return Interval(None, None)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
