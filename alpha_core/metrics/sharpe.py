"""Sharpe ratio primitives in float64 numpy. What is undefined is None with a reason, never inf or 1e15."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONSTANT_TOLERANCE = 1e-9
"""Spread over the largest magnitude below which a series counts as constant: rounding, not risk."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SharpeEstimate:
    """A Sharpe ratio per observation (per session, per block, per episode: say which where it is shown).

    Attributes:
        value: mean over standard deviation (n - 1), None when undefined.
        standard_error: Lo (2002) autocorrelation-adjusted, None when undefined.
        n: number of observations.
        reason: why it is undefined, empty when it is defined.
    """

    value: float | None
    standard_error: float | None
    n: int
    reason: str = ""

    def annualised(self, periods_per_year: float) -> "SharpeEstimate":
        """The same ratio per year: times sqrt(periods_per_year), which assumes no autocorrelation."""
        factor = math.sqrt(periods_per_year)
        if self.value is None or self.standard_error is None:
            return self
        return replace(self, value=self.value * factor, standard_error=self.standard_error * factor)


def degenerate_reason(pnl: ArrayLike) -> str:
    """Why no ratio can be formed from this series, or the empty string. Input [n], any unit."""
    x = np.asarray(pnl, dtype=np.float64)
    if not np.isfinite(x).all():
        return f"PnL is not finite in {int((~np.isfinite(x)).sum())} of {x.size} observations"
    if x.size < 2:
        return f"PnL has {x.size} observations, at least 2 are needed"
    largest = float(np.abs(x).max())
    if largest == 0.0:
        return "PnL is zero throughout"
    if float(np.ptp(x)) <= CONSTANT_TOLERANCE * largest:
        return "PnL is constant"
    return ""


def newey_west_lags(n: int) -> int:
    """Default lag count floor(4 (n / 100)^(2/9)) (Newey & West 1994, Bartlett kernel), at most n - 1."""
    return max(0, min(math.floor(4.0 * (n / 100.0) ** (2.0 / 9.0)), n - 1))


def long_run_variance(series: ArrayLike, lags: int) -> float:
    """Bartlett-kernel long-run variance, gamma_0 + 2 sum_k (1 - k/(lags+1)) gamma_k (Newey & West 1987).

    Args:
        series: [n], any unit u.
        lags: number of autocovariances, 0 gives the plain population variance.

    Returns:
        The variance of sqrt(n) times the mean, unit u^2, never negative.
    """
    x = np.asarray(series, dtype=np.float64)
    centred = x - x.mean()
    total = float(centred @ centred)
    for k in range(1, min(lags, x.size - 1) + 1):
        total += 2.0 * (1.0 - k / (lags + 1.0)) * float(centred[k:] @ centred[:-k])
    return max(total / x.size, 0.0)


def sharpe(pnl: ArrayLike, *, lags: int | None = None) -> SharpeEstimate:
    """Sharpe ratio per observation with Lo's (2002) generalised-method-of-moments standard error.

    The ratio s = mean / sd has the influence function psi_t = (x_t - m)/sd - s/2 (((x_t - m)/sd)^2 - 1); its
    long-run variance over n is the squared error. For independent normal PnL this is (1 + s^2/2) / n.

    Args:
        pnl: [n] PnL per observation, any unit.
        lags: Newey-West lags, None for `newey_west_lags(n)`.

    Returns:
        The estimate; undefined (None, with the reason) for constant, zero, too short or non-finite PnL.
    """
    x = np.asarray(pnl, dtype=np.float64)
    reason = degenerate_reason(x)
    if reason:
        return SharpeEstimate(value=None, standard_error=None, n=x.size, reason=reason)
    scaled = (x - x.mean()) / x.std(ddof=1)
    ratio = float(x.mean() / x.std(ddof=1))
    influence = scaled - 0.5 * ratio * (scaled**2 - 1.0)
    variance = long_run_variance(influence, newey_west_lags(x.size) if lags is None else lags)
    return SharpeEstimate(value=ratio, standard_error=math.sqrt(variance / x.size), n=x.size)


def aggregation_factor(autocorrelations: ArrayLike, periods: int) -> float:
    """Factor from one period to q periods, q / sqrt(q + 2 sum_{k<q} (q - k) rho_k) (Lo 2002, eq. 20).

    Args:
        autocorrelations: [m] rho_1..rho_m, later ones are taken as zero.
        periods: q, number of periods to aggregate.

    Returns:
        The factor; sqrt(q) for uncorrelated PnL.

    Raises:
        ValueError: the autocorrelations imply a variance that is not positive.
    """
    rho = np.asarray(autocorrelations, dtype=np.float64)[: periods - 1]
    weights = periods - np.arange(1, rho.size + 1)
    variance = periods + 2.0 * float(weights @ rho)
    if variance <= 0.0:
        raise ValueError(
            f"autocorrelations imply the variance {variance:.3g} over {periods} periods, must be > 0"
        )
    return periods / math.sqrt(variance)


def max_drawdown(pnl: ArrayLike) -> float:
    """Largest fall of the cumulated PnL from its running peak, which starts at 0; >= 0, unit of the PnL."""
    equity = np.concatenate([[0.0], np.cumsum(np.asarray(pnl, dtype=np.float64))])
    return float((np.maximum.accumulate(equity) - equity).max())


def drawdown(equity: ArrayLike) -> Floats:
    """Fall of an equity curve [n] from its running peak, [n], >= 0; the peak starts at 0."""
    curve = np.asarray(equity, dtype=np.float64)
    return np.maximum(np.maximum.accumulate(curve), 0.0) - curve
