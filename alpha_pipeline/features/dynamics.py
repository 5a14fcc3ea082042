"""Features with memory of earlier rows of the segment: mid changes, volatility, trade intensity, duration.

EMA rule, everywhere: the first observation seeds the average, then y += alpha (x - y), one step a row, with
alpha = 1 - 2^(-1 / half-life). The first observation of a segment is its second row, since a change needs
two; on the first row the averages are 0, so the logarithms show their floors. Rows younger than
`warmup_rows` are masked from training by the reader of the cache.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.features.rows import Rows

COLUMNS = 5
LOOKBACK_ROWS = 10
MIN_SECONDS = 1e-6
"""Least mean duration of a row in the trade rate: events at one instant do not make a rate of infinity."""


def alpha_of(half_life: float) -> float:
    """Weight of a new observation such that an old one has lost half its weight after `half_life` steps."""
    return -math.expm1(-math.log(2.0) / half_life)


class DynamicsTracker:
    """Carries the averages and the last ten mids from row to row."""

    def __init__(self, config: FeatureConfig) -> None:
        self._averages = np.zeros(3, np.float64)
        self._mids = np.zeros(LOOKBACK_ROWS + 2, np.int64)
        self._rates = np.array(
            [
                alpha_of(config.volatility_half_life_rows),
                alpha_of(config.intensity_half_life_rows),
                config.volatility_floor_ticks**2,
                config.intensity_floor_per_second,
            ]
        )

    def push(
        self,
        mid2: NDArray[np.int32],
        first: NDArray[np.bool_],
        duration_ns: NDArray[np.int64],
        trades: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """The five dynamics features of the next rows.

        Args:
            mid2: [R] int32, mid in half ticks.
            first: [R] bool, whether the row opens its segment.
            duration_ns: [R] int64, time since the previous row.
            trades: [R] int64, number of trades since the previous row.

        Returns:
            [R, 5] float64 in the order of the catalogue.
        """
        out = np.empty((len(mid2), COLUMNS), np.float64)
        _advance(mid2, first, duration_ns, trades, self._rates, self._averages, self._mids, out)
        return out


def dynamics(rows: Rows) -> NDArray[np.float64]:
    """The 5 dynamics features, [R, 5], in the order of the catalogue."""
    return rows.dynamics


@njit(cache=True)
def ema_step(average: float, value: float, alpha: float, seed: bool) -> float:
    """One step of the average; `seed` marks the first observation."""
    return value if seed else average + alpha * (value - average)


@njit(cache=True)
def _advance(
    mid2: NDArray[np.int32],
    first: NDArray[np.bool_],
    duration_ns: NDArray[np.int64],
    trades: NDArray[np.int64],
    rates: NDArray[np.float64],
    averages: NDArray[np.float64],
    mids: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """mids: a ring of the last ten (at first, of the first mid), the previous mid, and the rows so far."""
    for r in range(len(mid2)):
        mid, seconds = np.int64(mid2[r]), duration_ns[r] * 1e-9
        if first[r]:
            averages[:] = 0.0
            mids[:] = mid
            mids[LOOKBACK_ROWS + 1] = 0
        age = mids[LOOKBACK_ROWS + 1]
        slot = age % LOOKBACK_ROWS
        change = 0.5 * (mid - mids[LOOKBACK_ROWS])
        out[r, 0] = change
        out[r, 1] = 0.5 * (mid - mids[slot])
        if age > 0:
            averages[0] = ema_step(averages[0], change * change, rates[0], age == 1)
            averages[1] = ema_step(averages[1], float(trades[r]), rates[1], age == 1)
            averages[2] = ema_step(averages[2], seconds, rates[1], age == 1)
        out[r, 2] = 0.5 * math.log(averages[0] + rates[2])
        out[r, 3] = math.log(averages[1] / max(averages[2], MIN_SECONDS) + rates[3])
        out[r, 4] = math.log1p(seconds)
        mids[slot] = mids[LOOKBACK_ROWS] = mid
        mids[LOOKBACK_ROWS + 1] = age + 1
