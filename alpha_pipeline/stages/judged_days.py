"""The days of a market as their quality stage judged them, for the report and for the page of their own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from alpha_core.errors import AlphaError
from alpha_pipeline.artifacts import DAMAGED
from alpha_pipeline.provenance import git_revision
from alpha_pipeline.report.market_data import (
    NOT_JUDGED,
    JudgedDay,
    days_table,
    rejected_table,
    rules_table,
    totals_table,
)
from alpha_pipeline.stages.base import Days, Scope

if TYPE_CHECKING:
    from alpha_pipeline.report.html import Detail, Section

TITLE = "Market data"
TEXT = (
    "Each day against the instrument's thresholds. A rejected day is left out of everything that is built on days, "
    "and no other day with it. A red figure rejects its day, an orange one warns; pointing at a figure tells its rule."
)
DETAILS_IN_REPORT = 60
"""Newest days with something to tell that the report tells of; the page of its own tells of all."""


def judged_days(scope: Scope) -> list[JudgedDay]:
    """All days with raw files that were judged, oldest first, the rejected and the empty ones included."""
    return [_judged(scope, day) for day in scope.days(Days.JUDGED)]


def all_days(scope: Scope, failed: Mapping[str, str]) -> list[JudgedDay]:
    """The days with raw files, oldest first; one that was never judged could not be read, or has not been built.

    Args:
        scope: the market.
        failed: days whose building failed, with the sentence that says why.
    """
    known = {day.day: day for day in judged_days(scope)}
    return [
        replace(known[day], failure=failed.get(day))
        if day in known
        else _unjudged(scope, day, failed.get(day))
        for day in sorted(scope.raw_files)
    ]


def _unjudged(scope: Scope, day: str, failure: str | None) -> JudgedDay:
    if scope.store.status("data_quality", day) != DAMAGED:
        return JudgedDay(day=day, status=NOT_JUDGED, failure=failure)
    try:
        scope.store.get("data_quality", day)
    except AlphaError as error:
        failure = failure or str(error)
    return JudgedDay(day=day, status=DAMAGED, failure=failure)


def _judged(scope: Scope, day: str) -> JudgedDay:
    quality = scope.store.get("data_quality", day)
    cached = quality.status != "rejected" and scope.store.status("fxcache", day) != DAMAGED
    cache = scope.store.find("fxcache", day) if cached else None
    result = quality.result
    return JudgedDay(
        day=day,
        status=quality.status,
        checks=result["checks"],
        metrics=result["metrics"],
        cached_rows=int(cache.result["metrics"]["rows"]) if cache else None,
        symbol=result["params"].get("symbol", ""),
        sessions=result["params"].get("sessions", ""),
    )


def report_section(scope: Scope) -> "Section":
    """The part of the report on data, with details of the newest days that do not simply hold."""
    days = judged_days(scope)
    telling = [day for day in days if day.look != "pass"][-DETAILS_IN_REPORT:]
    return _section(scope, days, telling)


def write_page(scope: Scope, days: Sequence[JudgedDay], out: Path) -> Path:
    """The data-quality page of one instrument on its own: all days and the details of each.

    Args:
        scope: the market.
        days: what `all_days` gives.
        out: the file, its folder is made.
    """
    from alpha_pipeline.report.html import ReportInputs, render_report

    thresholds = {f"quality.{name}": str(bound) for name, bound in asdict(scope.config.quality).items()}
    inputs = ReportInputs(
        title=f"{scope.config.name}: market data",
        instrument=scope.config.name,
        verdict=None,
        of_verdict=False,
        sections=[_section(scope, days, days)],
        lineage={"code revision": git_revision()} | thresholds,
    )
    return render_report(inputs, out)


def _section(scope: Scope, days: Sequence[JudgedDay], telling: Sequence[JudgedDay]) -> "Section":
    from alpha_pipeline.report.figures import quality_figure
    from alpha_pipeline.report.html import Section

    table = days_table(days)
    return Section(
        title=TITLE,
        text=TEXT,
        heat=rules_table(days, linked=[day.day for day in telling]) if days else None,
        figures=[quality_figure(table)] if days else [],
        tables=[("Rejected days", rejected_table(days)), ("Totals", totals_table(days)), ("Days", table)],
        details=list(_details(scope, telling)),
    )


def _details(scope: Scope, days: Sequence[JudgedDay]) -> "Iterator[Detail]":
    """One folded part a day, newest first: what does not hold, then the stage's tables, but for its rules."""
    from alpha_pipeline.report.html import Detail

    for day in reversed(days):
        said = [f"rejected: {line}" for line in day.rejections] + [
            f"warning: {line}" for line in day.warnings
        ]
        if day.failure is not None:
            said.append(day.failure)
        title = f"{day.day} {day.status}, {int(day.metrics.get('rows', 0))} snapshots"
        tables = _tables(scope, day.day) if day.checks else []
        yield Detail(anchor=day.anchor, title=title, text="\n".join(said), tables=tables)


def _tables(scope: Scope, day: str) -> list[tuple[str, pl.DataFrame]]:
    artifact = scope.store.get("data_quality", day)
    names = [name for name in artifact.result["tables"] if name != "rules"]
    return [
        (name.replace("_", " "), pl.read_parquet(artifact.path / "tables" / f"{name}.parquet"))
        for name in names
    ]
