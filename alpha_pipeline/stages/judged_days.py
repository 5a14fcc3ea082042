"""The days of a market as their quality stage judged them, for the report and for the page of their own."""

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from alpha_pipeline.report.market_data import JudgedDay, days_table, rules_figure
from alpha_pipeline.stages.base import Days, Scope

if TYPE_CHECKING:
    from alpha_pipeline.report.html import Section

TITLE = "Market data"
TEXT = (
    "Each day against the instrument's thresholds. A rejected day is left out of everything that is built on days, "
    "and no other day with it."
)


def judged_days(scope: Scope) -> list[JudgedDay]:
    """All days with raw files that were judged, oldest first, the rejected and the empty ones included."""
    return [_judged(scope, day) for day in scope.days(Days.JUDGED)]


def _judged(scope: Scope, day: str) -> JudgedDay:
    quality = scope.store.get("data_quality", day)
    cache = scope.store.find("fxcache", day) if quality.status != "rejected" else None
    result = quality.result
    return JudgedDay(
        day=day,
        status=quality.status,
        checks=result["checks"],
        snapshots=int(result["metrics"]["rows"]),
        cached_rows=int(cache.result["metrics"]["rows"]) if cache else None,
        symbol=result["params"].get("symbol", ""),
        sessions=result["params"].get("sessions", ""),
    )


def market_data_section(scope: Scope) -> "Section":
    """The part of the report on data."""
    from alpha_pipeline.report.figures import quality_figure
    from alpha_pipeline.report.html import Section

    days = judged_days(scope)
    table = days_table(days)
    figures = [quality_figure(table), rules_figure(days)] if days else []
    return Section(title=TITLE, text=TEXT, figures=figures, tables=[("Days", table)])


def write_page(scope: Scope, out: Path) -> Path:
    """The data-quality page of one instrument on its own: all days, then each day's detail, newest first."""
    from alpha_pipeline.report.html import ReportInputs, Section, render_report

    days = judged_days(scope)
    detail = [
        Section(
            title=day.day, text=f"{day.status}: {day.snapshots} snapshots", tables=_tables(scope, day.day)
        )
        for day in reversed(days)
    ]
    inputs = ReportInputs(
        title=f"{scope.config.name}: market data",
        instrument=scope.config.name,
        verdict=None,
        sections=[market_data_section(scope), *detail],
    )
    return render_report(inputs, out)


def _tables(scope: Scope, day: str) -> list[tuple[str, pl.DataFrame]]:
    artifact = scope.store.get("data_quality", day)
    folder = artifact.path / "tables"
    return [(name, pl.read_parquet(folder / f"{name}.parquet")) for name in artifact.result["tables"]]
