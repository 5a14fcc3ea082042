"""The ledger of out-of-sample looks."""

import json
import multiprocessing
from dataclasses import replace

import pytest

from alpha_core.errors import DataError
from alpha_pipeline.evaluation.looks import Look, LookCount, LookLedger, span_digest

LOOK = Look(
    when="2024-03-09T02:00:00+00:00",
    run_id="r1",
    instrument="es",
    days=("2024-03-07", "2024-03-08"),
    inputs="aaaa",
    code="1234",
    data={"fxcache/2024-03-07": "d1"},
)


def test_other_inputs_count_and_identical_inputs_do_not(tmp_path):
    ledger = LookLedger(tmp_path / "looks" / "ledger.jsonl")
    assert ledger.open_days(LOOK) == LookCount(earlier=0, overlapping=0)
    assert ledger.open_days(replace(LOOK, run_id="r2", when="later")) == LookCount(earlier=0, overlapping=0)
    assert ledger.open_days(replace(LOOK, inputs="bbbb")) == LookCount(earlier=1, overlapping=0)
    assert ledger.open_days(replace(LOOK, inputs="cccc")) == LookCount(earlier=2, overlapping=0)
    # The first inputs keep the count of their first record, the second theirs.
    assert ledger.open_days(LOOK).earlier == 0
    assert ledger.open_days(replace(LOOK, inputs="bbbb")).earlier == 1
    assert [look.inputs for look in ledger.looks()] == ["aaaa", "aaaa", "bbbb", "cccc", "aaaa", "bbbb"]
    assert ledger.looks()[0] == LOOK


def test_other_spans_are_shown_and_not_counted(tmp_path):
    ledger = LookLedger(tmp_path / "ledger.jsonl")
    ledger.open_days(LOOK)
    tomorrow = replace(LOOK, days=("2024-03-08", "2024-03-11"), inputs="bbbb")
    assert ledger.open_days(tomorrow) == LookCount(earlier=0, overlapping=1)
    assert ledger.open_days(replace(LOOK, days=("2024-04-01",), inputs="cccc")) == LookCount(
        earlier=0, overlapping=0
    )
    assert ledger.open_days(replace(LOOK, instrument="nq", inputs="dddd")) == LookCount(
        earlier=0, overlapping=0
    )


def test_a_span_is_its_instrument_and_days_in_any_order():
    assert span_digest("es", ["b", "a"]) == span_digest("es", ["a", "b"]) != span_digest("es", ["a"])
    assert span_digest("es", ["a"]) != span_digest("nq", ["a"])


def test_counting_records_nothing(tmp_path):
    ledger = LookLedger(tmp_path / "ledger.jsonl")
    assert ledger.count(LOOK) == LookCount(earlier=0, overlapping=0)
    assert not (tmp_path / "ledger.jsonl").exists()


@pytest.mark.parametrize("line", ["not json", "[]", '{"when": "x"}', '{"when": "x", "days": 3}'])
def test_a_damaged_ledger_is_refused_rather_than_started_afresh(tmp_path, line):
    path = tmp_path / "ledger.jsonl"
    ledger = LookLedger(path)
    ledger.open_days(LOOK)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match="line 2 is not a look"):
        ledger.open_days(replace(LOOK, inputs="bbbb"))
    assert path.read_text().count("\n") == 2, "nothing was appended"


def test_a_record_holds_what_was_opened(tmp_path):
    path = tmp_path / "ledger.jsonl"
    LookLedger(path).open_days(LOOK)
    raw = json.loads(path.read_text())
    assert raw["span"] == span_digest("es", LOOK.days)
    assert (raw["code"], raw["data"], raw["run_id"], raw["when"]) == ("1234", LOOK.data, "r1", LOOK.when)


def _open(path, inputs):
    LookLedger(path).open_days(replace(LOOK, inputs=inputs))


def test_looks_at_the_same_moment_are_all_counted(tmp_path):
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_open, args=(path, f"in{i}")) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {look.inputs for look in LookLedger(path).looks()} == {f"in{i}" for i in range(6)}
    assert LookLedger(path).count(LOOK).earlier == 6
