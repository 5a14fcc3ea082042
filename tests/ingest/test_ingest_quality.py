"""Each rule of a day's quality at, below and above its bound."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from dbn_builder import T0, TICK, Msg, header, ladder, write
from ingested_day import load, tallied

from alpha_pipeline.ingest import QualityThresholds, ingest_day
from alpha_pipeline.ingest.events import CLOSED, GOOD
from alpha_pipeline.ingest.quality import CHECKS, assess_day
from alpha_pipeline.ingest.table_tally import TableTally

LOOSE = QualityThresholds(min_rows=1, min_trades=0)


def checks(day, thresholds=LOOSE):
    quality = assess_day(tallied(day.snapshots), day.report, thresholds)
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
    _, found = checks(day, replace(LOOSE, max_skipped_fraction=0.09))
    assert (found["skipped_fraction"].figure, found["skipped_fraction"].passed) == (0.1, False)


def test_truncated_file_stops_the_day_unless_allowed(tmp_path, spec):
    whole = write(tmp_path / "a.dbn", good(20), plain=True)
    whole.write_bytes(whole.read_bytes()[:-1])
    day = load(tmp_path / "day", ingest_day([whole], spec, tmp_path / "day"))
    quality, found = checks(day)
    assert (found["truncated_files"].figure, quality.status) == (1.0, "rejected")
    assert checks(day, replace(LOOSE, allow_truncated=True))[0].usable


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
    quality = assess_day(tallied(day.snapshots.reverse()[:4]), day.report, LOOSE)
    failed = {check.name for check in quality.checks if not check.passed}
    assert failed == {"rows_backward", "rows_unaccounted"}
    assert quality.status == "rejected"


def test_empty_day_is_empty_and_neither_rejected_nor_usable(ingest):
    quality, found = checks(ingest([]), QualityThresholds())
    assert quality.status == "empty"
    assert not quality.usable
    assert all(check.passed for check in found.values())
    assert "nothing is asked of an empty day" in found["good_rows"].description


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


def test_coverage_is_the_share_of_open_minutes_with_a_snapshot():
    """2024-07-04: Globex is open 00:00 to 17:00 and 22:00 to 24:00 UTC, 19 hours."""
    start = int(datetime(2024, 7, 4, tzinfo=UTC).timestamp()) * 10**9
    minutes = np.arange(0, 24 * 60, 2)
    ts = start + minutes * 60 * 10**9
    state = np.where((minutes >= 17 * 60) & (minutes < 22 * 60), CLOSED, GOOD).astype(np.uint8)
    rows = pl.DataFrame({"ts_recv": ts, "book_state": state, "bid_px_00": 100, "ask_px_00": 101})
    rows = rows.with_columns(pl.col("ts_recv").cast(pl.Datetime("ns", "UTC")))
    tally = tallied(rows, "2024-07-04", "CMES")
    assert len(tally.minutes) == 19 * 30
    assert tally.coverage == pytest.approx(0.5)
    assert tallied(rows[:0], "2024-07-06", "CMES").coverage == 1.0, "nobody is open on a Saturday"
    assert tally.states == {GOOD: 19 * 30, CLOSED: 5 * 30}
    assert tally.spreads == {1: 720}


def test_tally_of_slices_is_the_tally_of_the_whole(ingest):
    day = ingest([*good(9), Msg(ts=T0 + 50, bids=[]), Msg(ts=T0 + 7 * 10**11, sequence=3)])
    whole = TableTally("24/7", "2024-03-06")
    whole.see(day.snapshots)
    assert vars(tallied(day.snapshots)) == vars(whole)
    shuffled = day.snapshots.reverse()
    assert tallied(shuffled).backward == 10, "borders of slices count too"


def test_table_is_for_people(ingest):
    table = checks(ingest(good(3)))[0].table
    assert table.columns == ["check", "passed", "figure", "threshold", "blocking", "description"]
    assert table.schema["figure"] == pl.Float64
    assert table.filter(pl.col("check") == "good_rows")["description"][0] == (
        "snapshots with a good book: 3, must be at least 1"
    )
