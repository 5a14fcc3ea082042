"""Plotly figures of the report and the web page: plain values or a table in, one figure out."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from alpha_core.metrics.sharpe import drawdown
from alpha_pipeline.report.style import BLUE, GREEN, GREY, ORANGE, RED, SKY, plain, styled

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

    from alpha_core.training.perception import HorizonMetrics
    from alpha_pipeline.evaluation.oos import OosSeries
    from alpha_pipeline.evaluation.series import PnlSeries

CHANCE = 0.5
_NANOSECONDS_SINCE_2001 = 10**18
"""Block times below this are row numbers, not moments."""


def bar_figure(table: "pl.DataFrame", title: str, unit: str) -> "go.Figure":
    """One bar per row of a table of two columns: label and height, the latter in `unit`."""
    import plotly.graph_objects as go

    label, height = table.columns
    bars = go.Bar(x=table[label].to_list(), y=table[height].to_list(), marker={"color": BLUE})
    return styled(go.Figure(bars), title, x=label, y=unit)


def auc_figure(scores: "Sequence[HorizonMetrics]") -> "go.Figure":
    """AUC per horizon with its block-bootstrap interval, and the line of chance."""
    import plotly.graph_objects as go

    known = [s for s in scores if s.auc is not None]
    names = [f"{s.horizon}" for s in known]
    values = [s.auc for s in known]
    above = [(s.auc_high if s.auc_high is not None else s.auc) - s.auc for s in known if s.auc is not None]
    below = [s.auc - (s.auc_low if s.auc_low is not None else s.auc) for s in known if s.auc is not None]
    figure = go.Figure(
        go.Scatter(
            x=names,
            y=values,
            mode="markers",
            marker={"size": 9, "color": BLUE},
            error_y={"type": "data", "array": above, "arrayminus": below, "color": BLUE},
            text=[f"{s.n} labels, {s.ties} ties" for s in known],
            name="AUC, 95 % interval",
        )
    )
    figure.add_hline(y=CHANCE, line={"color": GREY, "dash": "dash"}, annotation_text="chance")
    figure.update_xaxes(type="category")
    return styled(figure, "AUC per horizon", x="horizon, snapshots", y="AUC")


def calibration_figure(scores: "Sequence[HorizonMetrics]") -> "go.Figure":
    """Observed frequency of rises against the predicted probability, one line per horizon."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for score in scores:
        figure.add_scatter(
            x=[b.probability for b in score.bins],
            y=[b.frequency for b in score.bins],
            text=[f"{b.count} rows" for b in score.bins],
            mode="lines+markers",
            name=f"{score.horizon} snapshots",
        )
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"color": GREY, "dash": "dash"}, name="perfect")
    return styled(
        figure, "Calibration of P(up)", x="predicted probability", y="observed frequency", height=420
    )


def learning_curve_figure(history: Sequence[Mapping[str, float]]) -> "go.Figure":
    """Every metric of every step; metrics of one kind (loss, AUC, other) share a panel.

    Args:
        history: one record of numbers per epoch or log step.
    """
    from plotly.subplots import make_subplots

    names = list(dict.fromkeys(name for record in history for name in record))
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_kind(name), []).append(name)
    figure = make_subplots(rows=max(1, len(groups)), cols=1, shared_xaxes=True, vertical_spacing=0.08)
    for row, (kind, members) in enumerate(groups.items(), start=1):
        for name in members:
            steps = [i for i, record in enumerate(history) if name in record]
            figure.add_scatter(
                x=steps,
                y=[history[i][name] for i in steps],
                mode="lines+markers",
                name=plain(name),
                row=row,
                col=1,
            )
        figure.update_yaxes(title_text=kind, row=row, col=1)
    titles = list(groups)
    height = 200 + 180 * max(1, len(groups))
    styled(figure, "Learning curves", height=height)
    for row, kind in enumerate(titles, start=1):
        figure.update_yaxes(title_text=kind, row=row, col=1)
    figure.update_xaxes(title_text="step", row=max(1, len(groups)), col=1)
    return figure


def feature_gate_figure(gates: Mapping[str, float]) -> "go.Figure":
    """Mean gate of each feature, largest on top; a uniform gate is the dashed line."""
    import plotly.graph_objects as go

    ordered = sorted(gates.items(), key=lambda item: item[1])
    figure = go.Figure(
        go.Bar(
            x=[value for _, value in ordered],
            y=[plain(name) for name, _ in ordered],
            orientation="h",
            marker={"color": BLUE},
        )
    )
    if ordered:
        uniform = sum(gates.values()) / len(ordered)
        figure.add_vline(
            x=uniform,
            line={"color": GREY, "dash": "dash"},
            annotation_text="uniform",
            annotation_position="bottom right",
        )
    figure.update_yaxes(tickfont={"size": 10})
    return styled(figure, "Mean variable-selection gate", x="gate", height=140 + 16 * len(ordered))


def grid_figure(cells: "pl.DataFrame") -> "go.Figure":
    """Heat map of the mean PnL per episode over cost and threshold.

    Args:
        cells: columns cost, threshold, mean_pnl_ticks and, where given, a grid's other columns.
    """
    import plotly.graph_objects as go

    costs = cells["cost"].unique().sort().to_list()
    thresholds = cells["threshold"].unique().sort().to_list()
    z = np.full((len(thresholds), len(costs)), np.nan)
    words = np.full(z.shape, "", dtype=object)
    for row in cells.iter_rows(named=True):
        at = thresholds.index(row["threshold"]), costs.index(row["cost"])
        z[at] = row["mean_pnl_ticks"]
        words[at] = "<br>".join(f"{name}: {_short(row[name])}" for name in _HOVER if name in row)
    largest = float(np.nanmax(np.abs(z))) if np.isfinite(z).any() else 1.0
    figure = go.Figure(
        go.Heatmap(
            z=z.tolist(),
            x=[f"{cost:g}" for cost in costs],
            y=[f"{tau:g}" for tau in thresholds],
            text=[[_short(v) for v in line] for line in z],
            texttemplate="%{text}",
            hovertext=words.tolist(),
            hoverinfo="text",
            colorscale="RdBu",
            zmin=-largest,
            zmax=largest,
            colorbar={"thickness": 10, "title": {"text": "ticks"}},
        )
    )
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return styled(figure, _grid_title(cells), x="cost, price points per side", y="entry threshold")


def fold_figure(folds: "pl.DataFrame") -> "go.Figure":
    """Mean PnL per episode of the chosen cell on each fold's test rows, with mean and deviation over folds.

    Args:
        folds: columns fold and mean_pnl_ticks.
    """
    import plotly.graph_objects as go

    values = folds["mean_pnl_ticks"].to_numpy().astype(np.float64)
    figure = go.Figure(
        go.Bar(
            x=[f"fold {i}" for i in folds["fold"]],
            y=values.tolist(),
            marker={"color": [BLUE if v >= 0 else RED for v in values]},
            name="chosen cell",
        )
    )
    title = "Chosen cell on each fold's test rows"
    if values.size > 1 and np.isfinite(values).all():
        mean, deviation = float(values.mean()), float(values.std(ddof=1))
        figure.add_hline(y=mean, line={"color": GREY, "dash": "dash"})
        title = f"{title}: {mean:+.3g} ± {deviation:.2g} over {values.size} folds"
    figure.add_hline(y=0.0, line={"color": GREY, "width": 1})
    return styled(figure, title, y="mean PnL per episode, ticks")


def equity_figure(series: "OosSeries") -> "go.Figure":
    """Out-of-sample PnL of the chosen cell, its harder variants and its rivals, with its drawdown below."""
    from plotly.subplots import make_subplots

    lines = (
        ("chosen cell", series.chosen, {"color": BLUE, "width": 2.5}),
        ("next higher cost", series.next_cost, {"color": SKY}),
        ("queue fills", series.queue_fill, {"color": GREEN}),
        ("threshold rule, no learning", series.threshold_rule, {"color": ORANGE}),
        ("random", series.random, {"color": GREY}),
    )
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.06)
    for name, line, look in lines:
        if line is not None:
            equity = np.cumsum(line.pnl_ticks)
            figure.add_scatter(
                x=_moments(line), y=equity.tolist(), mode="lines", name=name, line=look, row=1, col=1
            )
    chosen = series.chosen
    fall = -drawdown(np.cumsum(chosen.pnl_ticks))
    figure.add_scatter(
        x=_moments(chosen),
        y=fall.tolist(),
        mode="lines",
        fill="tozeroy",
        name="drawdown of the chosen cell",
        line={"color": RED, "width": 1},
        row=2,
        col=1,
    )
    days = len(chosen.days)
    styled(figure, f"Out-of-sample PnL after costs, {days} days", height=500)
    figure.add_hline(y=0.0, line={"color": GREY, "width": 1, "dash": "dot"})
    figure.update_yaxes(title_text="ticks x lots", row=1, col=1)
    figure.update_yaxes(title_text="drawdown", row=2, col=1)
    return figure


def quality_figure(days: "pl.DataFrame") -> "go.Figure":
    """Snapshots and cached rows of each day; rejected days are drawn in another colour.

    Args:
        days: columns day, status, snapshots, cached_rows (null where there is no cache).
    """
    import plotly.graph_objects as go

    names = days["day"].to_list()
    figure = go.Figure()
    for wanted, colour, label in ((False, BLUE, "snapshots"), (True, RED, "snapshots of a rejected day")):
        part = days.filter((days["status"] == "rejected") == wanted)
        if part.height:
            bars = {"x": part["day"].to_list(), "y": part["snapshots"].to_list()}
            figure.add_bar(**bars, name=label, marker={"color": colour})
    figure.add_scatter(
        x=names,
        y=days["cached_rows"].to_list(),
        mode="markers",
        name="decision points in the cache",
        marker={"color": ORANGE, "size": 8, "symbol": "diamond"},
    )
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names)
    return styled(figure, "Rows per day", y="rows")


def fill_calibration_figure(table: "pl.DataFrame") -> "go.Figure":
    """Observed against expected fills on a later part of the data, by decile of the predicted intensity.

    Args:
        table: columns expected_fills and observed_fills, one row per decile.
    """
    import plotly.graph_objects as go

    expected, observed = table["expected_fills"].to_numpy(), table["observed_fills"].to_numpy()
    largest = float(max(expected.max(initial=0.0), observed.max(initial=0.0), 1.0))
    figure = go.Figure(
        go.Scatter(
            x=expected.tolist(),
            y=observed.tolist(),
            mode="markers",
            marker={"color": BLUE, "size": 9},
            error_y={"type": "data", "array": np.sqrt(observed).tolist(), "color": BLUE},
            text=[f"decile {i + 1}" for i in range(expected.size)],
            name="deciles, ± root of the count",
        )
    )
    figure.add_scatter(
        x=[0, largest], y=[0, largest], mode="lines", line={"color": GREY, "dash": "dash"}, name="perfect"
    )
    return styled(figure, "Fill model on later data", x="expected fills", y="observed fills", height=420)


_HOVER = (
    "cost",
    "threshold",
    "sample",
    "mean_pnl_ticks",
    "se_pnl_ticks",
    "ci_low_ticks",
    "ci_high_ticks",
    "win_rate",
    "trades_per_episode",
    "sharpe_annual",
    "sharpe_annual_se",
    "annual_factor",
    "sessions",
    "return_vs_random",
    "undefined",
)


def _grid_title(cells: "pl.DataFrame") -> str:
    title = "Mean PnL per episode, ticks"
    if "sample" in cells.columns:
        title += ", " + "/".join(cells["sample"].unique().sort().to_list())
    if "episodes_overlap" in cells.columns and bool(cells["episodes_overlap"].any()):
        title += ", overlapping episodes"
    return title


def _kind(name: str) -> str:
    lowered = name.lower()
    return next((kind for kind in ("auc", "loss", "entropy", "return") if kind in lowered), "value")


def _moments(series: "PnlSeries") -> list[Any]:
    """Times of the blocks, or their order where they carry row numbers."""
    if series.time_ns.size and int(series.time_ns[0]) > _NANOSECONDS_SINCE_2001:
        return [str(moment) for moment in series.time_ns.astype("datetime64[ns]").astype("datetime64[s]")]
    return list(range(series.time_ns.size))


def _short(value: Any) -> str:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else plain(str(value))
