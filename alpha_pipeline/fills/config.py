"""Settings of the fill model."""

from dataclasses import dataclass
from typing import ClassVar

from alpha_core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class FillConfig:
    """How the fill model is fitted and judged.

    Attributes:
        max_exposures: exposures drawn for the fit and the validation together.
        rows_per_order: rows that a hypothetical order is followed, one exposure a row.
        validation_share: last share of the rows, kept for calibration and never fitted on.
        cancel_ahead_share: share of the size cancelled at the touch that is taken to be ahead; as in the
            market.
        min_fills: fewer fills in the fitted part leave the model unfitted.
        ridge: penalty on standardised coefficients; enough to settle what the window cannot show.
        max_dispersion: variance over mean of fills per block above which the counts are called
            over-dispersed.
        calibration_error: largest |observed/expected − 1| of a decile with enough fills.
        agreement_error: largest |fills of the poisson mode / fills of the queue replay − 1| of the same
            orders.
        enough_fills: expected fills from which a decile's ratio is held to account.
        referee_orders: orders that the agreement with the queue replay is measured on.
        adverse_rows: rows ahead at which mid moves after fills are compared.
        seed: of the sampling.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    max_exposures: int = 500_000
    rows_per_order: int = 30
    validation_share: float = 0.3
    cancel_ahead_share: float = 0.5
    min_fills: int = 100
    ridge: float = 1e-6
    max_dispersion: float = 2.0
    calibration_error: float = 0.10
    agreement_error: float = 0.25
    enough_fills: int = 400
    referee_orders: int = 20_000
    adverse_rows: tuple[int, ...] = (1, 10, 100)
    seed: int = 0

    def __post_init__(self) -> None:
        bounds = {
            "max_exposures": (1_000, 50_000_000),
            "rows_per_order": (1, 10_000),
            "validation_share": (0.05, 0.9),
            "cancel_ahead_share": (0.0, 1.0),
            "min_fills": (1, 1_000_000),
            "ridge": (1e-12, 1.0),
            "max_dispersion": (1.0, 1e6),
            "calibration_error": (0.0, 10.0),
            "agreement_error": (0.0, 10.0),
            "enough_fills": (1, 1_000_000_000),
            "referee_orders": (100, 1_000_000),
        }
        values = {name: getattr(self, name) for name in bounds}
        bad = [
            f"{name} was {values[name]}, must be in [{low}, {high}]"
            for name, (low, high) in bounds.items()
            if not low <= values[name] <= high
        ]
        if not self.adverse_rows or min(self.adverse_rows) < 1:
            bad.append(f"adverse_rows was {self.adverse_rows}, must be row counts of at least 1")
        if bad:
            raise ConfigError("fills: " + "; ".join(bad))
