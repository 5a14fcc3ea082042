"""Days from the vendor through the official client: whole or not at all, whatever the line does."""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import databento
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ingest"))

from dbn_builder import T0, Msg, write
from vendor_stand_in import KEY, Break, Refusal, StandIn, Warned, serving

from alpha_core.errors import ConfigError, DataError
from alpha_pipeline.config import load
from alpha_pipeline.definitions import build_defs
from alpha_pipeline.download import KEY_VARIABLE, DownloadConfig, Vendor, fetch_days
from alpha_pipeline.download.days import CLOSED, FAILED, FETCHED, NOT_YET, PRESENT
from alpha_pipeline.fetch import fetch_market, price_of
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.source import discover
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.paths import Workspace

DAY = "2024-03-06"
FILE = f"TEST-{DAY}.mbp-10.dbn.zst"
NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)
SPEC = InstrumentSpec(name="test", symbols=("TEST",), tick_size="0.25")


def market(count: int = 120) -> list[Msg]:
    """Receive times come in runs of three, so that a stream can break between equal ones."""
    return [Msg(ts=T0 + k // 3 * 10**6, sequence=k, size=k) for k in range(count)]


@pytest.fixture
def vendor_side(tmp_path, monkeypatch):
    folder = tmp_path / "tls"
    folder.mkdir()
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    state = StandIn(market(), date.fromisoformat(DAY))
    with serving(state, folder, lambda path: monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))):
        yield state


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def config(vendor_side):
    return DownloadConfig(
        dataset="GLBX.MDP3",
        symbols=("TEST",),
        gateway=vendor_side.gateway,
        attempts=4,
        first_wait_seconds=2.0,
    )


@pytest.fixture
def fetch(config, pauses, tmp_path):
    def run(days=(DAY,), calendar="24/7", **changes):
        section = replace(config, **changes)
        vendor = Vendor(section, sleep=pauses.append, now=lambda: NOW)
        folder, spec = LocalFolder(tmp_path / "raw"), replace(SPEC, calendar=calendar)
        return list(fetch_days(vendor, section, spec, folder, days))

    return run


@pytest.fixture
def workspace(vendor_side, tmp_path):
    """A workspace with an instrument that is fetched from the stand-in."""
    (tmp_path / "instruments").mkdir()
    (tmp_path / "instruments" / "test.toml").write_text(
        '[instrument]\nname = "test"\nsymbols = ["TEST"]\ntick_size = "0.25"\ncalendar = "24/7"\n\n'
        f'[download]\ndataset = "GLBX.MDP3"\nsymbols = ["TEST"]\ngateway = "{vendor_side.gateway}"\n'
    )
    return Workspace(tmp_path)


def sequences(path):
    return databento.DBNStore.from_file(path).to_ndarray()["sequence"].tolist()


def names(tmp_path, pattern="*"):
    """Files in the folder, locks aside."""
    return sorted(p.name for p in (tmp_path / "raw").glob(pattern) if p.suffix != ".lock")


def test_day_arrives_whole_and_is_found_and_ingested(fetch, vendor_side, tmp_path):
    (result,) = fetch()
    assert (result.outcome, result.detail) == (FETCHED, "120 records")
    assert result.file == FILE
    assert sequences(tmp_path / "raw" / FILE) == list(range(120))
    found = discover(LocalFolder(tmp_path / "raw"), SPEC)
    assert found == {DAY: [tmp_path / "raw" / FILE]}
    assert ingest_day(found[DAY], SPEC, tmp_path / "day").snapshots == 120
    asked = next(r for r in vendor_side.requests if r["call"] == "timeseries.get_range")
    assert (asked["dataset"], asked["symbols"], asked["schema"]) == ("GLBX.MDP3", "TEST", "mbp-10")
    assert fetch()[0].outcome == PRESENT
    assert names(tmp_path) == [FILE]


@pytest.mark.parametrize("politely", [False, True], ids=["closed", "as if whole"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.55, 0.8, 0.99])
def test_broken_stream_goes_on_without_a_record_lost_or_doubled(
    fetch, vendor_side, tmp_path, politely, share
):
    size = len(vendor_side.body(DAY, "2024-03-07"))
    vendor_side.script.append(Break(int(share * size), politely))
    (result,) = fetch()
    assert result.outcome == FETCHED, result.detail
    assert sequences(tmp_path / "raw" / FILE) == list(range(120))
    assert names(tmp_path) == [FILE]


def test_stream_that_breaks_again_and_again_goes_on_from_where_it_was(fetch, vendor_side, tmp_path):
    size = len(vendor_side.body(DAY, "2024-03-07"))
    vendor_side.script.extend([Break(size // 3), Break(size // 3), Break(size // 4)])
    (result,) = fetch()
    assert result.outcome == FETCHED
    assert sequences(tmp_path / "raw" / FILE) == list(range(120))
    starts = [r["start"] for r in vendor_side.requests if r["call"] == "timeseries.get_range"]
    assert len(starts) == 4
    assert len(set(starts)) > 1, "later requests begin later"


def test_stream_that_never_ends_well_publishes_nothing(fetch, vendor_side, pauses, tmp_path):
    vendor_side.script.extend([Break(100)] * 10)
    (result,) = fetch()
    assert result.outcome == FAILED
    assert "the stream broke 4 times in a row: try again later" in result.detail
    assert names(tmp_path) == []
    assert pauses == [2.0, 4.0, 8.0]


def test_wrong_key_is_one_sentence_that_names_the_variable(fetch, monkeypatch, caplog):
    monkeypatch.setenv(KEY_VARIABLE, "db-" + "x" * 29)
    with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as error:
        fetch()
    assert str(error.value) == f"the vendor refuses the key in {KEY_VARIABLE} (401): set a valid one"
    assert "xxxx" not in caplog.text + repr(error.value)


def test_key_is_never_told(fetch, vendor_side, pauses, caplog):
    vendor_side.script.append(Refusal(400, "bad", f"the key {KEY} is odd"))
    with caplog.at_level(logging.DEBUG):
        (result,) = fetch()
    assert "the key *** is odd" in result.detail
    assert KEY not in caplog.text + str(result)


@pytest.mark.parametrize("key", ["two words", "k\u20acy", "a\nb"])
def test_key_that_cannot_be_one_is_refused_without_being_told(config, monkeypatch, key):
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(ConfigError, match=f"{KEY_VARIABLE} holds blanks or letters that no key has") as error:
        Vendor(config)
    assert key not in str(error.value)


def test_missing_key_names_the_variable(config, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(ConfigError, match=f"{KEY_VARIABLE} is not set"):
        Vendor(config)


def test_too_many_requests_wait_as_long_as_the_vendor_says(fetch, vendor_side, pauses):
    vendor_side.script.extend([Refusal(429, headers={"Retry-After": "17"}), Refusal(429)])
    assert fetch()[0].outcome == FETCHED
    assert pauses == [17.0, 4.0], "as named, then doubled from the first wait on"


def test_wait_until_a_date_is_honoured_and_one_that_is_too_long_ends_the_day(fetch, vendor_side, pauses):
    vendor_side.script.append(Refusal(429, headers={"Retry-After": "Sun, 10 Mar 2024 12:00:45 GMT"}))
    assert fetch()[0].outcome == FETCHED
    assert pauses == [45.0]
    vendor_side.script.append(Refusal(429, headers={"Retry-After": "3600"}))
    (result,) = fetch(("2024-03-07",))
    assert result.outcome == FAILED
    assert "asks to wait 3600 s, more than longest_wait_seconds = 300" in result.detail


def test_server_errors_are_tried_again_and_then_given_up(fetch, vendor_side, pauses):
    vendor_side.script.extend([Refusal(503)] * 9)
    (result,) = fetch(longest_wait_seconds=3.0)
    assert (result.outcome, pauses) == (FAILED, [2.0, 3.0, 3.0])
    assert result.detail == "the vendor answered 503 to each of 4 attempts: try again later"


def test_other_refusals_are_told_at_once(fetch, vendor_side, pauses):
    vendor_side.script.append(Refusal(422, "symbology_invalid", "None of the symbols could be resolved"))
    (result,) = fetch()
    assert result.outcome == FAILED
    assert "None of the symbols could be resolved): mend [download]" in result.detail
    assert pauses == []


def test_unreachable_vendor_is_tried_again(config, pauses, tmp_path):
    section = replace(config, gateway="https://localhost:9")
    vendor = Vendor(section, sleep=pauses.append)
    with pytest.raises(DataError, match=r"the vendor was not reached .* to each of 4 attempts"):
        vendor.available_end()
    assert pauses == [2.0, 4.0, 8.0]


def test_partial_day_is_never_published(fetch, vendor_side, tmp_path):
    vendor_side.available_until = f"{DAY}T17:00:00.123456789Z"
    (result,) = fetch()
    assert result.outcome == NOT_YET
    assert "2024-03-06T17:00:00" in result.detail
    vendor_side.available_until = "2024-03-09T00:00:00Z"
    vendor_side.script.append(
        Refusal(422, "data_end_after_available_end", "the end lies behind the available end")
    )
    (result,) = fetch()
    assert result.outcome == NOT_YET
    assert names(tmp_path) == []
    assert fetch()[0].outcome == FETCHED


def test_day_that_the_vendor_calls_pending_is_not_published_and_a_degraded_one_is_told(
    fetch, vendor_side, tmp_path
):
    text = "The streaming request contained one or more days which have reduced quality: "
    vendor_side.script.append(Warned((f"BentoWarning: {text}{DAY} (pending)",)))
    (result,) = fetch()
    assert (result.outcome, result.detail) == (NOT_YET, f"{text}{DAY} (pending)")
    assert names(tmp_path) == []
    vendor_side.script.append(Warned((f"BentoWarning: {text}{DAY} (degraded)",)))
    (result,) = fetch()
    assert result.outcome == FETCHED
    assert result.detail == f"120 records; the vendor warns: {text}{DAY} (degraded)"


def test_stream_whose_times_go_back_begins_anew_when_it_breaks(fetch, vendor_side, tmp_path):
    vendor_side.records[40], vendor_side.records[80] = vendor_side.records[80], vendor_side.records[40]
    vendor_side.script.append(Break(int(0.8 * len(vendor_side.body(DAY, "2024-03-07")))))
    assert fetch()[0].outcome == FETCHED
    expected = [record.sequence for record in vendor_side.records]
    assert sequences(tmp_path / "raw" / FILE) == expected
    starts = [r["start"] for r in vendor_side.requests if r["call"] == "timeseries.get_range"]
    assert starts == [DAY, DAY]


def test_day_whose_file_has_the_vendor_s_own_name_is_not_fetched_again(fetch, tmp_path):
    write(tmp_path / "raw" / "glbx-mdp3-20240306.mbp-10.dbn.zst", market())
    (result,) = fetch()
    assert (result.outcome, result.file) == (PRESENT, "glbx-mdp3-20240306.mbp-10.dbn.zst")


def test_two_who_fetch_a_day_at_once_pay_for_it_once(fetch, vendor_side, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / f".{FILE}.part0.tmp").write_bytes(b"left by a killed process")
    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(lambda _: fetch()[0].outcome, range(2)))
    assert outcomes == [FETCHED, PRESENT]
    assert len([r for r in vendor_side.requests if r["call"] == "timeseries.get_range"]) == 1
    assert names(tmp_path) == [FILE]


def test_dates_without_a_session_are_not_asked_for(fetch, vendor_side):
    vendor_side.available_until = "2024-12-31T00:00:00Z"
    results = fetch(("2024-03-08", "2024-03-09", "2024-03-10"), calendar="CMES")
    assert [r.outcome for r in results] == [FETCHED, CLOSED, FETCHED], "Sunday evening is a session"
    asked = [r["start"] for r in vendor_side.requests if r["call"] == "timeseries.get_range"]
    assert not any("2024-03-09" in start for start in asked)


def test_day_without_records_is_an_explicit_empty_day(fetch, vendor_side, tmp_path):
    vendor_side.records = []
    (result,) = fetch()
    assert (result.outcome, result.detail) == (FETCHED, "0 records")
    report = ingest_day([tmp_path / "raw" / result.file], SPEC, tmp_path / "day")
    assert (report.status, report.snapshots) == ("empty", 0)


def test_one_failing_day_does_not_stop_the_next(fetch, vendor_side):
    vendor_side.script.append(Refusal(400))
    results = fetch((DAY, "2024-03-07"))
    assert [r.outcome for r in results] == [FAILED, FETCHED]


def test_command_fetches_into_the_folder_of_the_instrument(workspace):
    assert price_of("test", workspace, DAY, "2024-03-07") == {"days": 2, "dollars": 2.5}
    (result,) = fetch_market("test", workspace, DAY, DAY)
    assert result.file == FILE
    assert (workspace.raw("test") / FILE).exists()
    assert price_of("test", workspace, DAY, "2024-03-07") == {"days": 1, "dollars": 1.25}
    with pytest.raises(ConfigError, match="--start and --end were 'x' and"):
        list(fetch_market("test", workspace, "x", DAY))
    with pytest.raises(ConfigError, match="must not lie before --start"):
        list(fetch_market("test", workspace, DAY, "2024-03-05"))


def test_a_person_can_launch_the_download_of_a_span_of_days(workspace):
    job = build_defs(workspace, ["test"]).resolve_job_def("test_download")
    config = {"ops": {"test_fetch": {"config": {"first": DAY, "last": DAY}}}}
    with dg.instance_for_test() as instance:
        done = job.execute_in_process(run_config=config, instance=instance)
        records = instance.all_logs(done.run_id)
        assert records
        assert KEY not in repr(records) + repr(instance.get_run_by_id(done.run_id))
    assert done.success
    assert done.output_for_node("test_fetch") == {DAY: FETCHED}
    assert (workspace.raw("test") / FILE).exists()


def test_shipped_section_is_sound_and_bad_ones_list_all_problems():
    section = load("es", Workspace.locate()).download
    assert (section.dataset, section.schema) == ("GLBX.MDP3", "mbp-10")
    with pytest.raises(
        ConfigError, match=r"dataset was 'x'.*symbols was \(\).*schema was 'mbp-1'.*attempts was 0"
    ):
        DownloadConfig(dataset="x", symbols=(), schema="mbp-1", attempts=0)
