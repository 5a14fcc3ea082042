"""The data-quality page, with the days of most of a year, rejected, empty and unread ones among them."""

import re
import shutil
import subprocess
from datetime import date, timedelta

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

from alpha_pipeline.ingest.events import CROSSED, GOOD, STATE_NAMES
from alpha_pipeline.ingest.report import FileReport, IngestReport
from alpha_pipeline.ingest.table_tally import SnapshotTally
from alpha_pipeline.report.figures import quality_figure
from alpha_pipeline.report.html import Detail, ReportInputs, Section, page
from alpha_pipeline.report.market_data import (
    JudgedDay,
    day_figures,
    day_line,
    day_tables,
    days_table,
    rejected_table,
    rules_table,
    totals_table,
)
from alpha_pipeline.report.thumbnails import data_uri

HOUR = 3600 * 10**9
RULES = [f"rule_{k}" for k in range(17)]


def check(name: str, passed: bool, blocking: bool) -> dict:
    return {
        "name": name,
        "passed": passed,
        "figure": 0.123456,
        "threshold": 0.05,
        "description": f"{name} <b>figure</b>: 3, must be at most 2",
        "blocking": blocking,
    }


def judged(k: int) -> JudgedDay:
    """Every tenth day is rejected, every seventh warns, every fiftieth is empty."""
    rejected = k % 10 == 9
    return JudgedDay(
        day=str(date(2024, 1, 2) + timedelta(days=k)),
        status="rejected" if rejected else "empty" if k % 50 == 0 else "ok",
        checks=[
            *(check(name, True, True) for name in RULES),
            check("crossed_fraction", not rejected, True),
            check("largest_gap_seconds", k % 7 != 0, False),
        ],
        metrics={"rows": 1000.0 * k, "records_read": 2000.0 * k, "good_rows": 900.0 * k, "trades": 10.0},
        cached_rows=None if rejected else 100 * k,
        symbol="ESH4",
        sessions="2024-01-02",
    )


def year() -> list[JudgedDay]:
    return [*(judged(k) for k in range(249)), JudgedDay(day="2024-12-31", status="not judged")]


def section(days: list[JudgedDay]) -> Section:
    hours = pl.DataFrame({"hour_utc": range(24)} | {name: [12345] * 24 for name in STATE_NAMES})
    records = pl.DataFrame({"what": [f"left out: {k}" for k in range(12)], "records": [123456] * 12})
    return Section(
        title="Market data",
        heat=rules_table(days, linked=[day.day for day in days]),
        figures=[quality_figure(days_table(days))],
        tables=[
            ("Rejected days", rejected_table(days)),
            ("Totals", totals_table(days)),
            ("Days", days_table(days)),
        ],
        details=[
            Detail(
                anchor=day.anchor,
                title=f"{day.day} {day.status}",
                text="\n".join(day.rejections),
                tables=[("records", records), ("books by hour", hours)],
            )
            for day in days
        ],
    )


def shown(*sections: Section) -> str:
    inputs = ReportInputs(
        title="es: market data", instrument="es", verdict=None, of_verdict=False, sections=sections
    )
    return page(inputs)


def test_table_tells_what_rejects_and_what_warns():
    table = days_table(year())
    assert table.height == 250
    bad = table.row(9, named=True)
    assert (bad["status"], bad["cached_rows"], bad["warnings"]) == ("rejected", None, "nothing")
    assert bad["rejected_by"] == "crossed_fraction <b>figure</b>: 3, must be at most 2"
    assert table.row(7, named=True)["warnings"].startswith("largest_gap_seconds")
    assert table.row(0, named=True)["status"] == "empty"
    assert table.row(249, named=True)["status"] == "not judged"


def test_line_of_a_day_says_all():
    assert day_line(judged(1)) == "2024-01-03 ok, 1000 snapshots"
    assert day_line(judged(9)).startswith("2024-01-11 rejected, 9000 snapshots; rejected: crossed_fraction")
    assert "; warning: largest_gap_seconds" in day_line(judged(7))
    assert day_line(year()[-1]) == "2024-12-31 not judged, see `alpha status`"


def test_rejected_and_unread_days_are_told_with_their_sentence():
    table = rejected_table(year())
    assert table.height == 25
    assert table.row(0) == ("2024-01-11", "crossed_fraction <b>figure</b>: 3, must be at most 2")
    assert table.row(24)[1].startswith("it was never judged: its files cannot be read")


def test_totals_count_days_by_status_and_sum_the_rest():
    totals = dict(totals_table(year()).iter_rows())
    assert (
        totals["days ok"] + totals["days empty"] + totals["days rejected"] + totals["days not judged"] == 250
    )
    assert totals["days rejected"] == 24
    assert totals["records read"] == 2 * totals["snapshots"] == 2000 * sum(range(249))


def test_heat_table_shows_every_day_against_every_rule_and_its_bound():
    table = rules_table(year(), linked=["2024-01-11"])
    assert list(table.columns[-2:]) == ["crossed fraction", "largest gap seconds"]
    assert set(table.bounds) == {"0.05"}
    bad, warned, unread = table.rows[9], table.rows[7], table.rows[249]
    assert (bad.look, bad.note, bad.anchor) == ("fail", "rejected", "day-2024-01-11")
    assert [cell.look for cell in bad.cells[-2:]] == ["fail", "pass"]
    assert bad.cells[-2].text == "0.123"
    assert bad.cells[-2].hint.endswith("must be at most 2")
    assert (warned.look, warned.anchor, warned.cells[-1].look) == ("warn", None, "warn")
    assert (unread.look, unread.note, {cell.text for cell in unread.cells}) == ("fail", "not judged", {""})


def test_a_rule_that_an_old_day_was_not_held_against_is_blank():
    old = JudgedDay(**{**vars(judged(1)), "checks": [check("crossed_fraction", True, True)]})
    first, second = rules_table([old, judged(2)]).rows
    assert [cell.text for cell in first.cells].count("") == 18
    assert all(cell.text for cell in second.cells)


def test_page_of_a_year_is_bounded_escaped_and_linked():
    text = shown(section(year()))
    bare = shown(Section(title="x", figures=[quality_figure(days_table(year()[:1]))]))
    assert len(text) - len(bare) < 3_000_000
    body = text[text.index("<body>") : text.index("<script")]
    assert "<b>" not in body
    assert "crossed_fraction &lt;b&gt;figure&lt;/b&gt;" in body
    links = re.findall(r'href="#(day-[^"]+)"', body)
    assert len(links) == 250
    assert all(f'id="{link}"' in body for link in links)
    assert "verdict" not in body
    assert body.count('<td class="fail"') == 24
    assert body.count('<td class="warn"') == 36


def test_page_without_days_says_so():
    text = shown(
        Section(title="Market data", tables=[("Totals", totals_table([])), ("Days", days_table([]))])
    )
    assert "Market data" in text


def tally() -> SnapshotTally:
    """Three hours of a day: good, crossed, and a silence of two hours between them."""
    midnight = int(np.datetime64("2024-03-06", "ns").astype(np.int64))
    ts = [midnight + HOUR + k * 10**9 for k in range(50)] + [midnight + 3 * HOUR + k for k in range(5)]
    rows = pl.DataFrame(
        {
            "ts_recv": pl.Series(ts).cast(pl.Datetime("ns", "UTC")),
            "book_state": pl.Series([GOOD] * 50 + [CROSSED] * 5, dtype=pl.UInt8),
            "bid_px_00": pl.Series([100] * 50 + [102] * 5),
            "ask_px_00": pl.Series([101] * 55),
        }
    )
    found = SnapshotTally("24/7", "2024-03-06")
    found.see(rows)
    return found


def test_figures_of_a_day_show_minutes_silences_states_and_spreads():
    figures = day_figures(tally())
    (minutes,) = figures["minutes"].data
    assert len(minutes.y) == 1440
    assert (minutes.x[60], minutes.y[60], minutes.y[61], minutes.y[180], sum(minutes.y)) == (
        1.0,
        50,
        0,
        5,
        55,
    )
    (silences,) = figures["silences"].data
    assert (max(silences.y), silences.x[-1]) == (pytest.approx(7151), pytest.approx(1.0136, abs=1e-4))
    (books,) = figures["books"].data
    assert (books.name, books.y[3], sum(books.y)) == ("crossed", 5, 5)
    (spreads,) = figures["spreads"].data
    assert dict(zip(spreads.x, spreads.y, strict=True)) == {"-1": 5, "1": 50}


def test_a_day_of_good_books_says_that_there_are_no_others():
    found = SnapshotTally("24/7", "2024-03-06")
    figure = day_figures(found)["books"]
    assert figure.layout.title.text == "Books that cannot be decided on: none"
    assert day_figures(tally())["books"].layout.title.text == "Books that cannot be decided on"


def test_thumbnails_stack_bars_where_the_figure_does():
    figure = go.Figure([go.Bar(x=[1, 2], y=[3, 4], name="a"), go.Bar(x=[2, 1], y=[5, 6], name="b")])
    apart = data_uri(figure)
    figure.update_layout(barmode="stack")
    stacked = data_uri(figure)
    summed = data_uri(go.Figure([go.Bar(x=[1, 2], y=[3, 4], name="a"), go.Bar(x=[1, 2], y=[9, 9], name="b")]))
    assert len({apart, stacked, summed}) == 3
    for drawn in day_figures(tally()).values():
        assert data_uri(drawn).startswith("data:image/png;base64,")


def test_tables_of_a_day_tell_where_every_record_went():
    report = IngestReport(
        instrument="es",
        status="ok",
        sources=(
            FileReport(
                name="a.dbn",
                bytes=9,
                sha256="00",
                version=3,
                records=70,
                skipped_by_type={"status": 3},
                trailing_bytes=0,
                truncated=False,
                counts={"unknown orders": 2},
            ),
        ),
        records_read=70,
        records_kept=60,
        skipped={"off_tick": 7, "unknown_action": 0},
        skipped_by_type={"status": 3},
    )
    tables = day_tables(report, tally())
    records = dict(tables["records"].iter_rows())
    assert (
        records["read"]
        == records["kept"] + records["left out: off_tick"] + records["of another type: status"]
    )
    assert "left out: unknown_action" not in records
    assert tables["books_by_hour"].row(3, named=True)["crossed"] == 5
    assert tables["sources"]["counted_beside"].to_list() == ["2 unknown orders"]


@pytest.mark.slow
def test_a_browser_opens_the_detail_that_a_link_names(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium on this machine")
    out = tmp_path / "data_quality.html"
    out.write_text(shown(section(year())))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=15000", "--dump-dom"]
    command = [browser, *flags, "--enable-logging=stderr", f"{out.as_uri()}#day-2024-01-11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    drawn = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)
    assert re.findall(r'<details class="detail" id="([^"]+)" open', drawn) == ["day-2024-01-11"]
    assert "Uncaught" not in done.stderr
    assert "Content Security Policy" not in done.stderr
