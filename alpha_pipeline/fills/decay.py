"""The classical intensity in the distance from the mid, λ(δ) = A exp(−k δ), as a yardstick.

Avellaneda & Stoikov, High-frequency trading in a limit order book, Quantitative Finance 8 (2008) 217.
Fitted by Poisson likelihood with empty bins kept as the zeros they are. It overrates fills near the mid and
ignores the queue, so it is reported beside the regression and not used.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alpha_core.errors import DataError
from alpha_core.market.data import MarketData
from alpha_pipeline.fills.exposure import Exposures

_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class DistanceDecay:
    """The two coefficients.

    Attributes:
        rate: A, fills per second at the mid.
        decay: k, per tick.
    """

    rate: float
    decay: float

    def intensity(self, ticks: NDArray[np.float64]) -> NDArray[np.float64]:
        """λ in fills per second at distances in ticks."""
        return self.rate * np.exp(-self.decay * ticks)


def fit_distance_decay(
    ticks: NDArray[np.float64], fills: NDArray[np.float64], seconds: NDArray[np.float64]
) -> DistanceDecay:
    """Maximum likelihood by Newton's method with step halving.

    Args:
        ticks: [n] distances from the mid.
        fills: [n] counts, zeros included.
        seconds: [n] exposure, positive.

    Raises:
        DataError: no fills, or all of them at one distance, for which no decay exists.
    """
    if np.count_nonzero(fills) < 2:
        raise DataError(
            f"distance decay: fills were at {np.count_nonzero(fills)} distances, must be at two or more; "
            "add days with trades"
        )
    design = np.stack([np.ones_like(ticks), -ticks], axis=1)
    beta = np.array([np.log(fills.sum() / seconds.sum()), 0.0])
    for _ in range(_STEPS):
        mean = np.exp(design @ beta) * seconds
        step = np.linalg.solve((design * mean[:, None]).T @ design, design.T @ (fills - mean))
        step /= max(1.0, float(np.abs(step).max()))
        beta = beta + step
        if np.abs(step).max() < 1e-12:
            break
    return DistanceDecay(rate=float(np.exp(beta[0])), decay=float(beta[1]))


def distance_table(data: MarketData, exposures: Exposures) -> pl.DataFrame:
    """Fills by distance from the mid, in exact half ticks: an odd spread has its own bins.

    Returns:
        distance_half_ticks (int), distance_ticks, exposures, seconds, fills, rate and rate_exponential (per
        second; the latter null when fills lie at fewer than two distances); ascending.
    """
    mid2 = data.mid2.numpy()[exposures.row].astype(np.int64)
    away = np.where(exposures.side == 0, 1, -1) * (mid2 - 2 * exposures.price)
    frame = pl.DataFrame(
        {"distance_half_ticks": away, "seconds": exposures.seconds, "filled": exposures.filled}
    )
    table = (
        frame.group_by("distance_half_ticks")
        .agg(
            (pl.col("distance_half_ticks").first() / 2).alias("distance_ticks"),
            pl.len().alias("exposures"),
            pl.col("seconds").sum(),
            pl.col("filled").sum().cast(pl.Int64).alias("fills"),
        )
        .with_columns((pl.col("fills") / pl.col("seconds")).alias("rate"))
        .sort("distance_half_ticks")
    )
    ticks, fills, seconds = (table[name].to_numpy() for name in ("distance_ticks", "fills", "seconds"))
    if np.count_nonzero(fills) < 2:
        return table.with_columns(pl.lit(None, pl.Float64).alias("rate_exponential"))
    decay = fit_distance_decay(ticks, fills, seconds)
    return table.with_columns(pl.Series("rate_exponential", decay.intensity(ticks)))
