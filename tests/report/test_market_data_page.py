"""The data-quality page, with the days of most of a year, rejected and empty ones among them."""

from datetime import date, timedelta

import polars as pl

from alpha_pipeline.report.html import ReportInputs, Section, page
from alpha_pipeline.report.market_data import BLOCKED, PASSED, WARNED, JudgedDay, days_table, rules_figure


def check(name: str, passed: bool, blocking: bool) -> dict:
    text = f"{name} <b>figure</b>: 3, must be at most 2"
    return {
        "name": name,
        "passed": passed,
        "figure": 3.0,
        "threshold": 2.0,
        "description": text,
        "blocking": blocking,
    }


def judged(k: int) -> JudgedDay:
    """Every tenth day is rejected, every seventh warns, every fiftieth is empty."""
    rejected = k % 10 == 9
    return JudgedDay(
        day=str(date(2024, 1, 2) + timedelta(days=k)),
        status="rejected" if rejected else "empty" if k % 50 == 0 else "ok",
        checks=[
            check("crossed_fraction", not rejected, True),
            check("largest_gap_seconds", k % 7 != 0, False),
        ],
        snapshots=1000 * k,
        cached_rows=None if rejected else 100 * k,
        symbol="ESH4",
        sessions="2024-01-02",
    )


def test_table_tells_what_rejects_and_what_warns():
    table = days_table([judged(k) for k in range(250)])
    assert table.height == 250
    bad = table.row(9, named=True)
    assert (bad["status"], bad["cached_rows"], bad["warnings"]) == ("rejected", None, "nothing")
    assert bad["rejected_by"] == "crossed_fraction <b>figure</b>: 3, must be at most 2"
    assert table.row(7, named=True)["warnings"].startswith("largest_gap_seconds")
    assert table.row(0, named=True)["status"] == "empty"


def test_heat_map_shows_every_day_and_rule():
    (heat,) = rules_figure([judged(k) for k in range(250)]).data
    assert len(heat.x) == 250
    assert list(heat.y) == ["crossed_fraction", "largest_gap_seconds"]
    assert [row[9] for row in heat.z] == [BLOCKED, PASSED]
    assert [row[7] for row in heat.z] == [PASSED, WARNED]
    assert "must be at most 2" in heat.text[0][9]


def test_a_rule_that_a_day_was_not_held_against_is_blank():
    old = JudgedDay(**{**vars(judged(1)), "checks": [check("crossed_fraction", True, True)]})
    (heat,) = rules_figure([old, judged(2)]).data
    assert [row[0] for row in heat.z] == [PASSED, None]


def test_page_of_a_year_is_bounded_and_escaped():
    days = [judged(k) for k in range(250)]
    section = Section(title="Market data", figures=[rules_figure(days)], tables=[("Days", days_table(days))])
    inputs = ReportInputs(title="es: market data", instrument="es", verdict=None, sections=[section])
    text = page(inputs)
    bare = page(
        ReportInputs(
            title="es: market data",
            instrument="es",
            verdict=None,
            sections=[Section(title="x", figures=[rules_figure(days[:1])])],
        )
    )
    assert len(text) - len(bare) < 400_000
    assert "crossed_fraction <b>" not in text.split("<script")[0]
    assert page(
        ReportInputs(
            title="es",
            instrument="es",
            verdict=None,
            sections=[Section(title="x", tables=[("Days", days_table([]))])],
        )
    )
    assert isinstance(days_table([]), pl.DataFrame)
