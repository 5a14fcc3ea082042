"""Days from the vendor through the official client: whole or not at all, whatever the line does."""

import logging
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import databento
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ingest"))

from dbn_builder import T0, Msg
from vendor_stand_in import KEY, Break, Refusal, StandIn, serving

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
        vendor = Vendor(section, sleep=pauses.append)
        return list(fetch_days(vendor, section, calendar, tmp_path / "raw", days))

    return run


def sequences(path):
    return databento.DBNStore.from_file(path).to_ndarray()["sequence"].tolist()


def leftovers(tmp_path):
    return (
        [p for p in (tmp_path / "raw").iterdir() if p.name.startswith(".")]
        if (tmp_path / "raw").exists()
        else []
    )


def test_day_arrives_whole_and_is_found_and_ingested(fetch, vendor_side, tmp_path):
    (result,) = fetch()
    assert (result.outcome, result.detail) == (FETCHED, "120 records")
    assert result.file.name == "glbx-mdp3-20240306.mbp-10.dbn.zst"
    assert sequences(result.file) == list(range(120))
    found = discover(LocalFolder(tmp_path / "raw"), SPEC)
    assert found == {DAY: [result.file]}
    assert ingest_day(found[DAY], SPEC, tmp_path / "day").snapshots == 120
    asked = next(r for r in vendor_side.requests if r["call"] == "timeseries.get_range")
    assert (asked["dataset"], asked["symbols"], asked["schema"]) == ("GLBX.MDP3", "TEST", "mbp-10")
    assert fetch()[0].outcome == PRESENT
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("politely", [False, True], ids=["closed", "as if whole"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.55, 0.8, 0.99])
def test_broken_stream_goes_on_without_a_record_lost_or_doubled(
    fetch, vendor_side, tmp_path, politely, share
):
    size = len(vendor_side.body(DAY, "2024-03-07"))
    vendor_side.script.append(Break(int(share * size), politely))
    (result,) = fetch()
    assert result.outcome == FETCHED, result.detail
    assert sequences(result.file) == list(range(120))
    assert leftovers(tmp_path) == []


def test_stream_that_breaks_again_and_again_goes_on_from_where_it_was(fetch, vendor_side):
    size = len(vendor_side.body(DAY, "2024-03-07"))
    vendor_side.script.extend([Break(size // 3), Break(size // 3), Break(size // 4)])
    (result,) = fetch()
    assert result.outcome == FETCHED
    assert sequences(result.file) == list(range(120))
    starts = [r["start"] for r in vendor_side.requests if r["call"] == "timeseries.get_range"]
    assert len(starts) == 4
    assert len(set(starts)) > 1, "later requests begin later"


def test_stream_that_never_ends_well_publishes_nothing(fetch, vendor_side, tmp_path):
    vendor_side.script.extend([Break(700)] * 10)
    (result,) = fetch()
    assert result.outcome == FAILED
    assert "the stream broke 4 times: try again later" in result.detail
    assert list((tmp_path / "raw").iterdir()) == []


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


def test_missing_key_names_the_variable(config, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(ConfigError, match=f"{KEY_VARIABLE} is not set"):
        Vendor(config)


def test_too_many_requests_wait_as_long_as_the_vendor_says(fetch, vendor_side, pauses):
    vendor_side.script.extend([Refusal(429, headers={"Retry-After": "17"}), Refusal(429)])
    assert fetch()[0].outcome == FETCHED
    assert pauses == [17.0, 4.0], "as named, then doubled from the first wait on"


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
    assert not (tmp_path / "raw").exists() or list((tmp_path / "raw").iterdir()) == []
    assert fetch()[0].outcome == FETCHED


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
    report = ingest_day([result.file], SPEC, tmp_path / "day")
    assert (report.status, report.snapshots) == ("empty", 0)


def test_one_failing_day_does_not_stop_the_next(fetch, vendor_side):
    vendor_side.script.append(Refusal(400))
    results = fetch((DAY, "2024-03-07"))
    assert [r.outcome for r in results] == [FAILED, FETCHED]


def test_command_fetches_into_the_folder_of_the_instrument(vendor_side, tmp_path):
    workspace = Workspace(tmp_path)
    (tmp_path / "instruments").mkdir()
    section = f'dataset = "GLBX.MDP3"\nsymbols = ["TEST"]\ngateway = "{vendor_side.gateway}"\n'
    text = (
        '[instrument]\nname = "test"\nsymbols = ["TEST"]\ntick_size = "0.25"\ncalendar = "24/7"\n\n[download]\n'
        + section
    )
    (tmp_path / "instruments" / "test.toml").write_text(text)
    assert price_of("test", workspace, DAY, "2024-03-07") == {"days": 2, "dollars": 2.5}
    (result,) = fetch_market("test", workspace, DAY, DAY)
    assert result.file == workspace.raw("test") / "glbx-mdp3-20240306.mbp-10.dbn.zst"
    with pytest.raises(ConfigError, match="--start and --end were 'x' and"):
        list(fetch_market("test", workspace, "x", DAY))
    with pytest.raises(ConfigError, match="must not lie before --start"):
        list(fetch_market("test", workspace, DAY, "2024-03-05"))


def test_a_person_can_launch_the_download_of_a_span_of_days(vendor_side, tmp_path):
    workspace = Workspace(tmp_path)
    (tmp_path / "instruments").mkdir()
    section = f'dataset = "GLBX.MDP3"\nsymbols = ["TEST"]\ngateway = "{vendor_side.gateway}"\n'
    text = (
        '[instrument]\nname = "test"\nsymbols = ["TEST"]\ntick_size = "0.25"\ncalendar = "24/7"\n\n[download]\n'
        + section
    )
    (tmp_path / "instruments" / "test.toml").write_text(text)
    job = build_defs(workspace, ["test"]).resolve_job_def("test_download")
    config = {"ops": {"test_fetch": {"config": {"first": DAY, "last": DAY}}}}
    with dg.instance_for_test() as instance:
        done = job.execute_in_process(run_config=config, instance=instance)
    assert done.success
    assert done.output_for_node("test_fetch") == {DAY: FETCHED}
    assert (workspace.raw("test") / "glbx-mdp3-20240306.mbp-10.dbn.zst").exists()


def test_shipped_section_is_sound_and_bad_ones_list_all_problems():
    section = load("es", Workspace.locate()).download
    assert section.file_name("2024-01-31") == "glbx-mdp3-20240131.mbp-10.dbn.zst"
    with pytest.raises(
        ConfigError, match=r"dataset was 'x'.*symbols was \(\).*schema was 'mbp-1'.*attempts was 0"
    ):
        DownloadConfig(dataset="x", symbols=(), schema="mbp-1", attempts=0)
