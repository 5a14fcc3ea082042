"""Phase of the time since the previous row on four periods.

    sin(2 pi dt / P), cos(2 pi dt / P),  P in {60 s, 6 s, 600 ms, 60 ms}

dt is reduced modulo P in integer nanoseconds first, so that a long gap loses no precision.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_pipeline.features.rows import Rows

PERIODS_NS = (60_000_000_000, 6_000_000_000, 600_000_000, 60_000_000)
COLUMNS = 2 * len(PERIODS_NS)


def time_encoding(rows: Rows) -> NDArray[np.float64]:
    """The 8 time features, [R, 8]: sin and cos of each period, longest period first."""
    out = np.empty((rows.size, COLUMNS), np.float64)
    _encode(rows.duration_ns, np.array(PERIODS_NS, np.int64), out)
    return out


@njit(cache=True)
def _encode(duration_ns: NDArray[np.int64], periods: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    for r in range(len(duration_ns)):
        for k in range(len(periods)):
            angle = 2.0 * math.pi * ((duration_ns[r] % periods[k]) / periods[k])
            out[r, 2 * k] = math.sin(angle)
            out[r, 2 * k + 1] = math.cos(angle)
