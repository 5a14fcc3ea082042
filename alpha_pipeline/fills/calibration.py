"""How far a fitted intensity can be believed: calibration by decile, deviance, dispersion."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

DECILES = 10
MAX_BLOCKS = 100
FILLS_PER_BLOCK = 10


def deciles(
    rate: NDArray[np.float64], filled: NDArray[np.bool_], seconds: NDArray[np.float64], enough: int
) -> pl.DataFrame:
    """Expected against observed fills, by tenth of the exposures in the order of their rate λ.

    Not in the order of λ Δt: where rows follow events, an interval is short because something happened in
    it, so its length says something of the outcome, and even the true intensity would look wrong by that
    order.

    Args:
        rate: [N] λ, known at the start of each interval.
        filled: [N] events.
        seconds: [N] lengths Δt.
        enough: expected fills from which a ratio says something.

    Returns:
        Ten rows: decile, exposures, seconds, expected_fills, observed_fills, ratio (null when nothing is
        expected), ratio_error (Poisson standard error of the ratio), enough.
    """
    order, expected = np.argsort(rate, kind="stable"), rate * seconds
    rows = []
    for decile, part in enumerate(np.array_split(order, DECILES), start=1):
        want, got = float(expected[part].sum()), int(filled[part].sum())
        rows.append(
            {
                "decile": decile,
                "exposures": len(part),
                "seconds": float(seconds[part].sum()),
                "expected_fills": want,
                "observed_fills": got,
                "ratio": got / want if want > 0 else None,
                "ratio_error": want**-0.5 if want > 0 else None,
                "enough": want >= enough,
            }
        )
    return pl.DataFrame(rows, schema_overrides={"ratio": pl.Float64, "ratio_error": pl.Float64})


def deviance(expected: NDArray[np.float64], filled: NDArray[np.bool_]) -> float:
    """Poisson deviance 2 Σ [y log(y/μ) − (y − μ)] of counts 0 or 1 (McCullagh & Nelder 1989, 2.3)."""
    return 2.0 * float(expected.sum() - (np.log(expected[filled]) + 1.0).sum())


def deviance_explained(
    expected: NDArray[np.float64], filled: NDArray[np.bool_], constant: NDArray[np.float64]
) -> float | None:
    """1 − D(model) / D(constant rate); None without a fill, when both only say how little was expected."""
    return 1.0 - deviance(expected, filled) / deviance(constant, filled) if filled.any() else None


def dispersion(
    expected: NDArray[np.float64], filled: NDArray[np.bool_], row: NDArray[np.int64]
) -> float | None:
    """Variance over mean of fills per block of consecutive rows: Σ (O − E)² / E / (B − 1).

    1 for a Poisson process with the fitted mean. Orders that wait on the same rows fill on the same prints,
    which no coefficient explains, so real markets exceed 1 by far; standard errors are scaled by its root.
    None when the fills do not make three blocks.
    """
    blocks = min(MAX_BLOCKS, int(filled.sum()) // FILLS_PER_BLOCK)
    if blocks < 3:
        return None
    cumulated = np.cumsum(expected[np.argsort(row, kind="stable")])
    # Blocks of equal expectation, so that no block rests on a handful of fills.
    edges = np.searchsorted(cumulated, cumulated[-1] * np.arange(1, blocks) / blocks)
    observed = np.array([part.sum() for part in np.split(filled[np.argsort(row, kind="stable")], edges)])
    mean = np.diff(np.concatenate([[0.0], cumulated[edges], [cumulated[-1]]]))
    return float(((observed - mean) ** 2 / np.maximum(mean, 1e-12)).sum() / (blocks - 1))
