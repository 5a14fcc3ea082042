"""The data-quality page: one day's tables and figures, and all days against all rules."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from alpha_pipeline.ingest.events import STATE_NAMES
from alpha_pipeline.ingest.report import IngestReport
from alpha_pipeline.ingest.sessions import MINUTE_NS
from alpha_pipeline.ingest.table_tally import HOUR_NS, TableTally
from alpha_pipeline.report.style import BLUE, GREEN, ORANGE, RED, styled

if TYPE_CHECKING:
    import plotly.graph_objects as go

SPREADS_SHOWN = 15
MINUTES_SHOWN = 1500
PASSED, WARNED, BLOCKED = range(3)
_RECORDS = {"what": pl.String, "records": pl.Int64}
ANSWERS = ("holds", "warns", "rejects the day")


def day_tables(report: IngestReport, tally: TableTally) -> dict[str, pl.DataFrame]:
    """Where every record of a day went, its source files, and its books by state."""
    sources = [
        {
            "file": source.name,
            "bytes": source.bytes,
            "format_version": source.version,
            "records": source.records,
            "trailing_bytes": source.trailing_bytes,
            "truncated": source.truncated,
            "counted_beside": ", ".join(f"{n} {k}" for k, n in source.counts.items()) or "nothing",
            "sha256": source.sha256,
        }
        for source in report.sources
    ]
    states = [{"book": name, "snapshots": tally.states[k]} for k, name in enumerate(STATE_NAMES)]
    return {
        "records": pl.DataFrame(list(_records(report)), schema=_RECORDS, orient="row"),
        "books": pl.DataFrame(states, schema={"book": pl.String, "snapshots": pl.Int64}),
        "sources": pl.DataFrame(sources),
    }


def _records(report: IngestReport) -> Iterator[tuple[str, int]]:
    yield "read", report.records_read
    yield "kept", report.records_kept
    yield from ((f"left out: {reason}", count) for reason, count in sorted(report.skipped.items()) if count)
    yield from ((f"of another type: {kind}", count) for kind, count in sorted(report.skipped_by_type.items()))
    for name in ("bad_ts_recv", "maybe_bad_book", "snapshot_records", "duplicates", "ts_recv_backward"):
        yield name, getattr(report, name)
    for name in ("ts_event_backward", "sequence_gaps", "sequence_resets", "outside_session"):
        yield name, getattr(report, name)
    yield from ((f"breaks: {reason}", count) for reason, count in sorted(report.breaks.items()))


def day_figures(tally: TableTally) -> dict[str, "go.Figure"]:
    """Snapshots by minute, books that cannot be decided on by hour, and spreads, of a day with rows."""
    return {
        "minutes": _minutes_figure(tally),
        "books": _books_figure(tally),
        "spreads": _spreads_figure(tally),
    }


def _minutes_figure(tally: TableTally) -> "go.Figure":
    """Silent minutes inside the day's span count as zero: gaps are what one looks for."""
    import plotly.graph_objects as go

    known = sorted(tally.minutes) or [0]
    span = range(known[0], min(known[-1], known[0] + MINUTES_SHOWN) + 1)
    clock = [str(np.datetime64(minute * MINUTE_NS, "ns"))[11:16] for minute in span]
    line = go.Scatter(x=clock, y=[tally.minutes[m] for m in span], mode="lines", marker={"color": BLUE})
    return styled(go.Figure(line), "Snapshots by minute, in session (UTC)", y="snapshots")


def _books_figure(tally: TableTally) -> "go.Figure":
    import plotly.graph_objects as go

    hours = sorted({hour for hour, _ in tally.states_by_hour})
    clock = [str(np.datetime64(hour * HOUR_NS, "ns"))[11:16] for hour in hours]
    figure = go.Figure()
    for state, name in enumerate(STATE_NAMES[1:], start=1):
        rows = [tally.states_by_hour[hour, state] for hour in hours]
        if any(rows):
            figure.add_bar(x=clock, y=rows, name=name)
    figure.update_layout(barmode="stack")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=clock)
    return styled(figure, "Books that cannot be decided on, by hour (UTC)", y="snapshots")


def _spreads_figure(tally: TableTally) -> "go.Figure":
    import plotly.graph_objects as go

    shown = sorted(tally.spreads.most_common(SPREADS_SHOWN))
    bars = go.Bar(x=[str(ticks) for ticks, _ in shown], y=[rows for _, rows in shown], marker={"color": BLUE})
    return styled(go.Figure(bars), "Spread", x="ticks", y="snapshots")


@dataclass(frozen=True, kw_only=True)
class JudgedDay:
    """One day as its quality stage left it.

    Attributes:
        day: partition key.
        status: "ok", "empty" or "rejected".
        checks: the stored checks: name, passed, figure, threshold, description, blocking.
        snapshots: rows of its table.
        cached_rows: decision points in its cache, None where it has none.
        symbol: the raw symbol that was used.
        sessions: dates of the sessions that it touches.
    """

    day: str
    status: str
    checks: Sequence[dict[str, Any]]
    snapshots: int
    cached_rows: int | None
    symbol: str
    sessions: str


def days_table(days: Sequence[JudgedDay]) -> pl.DataFrame:
    """One row a day, with the sentence of whatever does not hold."""
    schema = {
        "day": pl.String,
        "status": pl.String,
        "symbol": pl.String,
        "sessions": pl.String,
        "snapshots": pl.Int64,
        "cached_rows": pl.Int64,
        "rejected_by": pl.String,
        "warnings": pl.String,
    }
    rows = [
        (
            d.day,
            d.status,
            d.symbol,
            d.sessions,
            d.snapshots,
            d.cached_rows,
            _sentences(d, True),
            _sentences(d, False),
        )
        for d in days
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _sentences(day: JudgedDay, blocking: bool) -> str:
    failed = [c["description"] for c in day.checks if not c["passed"] and c["blocking"] is blocking]
    return "; ".join(failed) or "nothing"


def rules_figure(days: Sequence[JudgedDay]) -> "go.Figure":
    """All days against all rules: what holds, what warns, what rejects; the figures show on hovering."""
    import plotly.graph_objects as go

    names = list(dict.fromkeys(check["name"] for day in days for check in day.checks))
    found = [{check["name"]: check for check in day.checks} for day in days]
    answers = [[_answer(checks.get(name)) for checks in found] for name in names]
    texts = [[checks.get(name, {}).get("description", "not checked") for checks in found] for name in names]
    scale = [[0, GREEN], [1 / 3, GREEN], [1 / 3, ORANGE], [2 / 3, ORANGE], [2 / 3, RED], [1, RED]]
    heat = go.Heatmap(
        x=[day.day for day in days],
        y=names,
        z=answers,
        text=texts,
        hovertemplate="%{x}: %{text}<extra></extra>",
        zmin=PASSED,
        zmax=BLOCKED,
        colorscale=scale,
        colorbar={"tickvals": [1 / 3, 1, 5 / 3], "ticktext": ANSWERS, "thickness": 10},
        xgap=1,
        ygap=1,
    )
    figure = styled(go.Figure(heat), "Days against rules", height=120 + 20 * len(names))
    figure.update_xaxes(type="category")
    figure.update_yaxes(autorange="reversed")
    return figure


def _answer(check: dict[str, Any] | None) -> int | None:
    if check is None:
        return None
    return PASSED if check["passed"] else BLOCKED if check["blocking"] else WARNED
