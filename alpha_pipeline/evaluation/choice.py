"""The one cell that goes to the gate, chosen in sample: chosen out of sample, 10-18 % of nulls would pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alpha_core.errors import ConfigError
from alpha_core.metrics.sharpe import sharpe
from alpha_pipeline.evaluation.config import GateConfig, GridConfig
from alpha_pipeline.evaluation.grid import GridResult
from alpha_pipeline.evaluation.lockstep import cost_in_ticks
from alpha_pipeline.evaluation.series import PnlSeries, joined

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class ChosenCell:
    """The cell with the best in-sample Sharpe at the chosen cost.

    Attributes:
        cost: price points per contract and side.
        cost_ticks: the same in ticks.
        next_cost: the grid's next higher cost in price points, None when there is none.
        threshold: |P(up) - 0.5| needed to enter, None when no cell has a defined Sharpe.
        sharpe: per observation over all folds' test parts, None when undefined.
        unit: what an observation is.
        observations: number of observations.
        sessions: independent trading days.
        tried: cells that were compared.
        reason: why no cell could be chosen, empty when one was.
    """

    cost: float
    cost_ticks: float
    next_cost: float | None
    threshold: float | None
    sharpe: float | None
    unit: str
    observations: int
    sessions: int
    tried: int
    reason: str = ""


def chosen_cost(grid: GridConfig, gate: GateConfig, tick_size: str) -> tuple[float, float | None]:
    """The grid's cost of `gate.chosen_cost_ticks` ticks and the next higher one, in price points.

    Raises:
        ConfigError: the grid has no such cost.
    """
    ticks = [cost_in_ticks(cost, tick_size) for cost in grid.costs]
    found = [i for i, value in enumerate(ticks) if abs(value - gate.chosen_cost_ticks) < 1e-9]
    if not found:
        raise ConfigError(
            f"grid.costs {grid.costs} are {[round(t, 6) for t in ticks]} ticks of {tick_size}, must contain "
            f"gate.chosen_cost_ticks = {gate.chosen_cost_ticks}: add that cost in price points"
        )
    above = found[0] + 1
    return grid.costs[found[0]], grid.costs[above] if above < len(grid.costs) else None


def choose_cell(
    folds: Sequence[GridResult], grid: GridConfig, gate: GateConfig, *, tick_size: str
) -> tuple[ChosenCell, "pl.DataFrame"]:
    """Choose the threshold with the best Sharpe over the folds' test parts at the chosen cost.

    Sharpe is per session, or per intraday block when the folds hold fewer than `gate.min_sessions` sessions,
    which is the rule of the gate's own test. The lower threshold wins a tie.

    Args:
        folds: grids of the walk-forward test parts in time order.
        grid: their configuration.
        gate: chosen cost and the least number of sessions.
        tick_size: price increment in price points, exact decimal.

    Returns:
        The choice, and a table of everything it was chosen from: threshold, sharpe, standard_error,
        observations, unit, pnl_ticks, undefined.

    Raises:
        ConfigError: no folds, or the grid lacks the chosen cost.
    """
    import polars as pl

    if not folds:
        raise ConfigError("walk_forward.folds gave no grid to choose from, must be at least one")
    cost, next_cost = chosen_cost(grid, gate, tick_size)
    rows, best, best_series = [], None, None
    for threshold in grid.thresholds:
        series = joined([fold.series(cost, threshold) for fold in folds])
        row = _candidate(series, threshold, gate)
        rows.append(row)
        best_series = series if best_series is None else best_series
        if row["sharpe"] is not None and (best is None or row["sharpe"] > best["sharpe"]):
            best, best_series = row, series
    assert best_series is not None, "a grid has at least one threshold"
    seen = best_series.observations(gate.min_sessions)
    reason = "" if best else f"no threshold has a defined in-sample Sharpe: {rows[0]['undefined']}"
    choice = ChosenCell(
        cost=cost,
        cost_ticks=cost_in_ticks(cost, tick_size),
        next_cost=next_cost,
        threshold=best["threshold"] if best else None,
        sharpe=best["sharpe"] if best else None,
        unit=seen.unit,
        observations=seen.pnl.size,
        sessions=seen.sessions,
        tried=len(rows),
        reason=reason,
    )
    nullable = {"sharpe": pl.Float64, "standard_error": pl.Float64}
    return choice, pl.DataFrame(rows, schema_overrides=nullable)


def _candidate(series: PnlSeries, threshold: float, gate: GateConfig) -> dict:
    seen = series.observations(gate.min_sessions)
    estimate = sharpe(seen.pnl)
    return {
        "threshold": threshold,
        "sharpe": estimate.value,
        "standard_error": estimate.standard_error,
        "observations": seen.pnl.size,
        "unit": seen.unit,
        "pnl_ticks": float(seen.pnl.sum()),
        "undefined": estimate.reason,
    }
