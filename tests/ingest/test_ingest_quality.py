"""Each rule of a day's quality at, below and above its bound."""

from bisect import bisect
from collections import Counter
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from dbn_builder import DAY, T0, TICK, Interval, Mapping, Msg, header, ladder, write
from ingested_day import Day, facts, load, slices, tallied

from alpha_pipeline.ingest import QualityThresholds, ingest_day
from alpha_pipeline.ingest.events import CLOSED, GOOD
from alpha_pipeline.ingest.quality import CHECKS, RULES, assess_day, render
from alpha_pipeline.ingest.sessions import minutes_in_session, sessions_of
from alpha_pipeline.ingest.table_tally import SILENCES_KEPT, WIDEST_SPREAD, SnapshotTally, TradeTally
from alpha_pipeline.instrument import InstrumentSpec

LOOSE = QualityThresholds(min_rows=1, min_trades=0)


def checks(day, thresholds=LOOSE):
    quality = assess_day(facts(day), thresholds)
    assert [check.name for check in quality.checks] == list(CHECKS)
    assert quality.table["passed"].to_list() == [check.passed for check in quality.checks]
    return quality, {check.name: check for check in quality.checks}


def good(count: int) -> list[Msg]:
    return [Msg(ts=T0 + k, sequence=k) for k in range(count)]


def test_good_day_passes(ingest):
    quality, found = checks(ingest(good(20)), QualityThresholds(min_rows=20, min_trades=0))
    assert quality.usable
    assert quality.status == "ok"
    assert all(check.passed for check in found.values())
    assert found["good_rows"].figure == 20
    assert found["good_rows"].threshold == 20


@pytest.mark.parametrize(
    ("name", "thresholds"),
    [("good_rows", replace(LOOSE, min_rows=21)), ("trades", replace(LOOSE, min_trades=1))],
)
def test_too_little_data_rejects_the_day(ingest, name, thresholds):
    quality, found = checks(ingest(good(20)), thresholds)
    assert not found[name].passed
    assert quality.status == "rejected"
    assert [check.name for check in quality.checks if not check.passed] == [name]


def test_crossed_and_locked_books_count_together(ingest):
    crossed = Msg(ts=T0 + 50, bids=ladder(20_002 * TICK, -TICK))
    locked = Msg(ts=T0 + 51, bids=ladder(20_001 * TICK, -TICK))
    day = ingest([*good(18), crossed, locked])
    _, found = checks(day, replace(LOOSE, max_crossed_fraction=0.1))
    assert found["crossed_fraction"].figure == pytest.approx(0.1)
    assert found["crossed_fraction"].passed
    quality, found = checks(day, replace(LOOSE, max_crossed_fraction=0.09))
    assert not found["crossed_fraction"].passed
    assert not quality.usable


def test_one_sided_books(ingest):
    day = ingest([*good(9), Msg(ts=T0 + 50, bids=[])])
    _, found = checks(day, replace(LOOSE, max_one_sided_fraction=0.05))
    assert (found["one_sided_fraction"].figure, found["one_sided_fraction"].passed) == (0.1, False)


def test_skipped_records_but_not_those_of_others(ingest):
    off = Msg(ts=T0 + 60, price=1)
    others = [Msg(ts=T0 + 70, instrument_id=2)] * 100
    day = ingest([*good(9), off, *others], head=header({"TEST": 1, "OTHER": 2}))
    _, found = checks(day, replace(LOOSE, max_skipped_fraction=0.09, max_off_tick_fraction=0.1))
    assert (found["skipped_fraction"].figure, found["skipped_fraction"].passed) == (0.1, False)
    assert (found["off_tick_fraction"].figure, found["off_tick_fraction"].passed) == (0.1, True)
    _, found = checks(day, replace(LOOSE, max_skipped_fraction=0.1, max_off_tick_fraction=0.09))
    assert (found["skipped_fraction"].passed, found["off_tick_fraction"].passed) == (True, False)
    assert found["off_tick_fraction"].blocking


def test_truncated_file_stops_the_day_unless_allowed(tmp_path, spec):
    whole = write(tmp_path / "a.dbn", good(20), plain=True)
    whole.write_bytes(whole.read_bytes()[:-1])
    day = load(tmp_path / "day", ingest_day([whole], spec, tmp_path / "day"))
    quality, found = checks(day)
    assert (found["truncated_files"].figure, quality.status) == (1.0, "rejected")
    assert checks(day, replace(LOOSE, max_truncated_files=1))[0].usable


def test_distrusted_and_backward_times_and_gaps_warn_without_blocking(ingest):
    day = ingest([Msg(ts=T0, flags=0x88), *good(5)[::-1], Msg(ts=T0 + 90 * 10**9)])
    quality, found = checks(day, replace(LOOSE, max_gap_seconds=60.0))
    names = {"backward_fraction", "bad_timestamp_fraction", "largest_gap_seconds"}
    assert {check.name for check in quality.checks if not check.passed} == names
    assert not any(found[name].blocking for name in names)
    assert found["largest_gap_seconds"].figure == pytest.approx(90, abs=1e-6)
    assert quality.usable


def test_rows_out_of_order_or_missing_are_found_in_the_table_itself(ingest):
    day = ingest(good(5))
    spoiled = Day(day.report, day.snapshots.reverse()[:4], day.trades)
    quality = assess_day(facts(spoiled), LOOSE)
    failed = {check.name for check in quality.checks if not check.passed}
    assert failed == {"rows_backward", "rows_unaccounted"}
    assert quality.status == "rejected"


def test_empty_day_is_empty_and_neither_rejected_nor_usable(ingest):
    quality, found = checks(ingest([]), QualityThresholds())
    assert quality.status == "empty"
    assert not quality.usable
    assert all(check.passed for check in found.values())
    assert "nothing is asked of an empty day" in found["good_rows"].description


def test_a_day_of_which_nothing_could_be_used_is_lost_and_not_empty(ingest):
    """A depth log that begins without a snapshot gives no row; it must not pass for a holiday."""
    nothing = ingest([])
    (source,) = nothing.report.sources
    log = replace(source, counts={"updates_before_a_snapshot": 30_848})
    quality, found = checks(Day(replace(nothing.report, sources=(log,)), nothing.snapshots, nothing.trades))
    assert quality.status == "rejected"
    assert [check.name for check in quality.checks if not check.passed] == ["records_without_book"]
    assert found["records_without_book"].figure == 30_848
    assert checks(ingest([Msg(instrument_id=2)], head=header({"TEST": 1, "OTHER": 2})))[0].status == "empty"


def test_page_on_the_rules_is_the_one_made_from_them():
    page = Path(__file__).parents[2] / "docs" / "data-quality.md"
    assert page.read_text() == render(), "run python -m alpha_pipeline.ingest.quality > docs/data-quality.md"


@pytest.mark.parametrize("name", [field.name for field in fields(QualityThresholds)])
def test_every_threshold_is_the_bound_of_one_rule(name):
    assert [rule.bound for rule in RULES].count(name) == 1


def test_suspect_books_reject_and_duplicates_and_holes_warn(ingest):
    same = Msg(ts=T0 + 30, sequence=30)
    records = [*good(6), same, same, Msg(ts=T0 + 60, sequence=40), Msg(ts=T0 + 61, flags=0x84, sequence=41)]
    day = ingest(records)
    strict = replace(
        LOOSE, max_suspect_fraction=0.09, max_duplicate_fraction=0.05, max_sequence_gap_fraction=0.1
    )
    quality, found = checks(day, strict)
    assert quality.status == "rejected"
    for name, figure, blocking in (
        ("suspect_fraction", 0.1, True),
        ("duplicate_fraction", 0.1, False),
        ("sequence_gap_fraction", 0.2, False),
    ):
        check = found[name]
        assert (check.figure, check.passed, check.blocking) == (pytest.approx(figure), False, blocking)


@pytest.mark.parametrize(("hours", "status"), [(10, "ok"), (24, "ok"), (24.5, "rejected"), (48, "rejected")])
def test_a_file_of_two_days_is_rejected_and_one_that_touches_two_dates_is_not(ingest, hours, status):
    """A session or a local date may begin in one UTC date and end in the next; two days in one file may not."""
    dates = Interval(DAY, DAY + timedelta(days=3), "1")
    records = [Msg(), Msg(ts=T0 + int(hours * 3600) * 10**9)]
    day = ingest(records, head=header(mappings=[Mapping("TEST", [dates])]))
    quality, found = checks(day, replace(LOOSE, max_gap_seconds=1e9))
    assert (quality.status, found["span_hours"].figure) == (status, hours)
    assert [check.name for check in quality.checks if not check.passed][-1] == "utc_dates"
    assert "(2024-03-06 to 2024-03-0" in found["span_hours"].description
    assert checks(day, replace(LOOSE, max_span_hours=hours))[0].usable


def minutes_of(date: str, states: np.ndarray, step: int = 1) -> pl.DataFrame:
    """A snapshot at the beginning of every so many minutes of a UTC date; `states` [1440]."""
    start = int(datetime.fromisoformat(f"{date}T00:00+00:00").timestamp()) * 10**9
    minutes = np.arange(0, 1440, step)
    rows = pl.DataFrame(
        {"ts_recv": start + minutes * 60 * 10**9, "bid_px_00": 100, "ask_px_00": 101},
        schema_overrides={"bid_px_00": pl.Int64, "ask_px_00": pl.Int64},
    )
    return rows.with_columns(
        pl.col("ts_recv").cast(pl.Datetime("ns", "UTC")),
        pl.Series("book_state", states[minutes].astype(np.uint8)),
    )


def closed_between(first: int, end: int) -> np.ndarray:
    states = np.full(1440, GOOD)
    states[first * 60 : end * 60] = CLOSED
    return states


def test_coverage_is_the_share_of_minutes_in_session_with_a_snapshot():
    """2024-07-04: Globex is open 00:00 to 17:00 and 22:00 to 24:00 UTC, 19 hours."""
    rows = minutes_of("2024-07-04", closed_between(17, 22), step=2)
    tally = tallied(rows, "2024-07-04", "CMES")
    assert tally.minutes.sum() == tally.open_rows == 19 * 30
    assert tally.coverage == pytest.approx(0.5)
    assert (tally.states[GOOD], tally.states[CLOSED], tally.states.sum()) == (19 * 30, 5 * 30, 720)
    assert tally.spreads[WIDEST_SPREAD + 1] == tally.spreads.sum() == 19 * 30


@pytest.mark.parametrize(
    ("calendar", "date", "hours"),
    [
        ("24/7", "2024-12-25", 24),
        ("CMES", "2024-03-08", 22),  # a Friday: from midnight to the close at 16:00 Chicago, no evening
        ("CMES", "2024-03-10", 2),  # the Sunday on which clocks change: 17:00 Chicago is 22:00 UTC
        ("CMES", "2024-03-03", 1),  # the Sunday before: 23:00 UTC
        ("CMES", "2024-11-29", 18),  # the half day after Thanksgiving, to 12:00 Chicago
        ("XNYS", "2024-11-29", 3.5),  # half a day
        ("XNYS", "2024-11-28", 0),  # a holiday
        ("XNYS", "2024-11-27", 6.5),
    ],
)
def test_coverage_knows_half_days_holidays_and_sundays(calendar, date, hours):
    """A day whose sessions have a snapshot every minute is covered, whatever their length."""
    tally = tallied(minutes_of(date, np.full(1440, GOOD)), date, calendar)
    assert tally.coverage == 1.0
    assert tally.holiday is (hours == 0)
    assert np.count_nonzero(minutes_in_session(calendar, date)) == hours * 60


def test_a_date_without_session_is_empty_whatever_was_recorded_on_it(ingest):
    """Quotes of a closed market, as venues send them on a holiday."""
    day = ingest(good(2000), spec=InstrumentSpec(name="t", symbols=("TEST",), calendar="XNYS"))
    assert day.report.closed == 2000
    holiday = assess_day(facts(day, "2024-03-09", "XNYS"), QualityThresholds())
    assert (holiday.status, holiday.usable) == ("empty", False)
    assert all(check.passed for check in holiday.checks)
    no_session_seen = assess_day(facts(day, "2024-03-06", "XNYS"), QualityThresholds())
    assert no_session_seen.status == "rejected", (
        "the market was open on that date, and nothing is known of it"
    )


def test_closed_rows_do_not_dilute_the_shares_of_those_in_session(ingest):
    day = ingest([*good(8), Msg(ts=T0 + 50, bids=[]), Msg(ts=T0 + 51, bids=[])])
    states = pl.Series("book_state", [GOOD] * 2 + [CLOSED] * 6 + [1, 1], pl.UInt8)
    _, found = checks(Day(day.report, day.snapshots.with_columns(states), day.trades))
    assert found["one_sided_fraction"].figure == 0.5


def test_trades_outside_of_their_touch_and_without_size_warn(ingest):
    """The book is 20000 to 20001 ticks: at, above and below it, and a trade of nothing."""
    at = [20_001, 20_002, 19_999, 20_000, 20_000]
    records = [
        Msg(ts=T0 + 10 + k, sequence=10 + k, action="T", side="B", price=ticks * TICK, size=3 if k < 4 else 0)
        for k, ticks in enumerate(at)
    ]
    day = ingest([*good(5), *records])
    quality, found = checks(day, replace(LOOSE, max_outside_touch_fraction=0.39, max_zero_size_fraction=0.19))
    for name, figure in (("outside_touch_fraction", 0.4), ("zero_size_fraction", 0.2)):
        check = found[name]
        assert (check.figure, check.passed, check.blocking) == (pytest.approx(figure), False, False)
    assert quality.usable
    exact = replace(LOOSE, max_outside_touch_fraction=0.4, max_zero_size_fraction=0.2)
    assert all(check.passed for check in checks(day, exact)[1].values())


def test_a_trade_into_an_empty_side_is_not_outside_of_it():
    touch = {"price": [5, 5], "size": [1, 1], "bid_px": [None, 7], "ask_px": [None, None]}
    tally = TradeTally()
    tally.see(pl.DataFrame(touch, schema=dict.fromkeys(touch, pl.Int64)))
    assert (tally.rows, tally.outside_touch) == (2, 1)


def market_rows(seed: int, rows: int) -> pl.DataFrame:
    """Random snapshots of three UTC days around 2024-03-06, some steps backward, some sides empty."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([-1, 0, 10**6, 10**9, 90 * 10**9], rows, p=[0.02, 0.1, 0.3, 0.3, 0.28])
    start = int(datetime(2024, 3, 5, 22, tzinfo=UTC).timestamp()) * 10**9
    bid = rng.integers(-3, 4, rows)
    ask = np.where(rng.random(rows) < 0.02, 10**7, bid + rng.integers(-1, 4, rows))
    return pl.DataFrame(
        {
            "ts_recv": pl.Series(start + np.cumsum(steps)).cast(pl.Datetime("ns", "UTC")),
            "book_state": pl.Series(rng.integers(0, 6, rows), dtype=pl.UInt8),
            "bid_px_00": pl.Series([None if v == 3 else v for v in bid.tolist()], dtype=pl.Int64),
            "ask_px_00": pl.Series(ask, dtype=pl.Int64),
        }
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("calendar", ["24/7", "CMES"])
def test_tally_is_what_a_plain_count_row_by_row_says(seed, calendar):
    """The reference looks at one row at a time and knows no arrays."""
    rows = market_rows(seed, 2500)
    tally = tallied(rows, "2024-03-06", calendar)
    ts = rows["ts_recv"].to_physical().to_list()
    midnight = int(datetime(2024, 3, 6, tzinfo=UTC).timestamp()) * 10**9
    hours, minutes, spreads, states = Counter(), Counter(), Counter(), Counter()
    for at, (_, state, bid, ask) in zip(ts, rows.iter_rows(), strict=True):
        states[state] += 1
        hour, minute = (at - midnight) // (3600 * 10**9), (at - midnight) // (60 * 10**9)
        if 0 <= hour < 24:
            hours[hour, state] += 1
            minutes[minute] += state != CLOSED
        if state != CLOSED and bid is not None:
            spreads[max(-WIDEST_SPREAD, min(WIDEST_SPREAD, ask - bid))] += 1
    assert tally.rows == len(ts)
    assert tally.backward == sum(b < a for a, b in pairwise(ts))
    assert dict(enumerate(tally.states.tolist())) == states
    assert {(h, s): n for (h, s), n in np.ndenumerate(tally.states_by_hour) if n} == hours
    assert {m: n for m, n in enumerate(tally.minutes.tolist()) if n} == {
        m: n for m, n in minutes.items() if n
    }
    assert {k - WIDEST_SPREAD: n for k, n in enumerate(tally.spreads.tolist()) if n} == spreads
    edges = sessions_of(calendar, "2024-03-06").edges.tolist()
    silences = [
        (b - a, a)
        for a, b in pairwise(ts)
        if b > a
        and (calendar == "24/7" or bisect(edges, a) == bisect(edges, b) == 1 + bisect(edges, a) // 2 * 2)
    ]
    assert tally.silences == sorted(silences, key=lambda s: (-s[0], s[1]))[:SILENCES_KEPT]


def test_tally_of_slices_is_the_tally_of_the_whole(ingest):
    day = ingest([*good(9), Msg(ts=T0 + 50, bids=[]), Msg(ts=T0 + 7 * 10**11, sequence=3)])
    for table in (day.snapshots, day.snapshots.reverse()):
        whole = SnapshotTally("24/7", "2024-03-06")
        whole.see(table)
        ours, theirs = vars(tallied(table)), vars(whole)
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours if name != "_sessions")
    assert len(slices(day.snapshots)) > 2
    assert tallied(day.snapshots.reverse()).backward == 10, "borders of slices count too"


def test_table_is_for_people(ingest):
    table = checks(ingest(good(3)))[0].table
    assert table.columns == ["check", "passed", "figure", "threshold", "blocking", "description"]
    assert table.schema["figure"] == pl.Float64
    assert table.filter(pl.col("check") == "good_rows")["description"][0] == (
        "snapshots with a good book: 3, must be at least 1"
    )
