"""A failing day blocks what lies behind it and no other day; an empty day is a fact. Through every way to run days."""

import json
import os
import shutil
import subprocess
import sys

import dagster as dg
import pytest
import tiny_market
from dbn_builder import Msg, header, write
from tiny_market import DAY_STAGES, NAME, day, file_of

from alpha_pipeline.definitions import build_defs
from alpha_pipeline.paths import PROJECT, Workspace
from alpha_pipeline.report.html import ReportInputs, page
from alpha_pipeline.run import run_market, standings_of
from alpha_pipeline.sqlite import cheap_commits
from alpha_pipeline.stages.base import Days
from alpha_pipeline.stages.judged_days import all_days, report_section, write_page

GOOD, HOLIDAY, STRANGER, SHORT, LAST, UNREAD = (day(index) for index in range(6))
STRICT = tiny_market.CONFIG + "\n[quality]\nmin_rows = 2900\n"
RELAXED = tiny_market.CONFIG + "\n[quality]\nmin_rows = 2000\n"
SENTENCE = "rejected by data_quality: snapshots with a good book: 2500, must be at least 2900"


@pytest.fixture(autouse=True, scope="module")
def own_tracking_store():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """Five days with files: two good ones, one without records, one of another instrument's, one that is too short."""
    root = tmp_path_factory.mktemp("judged")
    workspace = tiny_market.make_workspace(root / "workspace", days=5, config=STRICT)
    raw = workspace.raw(NAME)
    write(file_of(raw, 1), [], head=header({"TINY": 1}))
    others = [Msg(instrument_id=2, sequence=k) for k in range(50)]
    write(file_of(raw, 2), others, head=header({"TINY": 1, "ELSE": 2}))
    shutil.copy(tiny_market.write_days(root / "short", 4, events=2500)[3], file_of(raw, 3))
    return workspace


@pytest.fixture(scope="module")
def judged(market):
    """The same market once run. Gives (workspace, outcome)."""
    return market, run_market(NAME, market, raw=None, until="fxcache", say=lambda _: None)


def statuses(workspace, stage):
    store = tiny_market.scope(workspace).store
    return {key: store.get(stage, key).status for key in store.partitions(stage)}


def test_failing_day_fails_alone_and_the_others_go_on(judged):
    workspace, outcome = judged
    assert {key: why.split(";")[0] for key, why in outcome.launched.failed.items()} == {SHORT: SENTENCE}
    assert statuses(workspace, "data_quality") == {
        GOOD: "ok",
        HOLIDAY: "empty",
        STRANGER: "empty",
        SHORT: "rejected",
        LAST: "ok",
    }
    assert statuses(workspace, "fxcache") == {GOOD: "ok", HOLIDAY: "empty", STRANGER: "empty", LAST: "ok"}


def test_status_lists_the_blocked_day_with_its_sentence_and_nothing_as_stale(judged):
    workspace, _ = judged
    told = standings_of(NAME, workspace, raw=None)
    assert {key: why.split(";")[0] for key, why in told.rejected.items()} == {SHORT: SENTENCE}
    assert {entry.partition for entry in told.stale} == {"all"}


def test_empty_days_are_no_trading_days(judged):
    scope = tiny_market.scope(judged[0])
    assert scope.days(Days.ALL) == [GOOD, LAST]
    assert (scope.days(Days.IN_SAMPLE), scope.days(Days.OUT_OF_SAMPLE)) == ([GOOD], [LAST])
    for key in (HOLIDAY, STRANGER):
        assert scope.store.get("fxcache", key).result["metrics"]["rows"] == 0


def test_day_behind_empty_and_rejected_ones_is_the_day_built_alone(judged, tmp_path):
    """No average, and nothing else, is carried from one day into the next."""
    workspace, _ = judged
    alone = Workspace(tmp_path)
    tiny_market.configure(alone, STRICT)
    alone.raw(NAME).mkdir(parents=True)
    shutil.copy(file_of(workspace.raw(NAME), 4), alone.raw(NAME))
    built = tiny_market.build_day(alone, LAST)
    ours = tiny_market.scope(workspace).store.get("fxcache", LAST)
    assert built["fxcache"].digest == ours.digest


def test_report_and_page_show_every_day_for_what_it_is(judged, tmp_path):
    scope = tiny_market.scope(judged[0])
    section = report_section(scope)
    assert {row.label: row.note for row in section.heat.rows} == {
        GOOD: "",
        HOLIDAY: "empty",
        STRANGER: "empty",
        SHORT: "rejected",
        LAST: "",
    }
    text = page(ReportInputs(title="t", instrument=NAME, verdict=None, sections=[section]))
    body = text[text.index("<body>") : text.index("<script")]
    assert "snapshots with a good book: 2500, must be at least 2900" in body
    assert f'href="#day-{SHORT}"' in body
    assert f'href="#day-{GOOD}"' not in body, "the report details only what does not simply hold"
    alone = write_page(scope, all_days(scope, {}), tmp_path / "data_quality.html").read_text()
    assert alone.count('<details class="detail"') == 5


def test_day_whose_file_cannot_be_read_is_on_the_page_too(judged, tmp_path):
    workspace = tiny_market.copy_of(judged[0], tmp_path / "copy")
    file_of(workspace.raw(NAME), 5).write_bytes(b"a text, whatever its name says")
    outcome = run_market(NAME, workspace, raw=None, until="fxcache", say=lambda _: None)
    assert set(outcome.launched.failed) == {SHORT, UNREAD}
    assert {d.day: d.status for d in all_days(tiny_market.scope(workspace), {})}[UNREAD] == "not judged"
    told = command(workspace, "quality", "--instrument", NAME, "--json", "--html", str(tmp_path / "q.html"))
    assert [entry["status"] for entry in json.loads(told.stdout)] == [
        "ok",
        "empty",
        "empty",
        "rejected",
        "ok",
        "not judged",
    ]
    assert (tmp_path / "q.html").stat().st_size > 10_000
    status = command(workspace, "status", "--instrument", NAME)
    assert f"{SHORT}: {SENTENCE}" in status.stdout


def command(workspace, *words):
    code = "from alpha_pipeline.cli import main; main()"
    environment = os.environ | {"ALPHA_HOME": str(workspace.root), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_relaxed_threshold_builds_exactly_that_day(judged, tmp_path):
    workspace = tiny_market.copy_of(judged[0], tmp_path / "copy")
    before = {key: tiny_market.scope(workspace).store.get("fxcache", key).path for key in (GOOD, LAST)}
    tiny_market.configure(workspace, RELAXED)
    healed = run_market(NAME, workspace, raw=None, until="fxcache", say=lambda _: None)
    assert healed.launched.failed == {}
    assert [entry for entry in healed.launched.built if entry[0] != "data_quality"] == [("fxcache", SHORT)]
    store = tiny_market.scope(workspace).store
    assert {key: store.get("fxcache", key).path for key in (GOOD, LAST)} == before
    assert tiny_market.scope(workspace).usable_days() == [GOOD, SHORT, LAST]


def test_job_of_the_orchestrator_stops_behind_the_failing_day_only(market, tmp_path):
    """As the page and the sensors run days: one run of the day job for each."""
    workspace = Workspace(tmp_path)
    tiny_market.configure(workspace, STRICT)
    shutil.copytree(market.raw(NAME), workspace.raw(NAME))
    job = build_defs(workspace, [NAME]).resolve_job_def(f"{NAME}_days")
    days, quality = [GOOD, SHORT, LAST], dg.AssetKey([NAME, "data_quality"])
    quiet = {"loggers": {"progress": {}}}
    home = str(workspace.prepared_dagster_home())
    with cheap_commits(), dg.DagsterInstance.from_config(home) as instance:
        instance.add_dynamic_partitions(f"{NAME}_days", days)
        ended = {
            key: job.execute_in_process(quiet, instance=instance, partition_key=key, raise_on_error=False)
            for key in days
        }
        cached = instance.get_materialized_partitions(dg.AssetKey([NAME, "fxcache"]))
        check = dg.AssetCheckKey(quality, "good_rows")
        answers = instance.event_log_storage.get_asset_check_execution_history(check, limit=3)
        shown = instance.get_latest_materialization_event(quality).asset_materialization.metadata
    assert {key: result.success for key, result in ended.items()} == {GOOD: True, SHORT: False, LAST: True}
    assert cached == {GOOD, LAST}
    assert {answer.partition: answer.status.value for answer in answers} == {
        GOOD: "SUCCEEDED",
        SHORT: "FAILED",
        LAST: "SUCCEEDED",
    }
    assert shown["ingest_report"].value["records_read"] > 3000
    for name in ("minutes", "silences", "books", "spreads"):
        assert shown[name].value.startswith(f"![{name}](data:image/png;base64,")


def test_every_day_stage_ran_or_was_held_back(judged):
    built = judged[1].launched.built
    assert sorted(stage for stage, key in built if key == SHORT) == sorted(DAY_STAGES[:3])
    assert sorted(stage for stage, key in built if key == HOLIDAY) == sorted(DAY_STAGES)
