"""The fill model of a window: exposures, fit, and validation on the part that comes after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from alpha_core.market.data import MarketData
from alpha_core.market.fills import FILL_COVARIATES, FILL_LEVELS, FillModel
from alpha_core.market.tables import build_tables
from alpha_pipeline.fills.adverse import adverse_selection
from alpha_pipeline.fills.calibration import deciles, deviance_explained, dispersion
from alpha_pipeline.fills.coefficients import FillCoefficients
from alpha_pipeline.fills.config import FillConfig
from alpha_pipeline.fills.decay import distance_table
from alpha_pipeline.fills.exposure import Exposures, expose, sample_orders
from alpha_pipeline.fills.poisson import Estimate, estimate, fill_rates
from alpha_pipeline.fills.referee import agreement
from alpha_pipeline.results import Check


@dataclass(frozen=True, kw_only=True)
class FillFit:
    """A fitted fill model, or the reason why there is none.

    Attributes:
        coefficients: content of `fill_coeffs.json`.
        tables: coefficients, calibration, referee, adverse_selection, distance; those that the data allow.
        checks: fitted (blocking), calibration, dispersion, agreement with the referee.
    """

    coefficients: FillCoefficients
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()

    @property
    def fitted(self) -> bool:
        return self.coefficients.fitted

    @property
    def model(self) -> FillModel:
        """The intensity. Raises DataError when nothing could be fitted."""
        return self.coefficients.model()

    @property
    def metrics(self) -> dict[str, float]:
        """Figures to compare between runs."""
        known = self.coefficients
        figures = {
            "exposures": known.exposures,
            "fills": known.fills,
            "exposure_seconds": known.seconds,
            "dispersion": known.dispersion,
            "deviance_explained": known.deviance_explained,
        }
        return {name: float(value) for name, value in figures.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Exposures of the fitted part and of the later part, which share no row."""

    fit: Exposures
    later: Exposures


def fit_fill_model(
    data: MarketData, config: FillConfig, *, digests: Mapping[str, str] | None = None
) -> FillFit:
    """Fit the intensity of passive fills and judge it on the later part of the window.

    Args:
        data: the window, on the CPU.
        config: sizes and bounds.
        digests: content digests of what the window was made from, kept in the file.

    Returns:
        The fit; not fitted when the earlier part has fewer than `min_fills` fills.
    """
    parts = _expose_parts(data, config)
    facts = _facts(data, parts.fit, config, digests or {})
    fills = int(parts.fit.filled.sum())
    if fills < config.min_fills:
        reason = f"{fills} fills in {len(parts.fit)} exposures, must be at least {config.min_fills}"
        coefficients = FillCoefficients(fitted=False, reason=reason, **facts)
        return FillFit(coefficients=coefficients, checks=(_fitted_check(coefficients, config),))
    return _judge(data, parts, estimate(parts.fit, config.ridge, days=facts["days"]), facts, config)


def _expose_parts(data: MarketData, config: FillConfig) -> _Parts:
    tables = build_tables(data, None)
    orders = max(config.max_exposures // config.rows_per_order, 1)
    boundary = round(data.rows * (1.0 - config.validation_share))
    # Orders that would live into the later part are left out, or the fit would see its rows.
    end = max(boundary - config.rows_per_order, 0)
    share = config.validation_share
    fit = sample_orders(data, 0, end, round(orders * (1 - share)), config.seed)
    later = sample_orders(data, boundary, data.rows, round(orders * share), config.seed + 1)
    return _Parts(fit=expose(data, tables, fit, config), later=expose(data, tables, later, config))


def _facts(
    data: MarketData, exposures: Exposures, config: FillConfig, digests: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "exposures": len(exposures),
        "fills": int(exposures.filled.sum()),
        "seconds": float(exposures.seconds.sum()),
        "rows": data.rows,
        "days": int(data.day[: int(exposures.row.max(initial=-1)) + 1].unique().numel()),
        "rows_per_order": config.rows_per_order,
        "cancel_ahead_share": config.cancel_ahead_share,
        "digests": dict(digests),
    }


def _judge(
    data: MarketData, parts: _Parts, found: Estimate, facts: dict[str, Any], config: FillConfig
) -> FillFit:
    rate = fill_rates(found.model, parts.later)
    constant = parts.fit.filled.sum() / parts.fit.seconds.sum() * parts.later.seconds
    fitted = fill_rates(found.model, parts.fit) * parts.fit.seconds
    spread = dispersion(fitted, parts.fit.filled, parts.fit.row)
    coefficients = _coefficients(
        found,
        facts,
        dispersion=spread,
        over_dispersed=spread is not None and spread > config.max_dispersion,
        deviance_explained=deviance_explained(rate * parts.later.seconds, parts.later.filled, constant),
    )
    tables = {
        "coefficients": _coefficient_table(coefficients),
        "calibration": deciles(rate, parts.later.filled, parts.later.seconds, config.enough_fills),
        "referee": _referee(data, found.model, config),
        "adverse_selection": adverse_selection(data, parts.fit, config.adverse_rows),
        "distance": distance_table(data, parts.fit),
    }
    checks = (
        _fitted_check(coefficients, config),
        _calibration_check(tables["calibration"], config),
        _dispersion_check(coefficients, config),
        _agreement_check(tables["referee"], config),
    )
    return FillFit(coefficients=coefficients, tables=tables, checks=checks)


def _coefficients(
    found: Estimate,
    facts: dict[str, Any],
    *,
    dispersion: float | None,
    over_dispersed: bool,
    deviance_explained: float | None,
) -> FillCoefficients:
    widen = max(dispersion or 1.0, 1.0) ** 0.5
    values = {
        "intercept": found.model.intercept.tolist(),
        "slope": found.model.slope.tolist(),
        "low": found.model.low.tolist(),
        "high": found.model.high.tolist(),
        "intercept_errors": (found.intercept_errors * widen).tolist(),
        "slope_errors": (found.slope_errors * widen).tolist(),
    }
    return FillCoefficients(
        fitted=True,
        dispersion=dispersion,
        over_dispersed=over_dispersed,
        deviance_explained=deviance_explained,
        **values,
        **facts,
    )


def _coefficient_table(known: FillCoefficients) -> pl.DataFrame:
    cells = [f"level_{level}_{side}" for level in range(1, FILL_LEVELS + 1) for side in ("bid", "ask")]
    values = [*np.ravel(known.intercept), *known.slope]
    errors = [*np.ravel(known.intercept_errors), *known.slope_errors]
    return pl.DataFrame({"name": [*cells, *FILL_COVARIATES], "coefficient": values, "standard_error": errors})


def _referee(data: MarketData, model: FillModel, config: FillConfig) -> pl.DataFrame:
    boundary = round(data.rows * (1.0 - config.validation_share))
    orders = sample_orders(data, boundary, data.rows, config.referee_orders, config.seed + 2)
    share = round(1000 * config.cancel_ahead_share)
    return agreement(
        data, model, orders, rows=config.rows_per_order, cancel_share_milli=share, seed=config.seed
    )


def _fitted_check(known: FillCoefficients, config: FillConfig) -> Check:
    return Check(
        name="fill_model_fitted",
        passed=known.fitted,
        figure=float(known.fills),
        threshold=float(config.min_fills),
        description="fills of the fitted part; fewer leave the model unfitted and stop what needs it",
        blocking=True,
    )


def _calibration_check(table: pl.DataFrame, config: FillConfig) -> Check:
    errors = table.filter("enough").select((pl.col("ratio") - 1).abs().max()).item()
    return Check(
        name="fill_calibration",
        passed=errors is not None and errors <= config.calibration_error,
        figure=errors,
        threshold=config.calibration_error,
        description=(
            f"largest |observed/expected − 1| on the later part, among the tenths of exposures where "
            f"{config.enough_fills} fills or more were expected"
        ),
    )


def _dispersion_check(known: FillCoefficients, config: FillConfig) -> Check:
    return Check(
        name="fill_dispersion",
        passed=known.dispersion is not None and not known.over_dispersed,
        figure=known.dispersion,
        threshold=config.max_dispersion,
        description="variance over mean of fills per block of rows; above it the counts are over-dispersed, "
        "standard errors are widened by its root and a negative binomial would describe them better",
    )


def _agreement_check(table: pl.DataFrame, config: FillConfig) -> Check:
    replayed = float((table["orders"] * table["queue"]).sum())
    simulated = float((table["orders"] * table["poisson"]).sum())
    ratio = simulated / replayed if replayed > 0 else None
    return Check(
        name="fill_agreement",
        passed=ratio is not None and abs(ratio - 1) <= config.agreement_error,
        figure=ratio,
        threshold=config.agreement_error,
        description="fills of the same orders in the environment's poisson mode over those of the queue "
        "replay; the bound is on its distance from 1",
    )
