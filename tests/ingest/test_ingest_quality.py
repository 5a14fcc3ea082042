"""Each rule of a day's quality at, below and above its bound."""

from dataclasses import replace

import polars as pl
import pytest
from dbn_builder import T0, TICK, Msg, header, ladder, write
from ingested_day import load

from alpha_pipeline.ingest import QualityThresholds, ingest_day
from alpha_pipeline.ingest.quality import CHECKS, assess_day

LOOSE = QualityThresholds(min_rows=1, min_trades=0)


def checks(day, thresholds=LOOSE):
    quality = assess_day(day.snapshots, day.report, thresholds)
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
    quality = assess_day(day.snapshots.reverse()[:4], day.report, LOOSE)
    failed = {check.name for check in quality.checks if not check.passed}
    assert failed == {"rows_backward", "rows_unaccounted"}
    assert quality.status == "rejected"


def test_empty_day_is_empty_and_neither_rejected_nor_usable(ingest):
    quality, found = checks(ingest([]), QualityThresholds())
    assert quality.status == "empty"
    assert not quality.usable
    assert all(check.passed for check in found.values())
    assert "nothing is asked of an empty day" in found["good_rows"].description


def test_table_is_for_people(ingest):
    table = checks(ingest(good(3)))[0].table
    assert table.columns == ["check", "passed", "figure", "threshold", "blocking", "description"]
    assert table.schema["figure"] == pl.Float64
    assert table.filter(pl.col("check") == "good_rows")["description"][0] == (
        "snapshots with a good book: 3, must be at least 1"
    )
