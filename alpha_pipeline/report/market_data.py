"""The data-quality page: one day's tables and figures, and all days against all rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from alpha_pipeline.ingest.events import GOOD, STATE_NAMES
from alpha_pipeline.ingest.report import IngestReport
from alpha_pipeline.ingest.table_tally import HOUR_NS, HOURS, MINUTES, WIDEST_SPREAD, SnapshotTally
from alpha_pipeline.report.heat import HeatCell, HeatRow, HeatTable, Look
from alpha_pipeline.report.style import BLUE, COLOURS, RED, styled

if TYPE_CHECKING:
    import plotly.graph_objects as go

SPREADS_SHOWN = 15
SHORTEST_SILENCE_S = 1.0
NANOS = 1e9
HOUR_AXIS = "hour of the UTC date"

NOT_JUDGED, DAMAGED = UNJUDGED = ("not judged", "damaged")
"""Standings of a day of which there are no figures: its quality stage never ran, or its files are spoiled."""


def day_tables(report: IngestReport, tally: SnapshotTally) -> dict[str, pl.DataFrame]:
    """Where every record of a day went, its source files, and its books by hour and state."""
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
    records = pl.DataFrame(
        list(_records(report)), schema={"what": pl.String, "records": pl.Int64}, orient="row"
    )
    hours = dict(zip(STATE_NAMES, tally.states_by_hour.T, strict=True))
    return {
        "records": records,
        "books_by_hour": pl.DataFrame({"hour_utc": range(HOURS)} | hours),
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


def day_figures(tally: SnapshotTally) -> dict[str, "go.Figure"]:
    """Snapshots by minute, silences, books that cannot be decided on, and spreads, of a day with rows."""
    return {
        "minutes": _minutes_figure(tally),
        "silences": _silences_figure(tally),
        "books": _books_figure(tally),
        "spreads": _spreads_figure(tally),
    }


def _minutes_figure(tally: SnapshotTally) -> "go.Figure":
    """Silent minutes count as zero: gaps are what one looks for."""
    import plotly.graph_objects as go

    hours = [round(minute / 60, 3) for minute in range(MINUTES)]
    line = go.Scatter(x=hours, y=tally.minutes.tolist(), mode="lines", line={"color": BLUE, "width": 1})
    return styled(go.Figure(line), "Snapshots by minute, in session", x=HOUR_AXIS, y="snapshots")


def _silences_figure(tally: SnapshotTally) -> "go.Figure":
    import plotly.graph_objects as go

    shown = sorted((at, length) for length, at in tally.silences if length >= SHORTEST_SILENCE_S * NANOS)
    marks = go.Scatter(
        x=[round((at - tally.midnight_ns) / HOUR_NS, 4) for at, _ in shown],
        y=[round(length / NANOS, 3) for _, length in shown],
        text=[str(np.datetime64(at, "ns"))[11:19] for at, _ in shown],
        mode="markers",
        marker={"color": RED, "size": 6},
    )
    figure = styled(go.Figure(marks), "Longest silences in session", x=HOUR_AXIS, y="seconds")
    figure.update_xaxes(range=[0, HOURS])
    return figure


def _books_figure(tally: SnapshotTally) -> "go.Figure":
    import plotly.graph_objects as go

    figure = go.Figure()
    for state, name in enumerate(STATE_NAMES):
        rows = tally.states_by_hour[:, state]
        if state != GOOD and rows.any():
            colour = COLOURS[state % len(COLOURS)]
            figure.add_bar(x=list(range(HOURS)), y=rows.tolist(), name=name, marker={"color": colour})
    title = "Books that cannot be decided on" + ("" if figure.data else ": none")
    figure.update_layout(barmode="stack", showlegend=True)
    figure.update_xaxes(range=[-0.5, HOURS - 0.5])
    return styled(figure, title, x=HOUR_AXIS, y="snapshots")


def _spreads_figure(tally: SnapshotTally) -> "go.Figure":
    """The most frequent spreads; the widest ones that are counted stand for all beyond."""
    import plotly.graph_objects as go

    frequent = np.sort(np.argsort(-tally.spreads, kind="stable")[:SPREADS_SHOWN])
    shown = [int(place) for place in frequent if tally.spreads[place]]
    names = [str(place - WIDEST_SPREAD) for place in shown]
    bars = go.Bar(x=names, y=tally.spreads[shown].tolist(), marker={"color": BLUE})
    figure = styled(go.Figure(bars), "Spread in session", x="ticks", y="snapshots")
    figure.update_xaxes(type="category")
    return figure


@dataclass(frozen=True, kw_only=True)
class JudgedDay:
    """One day as its quality stage left it.

    Attributes:
        day: partition key.
        status: "ok", "empty", "rejected", or one of UNJUDGED.
        checks: the stored checks: name, passed, figure, threshold, description, blocking.
        metrics: the stage's figures, `rows`, `records_read`, `records_kept` and `trades` among them.
        cached_rows: decision points in its cache, None where it has none.
        symbol: the raw symbol that was used.
        sessions: dates of the sessions that it touches.
        failure: why building it as its files and settings are now failed, None when it did not.
    """

    day: str
    status: str
    checks: Sequence[dict[str, Any]] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    cached_rows: int | None = None
    symbol: str = ""
    sessions: str = ""
    failure: str | None = None

    @property
    def rejections(self) -> list[str]:
        """Sentences of the checks that reject the day."""
        return [c["description"] for c in self.checks if not c["passed"] and c["blocking"]]

    @property
    def warnings(self) -> list[str]:
        """Sentences of the other checks that do not hold."""
        return [c["description"] for c in self.checks if not c["passed"] and not c["blocking"]]

    @property
    def look(self) -> Look:
        """How bad the day is."""
        if self.status in ("rejected", *UNJUDGED):
            return "fail"
        return "warn" if self.warnings else "none" if self.status == "empty" else "pass"

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return f"day-{self.day}"


def day_line(day: JudgedDay) -> str:
    """A day in one line."""
    if day.status in UNJUDGED:
        return f"{day.day} {day.status}, {day.failure or 'see `alpha status`'}"
    told = [*(f"rejected: {line}" for line in day.rejections), *(f"warning: {line}" for line in day.warnings)]
    failed = [] if day.failure is None else [day.failure]
    return "; ".join([f"{day.day} {day.status}, {int(day.metrics['rows'])} snapshots", *told, *failed])


def days_table(days: Sequence[JudgedDay]) -> pl.DataFrame:
    """One row a day, with the sentences of whatever does not hold."""
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
            day.day,
            day.status,
            day.symbol,
            day.sessions,
            int(day.metrics.get("rows", 0)),
            day.cached_rows,
            "; ".join(day.rejections) or day.failure or "nothing",
            "; ".join(day.warnings) or "nothing",
        )
        for day in days
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def rejected_table(days: Sequence[JudgedDay]) -> pl.DataFrame:
    """The days that nothing is built on although they are not empty, and why."""
    unread = "it was never judged: its files cannot be read, or it waits to be built, see `alpha status`"
    rows = [
        (day.day, "; ".join(day.rejections) or day.failure or unread) for day in days if day.look == "fail"
    ]
    return pl.DataFrame(rows, schema={"day": pl.String, "why": pl.String}, orient="row")


def totals_table(days: Sequence[JudgedDay]) -> pl.DataFrame:
    """Days by status, and what all days hold together."""
    counts = {
        name: sum(day.status == name for day in days) for name in ("ok", "empty", "rejected", *UNJUDGED)
    }
    sums = {
        name: int(sum(day.metrics.get(key, 0) for day in days))
        for name, key in (
            ("records read", "records_read"),
            ("records kept", "records_kept"),
            ("snapshots", "rows"),
            ("snapshots with a good book", "good_rows"),
            ("trades", "trades"),
        )
    }
    totals = {f"days {name}": count for name, count in counts.items() if count} | sums
    totals["decision points in the cache"] = sum(day.cached_rows or 0 for day in days)
    return pl.DataFrame({"what": list(totals), "total": list(totals.values())})


def rules_table(days: Sequence[JudgedDay], *, linked: Sequence[str] = ()) -> HeatTable:
    """All days against all rules: each figure, and whether it holds, warns or rejects the day.

    Args:
        days: oldest first.
        linked: keys of the days that the page tells more of.
    """
    bounds = {check["name"]: check["threshold"] for day in days for check in day.checks}
    return HeatTable(
        corner="day",
        columns=[name.replace("_", " ") for name in bounds],
        bounds=[_figure(bound) for bound in bounds.values()],
        rows=[
            HeatRow(
                label=day.day,
                anchor=day.anchor if day.day in linked else None,
                note="" if day.status == "ok" else day.status,
                look=day.look,
                hint="; ".join([*day.rejections, *day.warnings]) or day.failure or "",
                cells=list(_cells(day, list(bounds))),
            )
            for day in days
        ],
    )


def _cells(day: JudgedDay, names: Sequence[str]) -> Iterator[HeatCell]:
    checks = {check["name"]: check for check in day.checks}
    for name in names:
        check = checks.get(name)
        if check is None:
            yield HeatCell(text="", look="none", hint="not checked")
        else:
            look: Look = "pass" if check["passed"] else "fail" if check["blocking"] else "warn"
            yield HeatCell(text=_figure(check["figure"]), look=look, hint=check["description"])


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value == round(value) else f"{value:.3g}"
