"""The backtest grid: all costs x thresholds over the same episodes, in one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alpha_core.errors import DataError
from alpha_core.metrics.sharpe import max_drawdown, sharpe
from alpha_pipeline.evaluation.baseline import BaselineStats
from alpha_pipeline.evaluation.config import MIN_SESSIONS, GridConfig
from alpha_pipeline.evaluation.episodes import EpisodePlan
from alpha_pipeline.evaluation.lockstep import Backtest, cost_in_ticks
from alpha_pipeline.evaluation.series import PnlSeries, series_of
from alpha_pipeline.evaluation.statistics import (
    annual_sharpe,
    block_length,
    bootstrap_indices,
    bootstrap_interval,
    clustered_mean,
    low_activity,
)

if TYPE_CHECKING:
    import polars as pl

    from alpha_core.rl.policies import Policy


@dataclass(frozen=True, kw_only=True)
class GridResult:
    """A finished grid.

    Attributes:
        cells: one row per cell, in the order of costs and then thresholds; columns in `COLUMNS`.
        episodes: one row per cell and episode, see `Backtest.run`.
    """

    cells: "pl.DataFrame"
    episodes: "pl.DataFrame"

    @property
    def sessions(self) -> "pl.DataFrame":
        """PnL per cell and day: cost, threshold, day, pnl_ticks, episodes, trades."""
        import polars as pl

        return self.episodes.group_by("cost", "threshold", "day", maintain_order=True).agg(
            pl.col("pnl_ticks").sum(), pl.len().alias("episodes"), pl.col("trades").sum()
        )

    def series(self, cost: float, threshold: float) -> PnlSeries:
        """Blocks of one cell in time order.

        Raises:
            DataError: the grid has no such cell.
        """
        import polars as pl

        rows = self.episodes.filter((pl.col("cost") == cost) & (pl.col("threshold") == threshold))
        if rows.is_empty():
            raise DataError(
                f"the grid has no cell of cost {cost} and threshold {threshold}: run it with both"
            )
        return series_of(rows)


COLUMNS: Mapping[str, str] = {
    "cost": "price points per contract and side",
    "cost_ticks": "ticks per contract and side",
    "threshold": "|P(up) - 0.5| needed to enter",
    "sample": "what the episodes are to the policy: in-sample, fold test, out-of-sample",
    "episodes": "episodes",
    "episodes_overlap": "whether episodes share decisions, so that their number overstates the evidence",
    "sessions": "independent trading days",
    "mean_pnl_ticks": "mean PnL per episode, ticks x lots",
    "sd_pnl_ticks": "standard deviation between episodes",
    "se_pnl_ticks": "standard error of the mean, clustered by day; empty with one day",
    "ci_low_ticks": "lower bound of the mean, stationary block bootstrap",
    "ci_high_ticks": "upper bound of the mean, stationary block bootstrap",
    "ci_unit": "what the bootstrap resamples: session or intraday block",
    "mean_pnl_currency": "mean PnL per episode in account currency",
    "win_rate": "share of episodes with PnL > 0",
    "trades_per_episode": "executions per episode",
    "turnover_per_episode": "lots bought and sold per episode",
    "passive_fill_share": "share of executions that were passive fills; empty without trades",
    "max_drawdown_ticks": "largest fall of the PnL cumulated over all episodes in time order",
    "max_drawdown_episode_ticks": "largest fall inside one episode",
    "sharpe_episode": "mean over standard deviation of the PnL per episode",
    "sharpe_session": "mean over standard deviation of the PnL per session",
    "sharpe_session_se": "its standard error, Lo (2002) with autocorrelation",
    "sharpe_annual": "session Sharpe times annual_factor",
    "sharpe_annual_se": "its standard error",
    "annual_factor": "square root of the sessions in a year",
    "return_vs_random": "(mean - random mean) / random standard deviation, per episode",
    "low_activity": "whether fewer than a tenth of the blocks have any PnL",
    "undefined": "why Sharpe per session is undefined, empty when it is defined",
}
"""Columns of the cell table and what they mean."""


_NULLABLE = (
    "sd_pnl_ticks",
    "se_pnl_ticks",
    "ci_low_ticks",
    "ci_high_ticks",
    "passive_fill_share",
    "sharpe_episode",
    "sharpe_session",
    "sharpe_session_se",
    "sharpe_annual",
    "sharpe_annual_se",
    "return_vs_random",
)


def run_grid(
    backtest: Backtest,
    policy: "Policy",
    plan: EpisodePlan,
    config: GridConfig,
    *,
    sample: str,
    baseline: BaselineStats | None,
    fill_mode: int,
) -> GridResult:
    """Run costs x thresholds over the plan's episodes and summarise each cell.

    Args:
        backtest: where they are run.
        policy: who acts.
        plan: the episodes.
        config: the grid.
        sample: what the episodes are to the policy, shown beside every figure.
        baseline: random episodes of the same length, None leaves `return_vs_random` empty.
        fill_mode: an alpha_core.market.config.FillMode.

    Raises:
        DataError: the baseline's episodes are of another length.
    """
    if baseline is not None and baseline.decisions != plan.decisions:
        raise DataError(
            f"the random baseline has {baseline.decisions} decisions per episode and the grid "
            f"{plan.decisions}: rebuild the baseline"
        )
    keys = [(cost, threshold) for cost in config.costs for threshold in config.thresholds]
    episodes = backtest.run(policy, plan, keys, fill_mode=fill_mode)
    cells = summarise(
        episodes, config, backtest, sample=sample, overlapping=plan.overlapping, baseline=baseline
    )
    return GridResult(cells=cells, episodes=episodes)


def summarise(
    episodes: "pl.DataFrame",
    config: GridConfig,
    backtest: Backtest,
    *,
    sample: str,
    overlapping: bool,
    baseline: BaselineStats | None,
) -> "pl.DataFrame":
    """One row per cell of an episode table; see `COLUMNS` and, for the arguments, `run_grid`."""
    import polars as pl

    tables = episodes.partition_by("cell", maintain_order=True)
    n = _resampled(series_of(tables[0]))[0].size
    # One set of resamples serves all cells: they share their blocks, and so their intervals compare.
    resamples = bootstrap_indices(n, block=block_length(n), resamples=config.resamples, seed=backtest.seed)
    rows = []
    for table in tables:
        series = series_of(table)
        row = {
            "cost": table["cost"][0],
            "cost_ticks": cost_in_ticks(table["cost"][0], backtest.tick_size),
            "threshold": table["threshold"][0],
            "sample": sample,
            "episodes_overlap": overlapping,
            **_per_episode(table, float(backtest.tick_size) * backtest.multiplier, baseline),
            **_interval(series, resamples, config.confidence),
            **_sharpes(series, backtest.sessions_a_year),
        }
        rows.append({name: row[name] for name in COLUMNS})
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(_NULLABLE, pl.Float64))


def _per_episode(
    table: "pl.DataFrame", currency_per_tick: float, baseline: BaselineStats | None
) -> dict[str, Any]:
    pnl = table["pnl_ticks"].to_numpy()
    summary = clustered_mean(pnl, table["day"].to_numpy())
    mean, trades = float(pnl.mean()), int(table["trades"].sum())
    against = None if baseline is None else (mean - baseline.mean) / baseline.standard_deviation
    return {
        "episodes": pnl.size,
        "mean_pnl_ticks": mean,
        "sd_pnl_ticks": summary.standard_deviation,
        "se_pnl_ticks": summary.standard_error,
        "mean_pnl_currency": mean * currency_per_tick,
        "win_rate": float((pnl > 0.0).mean()),
        "trades_per_episode": trades / pnl.size,
        "turnover_per_episode": int(table["turnover"].sum()) / pnl.size,
        "passive_fill_share": int(table["fills"].sum()) / trades if trades else None,
        "max_drawdown_ticks": max_drawdown(pnl),
        "max_drawdown_episode_ticks": float(table["max_drawdown_ticks"].to_numpy().max()),
        "sharpe_episode": sharpe(pnl).value,
        "return_vs_random": against,
    }


def _resampled(series: PnlSeries) -> tuple[np.ndarray, np.ndarray, str]:
    """PnL and episode count of what the bootstrap resamples, and its name."""
    counts = series.episodes.astype(np.float64)
    if len(series.days) < MIN_SESSIONS:
        return series.pnl_ticks, counts, "intraday block"
    day = np.asarray(series.day)
    return series.by_day(), np.array([counts[day == d].sum() for d in series.days]), "session"


def _interval(series: PnlSeries, rows: np.ndarray, confidence: float) -> dict[str, Any]:
    sums, counts, unit = _resampled(series)
    low, high = (
        bootstrap_interval(sums, counts, rows, confidence=confidence) if sums.size > 1 else (None, None)
    )
    return {"ci_low_ticks": low, "ci_high_ticks": high, "ci_unit": unit}


def _sharpes(series: PnlSeries, sessions_a_year: float) -> dict[str, Any]:
    daily = series.by_day()
    session = sharpe(daily)
    annual, factor = annual_sharpe(daily, np.arange(daily.size), sessions_a_year)
    return {
        "sessions": daily.size,
        "sharpe_session": session.value,
        "sharpe_session_se": session.standard_error,
        "sharpe_annual": annual.value,
        "sharpe_annual_se": annual.standard_error,
        "annual_factor": factor,
        "low_activity": low_activity(series.pnl_ticks),
        "undefined": session.reason,
    }
