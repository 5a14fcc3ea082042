"""Poisson regression of fills on what the book showed: λ(fills/s) = exp(β0[level, side] + β · z).

Fitted with `glum` by penalised maximum likelihood, counts 0 or 1, offset log(seconds); intervals without
fills stay in the likelihood as they are. Covariates are clipped to the range that the window shows, in the
fit as in its use, standardised, and reported in their own units. A covariate that the window hardly moves
(a spread of always one tick) is held at 0, since such a window says nothing of its effect elsewhere; so is
the time of day until several days have shown the same hours, since one day cannot tell the hour from the
drift.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from alpha_core.market.fills import FILL_COVARIATES, FILL_LEVELS, FillModel
from alpha_pipeline.fills.exposure import Exposures

CELLS = 2 * FILL_LEVELS
CLIPPED_SHARE = 0.001
"""Share of the exposures beyond each end of a covariate's range."""

MIN_SPREAD = 1e-3
MIN_DAYS_FOR_HOURS = 3
_CHUNK = 8192


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Maximum likelihood and its uncertainty.

    Attributes:
        model: the coefficients.
        intercept_errors: [5, 2] float64 standard errors.
        slope_errors: [7] float64 standard errors; 0 for covariates held at 0.
    """

    model: FillModel
    intercept_errors: NDArray[np.float64]
    slope_errors: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Scaling:
    """How covariates enter the fit: clipped to [low, high], less center, over scale; infinite scale means
    0."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, z: NDArray[np.float64], days: int) -> "_Scaling":
        low, high = np.quantile(z, [CLIPPED_SHARE, 1.0 - CLIPPED_SHARE], axis=0)
        clipped = np.clip(z, low, high)
        spread = clipped.std(axis=0)
        hours = np.array(["hours" in name for name in FILL_COVARIATES])
        shown = (spread > MIN_SPREAD) & (~hours | (days >= MIN_DAYS_FOR_HOURS))
        return cls(low=low, high=high, center=clipped.mean(axis=0), scale=np.where(shown, spread, np.inf))

    def apply(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.clip(z, self.low, self.high) - self.center) / self.scale


def estimate(exposures: Exposures, ridge: float, *, days: int) -> Estimate:
    """Fit the intensity.

    Args:
        exposures: at least one of them filled.
        ridge: penalty on squared standardised coefficients, per exposure.
        days: trading days that the exposures cover.
    """
    from glum import GeneralizedLinearRegressor
    from threadpoolctl import threadpool_limits

    scaling = _Scaling.of(exposures.z, days)
    design = np.asfortranarray(np.concatenate([_cells(exposures), scaling.apply(exposures.z)], axis=1))
    regressor = GeneralizedLinearRegressor(
        family="poisson", link="log", alpha=ridge, l1_ratio=0, fit_intercept=True, gradient_tol=1e-7
    )
    with threadpool_limits(1):  # sums split over threads differ in their last bits from fit to fit
        regressor.fit(design, exposures.filled.astype(np.float64), offset=np.log(exposures.seconds))
        fitted = np.append(np.float64(regressor.intercept_), regressor.coef_)
        covariance = _covariance(design, fitted, exposures.seconds, ridge)
    return _in_own_units(fitted, covariance, scaling)


def fill_rates(model: FillModel, exposures: Exposures) -> NDArray[np.float64]:
    """λ of each exposure in fills per second, [N] float64."""
    return model.intensity(
        torch.from_numpy(exposures.z), torch.from_numpy(exposures.level), torch.from_numpy(exposures.side)
    ).numpy()


def _cells(exposures: Exposures) -> NDArray[np.float64]:
    cells = np.zeros((len(exposures), CELLS))
    cells[np.arange(len(exposures)), 2 * (exposures.level - 1) + exposures.side] = 1.0
    return cells


def _covariance(
    design: NDArray[np.float64], fitted: NDArray[np.float64], seconds: NDArray[np.float64], ridge: float
) -> NDArray[np.float64]:
    """Inverse of the penalised information; the first coefficient is the unpenalised intercept."""
    information = np.diag(np.append(0.0, np.full(design.shape[1], ridge * len(design))))
    for start in range(0, len(design), _CHUNK):
        part = design[start : start + _CHUNK]
        full = np.concatenate([np.ones((len(part), 1)), part], axis=1)
        mean = np.exp(full @ fitted) * seconds[start : start + _CHUNK]
        information += (full * mean[:, None]).T @ full
    return np.linalg.pinv(information)


def _in_own_units(
    fitted: NDArray[np.float64], covariance: NDArray[np.float64], scaling: _Scaling
) -> Estimate:
    """Undo the standardisation: slopes by the scale, cell intercepts by what the centring took out."""
    count = len(scaling.center)
    change = np.zeros((CELLS + count, 1 + CELLS + count))
    change[:CELLS, 0] = 1.0
    change[:CELLS, 1 : 1 + CELLS] = np.eye(CELLS)
    change[:CELLS, 1 + CELLS :] = -scaling.center / scaling.scale
    change[CELLS:, 1 + CELLS :] = np.diag(1.0 / scaling.scale)
    values = change @ fitted
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", change, covariance, change), 0.0))
    model = FillModel(
        intercept=torch.from_numpy(values[:CELLS].reshape(FILL_LEVELS, 2)),
        slope=torch.from_numpy(values[CELLS:]),
        low=torch.from_numpy(scaling.low),
        high=torch.from_numpy(scaling.high),
    )
    return Estimate(
        model=model,
        intercept_errors=errors[:CELLS].reshape(FILL_LEVELS, 2),
        slope_errors=errors[CELLS:],
    )
