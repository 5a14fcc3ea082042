"""Raw files to cached days through the real orchestrator and the real tracking store, on a tiny market."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import tiny_market
from mlflow.tracking import MlflowClient
from tiny_market import DAY_STAGES, NAME, day, file_of

from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.ingest.quality import RULES
from alpha_pipeline.paths import PROJECT
from alpha_pipeline.run import run_market
from alpha_pipeline.stages import STAGES
from alpha_pipeline.tracking import default_uri

DAYS = [day(0), day(1)]
EVERYTHING = sorted((stage, key) for stage in DAY_STAGES for key in DAYS)


@pytest.fixture(autouse=True, scope="module")
def own_tracking_store():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield


def run(workspace, until="fxcache"):
    lines = []
    outcome = run_market(NAME, workspace, raw=None, until=until, say=lines.append)
    return outcome, lines


def fresh_process(workspace, code, path=None):
    """Run Python against a workspace in a process of its own; `path` goes before the installed packages."""
    environment = {**os.environ, "ALPHA_HOME": str(workspace.root)}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=workspace.root, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two days run once; the workspace is not to be changed. Gives (workspace, outcome, lines of progress)."""
    workspace = tiny_market.make_workspace(tmp_path_factory.mktemp("days"), days=2)
    return workspace, *run(workspace)


@pytest.fixture
def copied(built, tmp_path):
    """A copy of it to change. Its databases name the old paths, which only links shown to people use."""
    return tiny_market.copy_of(built[0], tmp_path / "copy")


@pytest.fixture(scope="module")
def instance(built):
    with dg.DagsterInstance.from_config(str(built[0].dagster_home)) as found:
        yield found


@pytest.fixture(scope="module")
def runs(built):
    """All MLflow runs of the workspace."""
    client = MlflowClient(default_uri(built[0].dagster_home))
    return client.search_runs([client.get_experiment_by_name("alpha").experiment_id])


def test_everything_was_built_and_told(built):
    _, outcome, lines = built
    assert sorted(outcome.launched.built) == EVERYTHING
    assert not outcome.launched.fresh
    assert not outcome.launched.failed
    assert (outcome.exit_code, outcome.verdict, outcome.report) == (0, None, None)
    assert lines[0].startswith("tiny: 2 days in ")
    assert lines[1].startswith(f"1/2 {day(0)}: built mbp10_snapshots, trades, data_quality, fxcache in ")


def test_every_artifact_is_published_whole(built):
    scope = tiny_market.scope(built[0])
    for stage in DAY_STAGES:
        assert scope.store.partitions(stage) == DAYS
        for key in DAYS:
            artifact = scope.store.get(stage, key)
            assert artifact.status == "ok"
            assert artifact.result["status"] == "ok"
            assert [p.name for p in artifact.path.parent.glob("attempt-*")] == [artifact.path.name]


def test_cached_rows_are_every_second_event(built):
    scope = tiny_market.scope(built[0])
    for key in DAYS:
        cached = open_day(scope.store.get("fxcache", key).path / "fxcache.arrow", verify="full")
        snapshots = scope.store.get("mbp10_snapshots", key).result["metrics"]["rows"]
        assert snapshots == 3000
        assert cached.rows == 1500
        assert cached.features.shape == (1500, 40)


def test_instance_knows_partitions_runs_and_materializations(built, instance):
    assert sorted(instance.get_dynamic_partitions("tiny_days")) == DAYS
    runs = instance.get_runs()
    assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS] * 2
    assert len({run.tags["alpha/pipeline_run"] for run in runs}) == 1
    scope = tiny_market.scope(built[0])
    for stage in STAGES[:4]:
        key = dg.AssetKey([NAME, stage.name])
        assert instance.get_materialized_partitions(key) == set(DAYS)
        event = instance.get_latest_materialization_event(key).asset_materialization
        artifact = scope.store.get(stage.name, event.partition)
        assert event.tags["dagster/data_version"] == artifact.digest
        assert event.tags["dagster/code_version"] == artifact.stamp.code
        assert event.tags["alpha/stamp"] == artifact.stamp.version
        assert instance.get_run_by_id(artifact.info["dagster_run_id"]).is_success


def test_metadata_can_be_read_by_a_person(built, instance):
    shown = {
        stage: instance.get_latest_materialization_event(
            dg.AssetKey([NAME, stage])
        ).asset_materialization.metadata
        for stage in DAY_STAGES
    }
    assert shown["mbp10_snapshots"]["dagster/row_count"].value == 3000
    assert shown["fxcache"]["dagster/row_count"].value == 1500
    assert shown["fxcache"]["mid"].value.startswith("![mid](data:image/")
    rules = shown["data_quality"]["rules"]
    assert {"check", "passed", "figure", "threshold"} <= {column.name for column in rules.schema.columns}
    assert len(rules.records) == len(RULES)
    for metadata in shown.values():
        assert metadata["mlflow"].value.startswith("http://127.0.0.1:5000/#/experiments/")
        assert Path(metadata["files"].value).is_dir()
        assert set(metadata["provenance"].value) == {"code", "config", "inputs"}
        assert "| metric | value |" in metadata["metrics"].value


def test_checks_are_recorded_with_figure_and_threshold(instance):
    for stage in STAGES[:4]:
        for name, blocking in stage.checks.items():
            key = dg.AssetCheckKey(dg.AssetKey([NAME, stage.name]), name)
            (record, *_) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
            evaluation = record.event.dagster_event.asset_check_evaluation_data
            assert evaluation.passed
            assert evaluation.severity == (
                dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN
            )
            assert evaluation.description
            assert "figure" in evaluation.metadata


def test_tracking_store_holds_one_parent_and_a_child_for_each_stage_and_day(built, runs):
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if run is not parent]
    assert parent.data.tags["instrument"] == NAME
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    found = sorted((run.data.tags["alpha.stage"], run.data.tags["dagster.partition"]) for run in children)
    assert found == EVERYTHING


def test_child_run_carries_parameters_metrics_and_where_it_came_from(built, runs):
    scope = tiny_market.scope(built[0])
    for run in runs:
        if run.data.tags.get("alpha.stage") != "fxcache":
            continue
        artifact = scope.store.get("fxcache", run.data.tags["dagster.partition"])
        assert run.data.metrics["rows"] == 1500
        assert run.data.params["version"] == str(layout.FXCACHE_VERSION)
        assert run.data.tags["digest"] == artifact.digest
        assert run.data.tags["dagster.run_id"] == artifact.info["dagster_run_id"]
        assert run.data.tags["dagster.asset_key"] == "tiny/fxcache"
        assert run.data.tags["git.revision"]
        assert run.data.tags["checks_failed"] == ""


SECOND_RUN = f"""
import json, sys
from alpha_pipeline.ingest.quality import RULES
from alpha_pipeline.paths import Workspace
from alpha_pipeline.run import run_market
outcome = run_market("{NAME}", Workspace.locate(), raw=None, until="fxcache", say=lambda _: None)
heavy = [name for name in ("dagster", "mlflow", "numba", "databento") if name in sys.modules]
print(json.dumps([outcome.exit_code, outcome.to_dict()["built"], outcome.to_dict()["fresh"], heavy]))
"""


def test_second_run_finds_all_up_to_date_without_loading_the_orchestrator(built):
    exit_code, done, fresh, heavy = fresh_process(built[0], SECOND_RUN)
    assert (exit_code, done, heavy) == (0, [], [])
    assert sorted(map(tuple, fresh)) == EVERYTHING


def test_corrupt_file_fails_its_day_and_a_repair_heals_it(copied):
    path = file_of(copied.raw(NAME), 1)
    whole = path.read_bytes()
    path.write_bytes(b"this is a text, whatever its name says")
    tiny_market.write_days(copied.raw(NAME), 1, events=2500)
    outcome, lines = run(copied)
    sentence = outcome.launched.failed[day(1)]
    assert sentence.startswith(
        f"{path} is not a DBN file: byte 0 of the stream begins b'this is ' instead of b'DBN'"
    )
    assert "\n" not in sentence
    assert outcome.exit_code == 1
    assert sorted(outcome.launched.built) == sorted((stage, day(0)) for stage in DAY_STAGES)
    assert f"2/2 {day(1)}: FAILED, {sentence}" in lines
    assert f"failed {day(1)}: {sentence}" in outcome.text()
    scope = tiny_market.scope(copied)
    assert scope.store.get("fxcache", day(0)).result["metrics"]["rows"] == 1250
    assert len(list((scope.store.root / "mbp10_snapshots" / day(1)).glob("attempt-*"))) == 1

    path.write_bytes(whole)
    outcome, _ = run(copied)
    assert outcome.launched.failed == {}
    assert outcome.exit_code == 0
    assert outcome.launched.built == []  # the artifacts in force were made from these very bytes


def test_rejected_day_is_told_with_figures_each_time_until_it_is_mended(copied):
    """A cut file can be read so far as it goes, and is refused by the quality checks."""
    path = file_of(copied.raw(NAME), 1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    outcome, _ = run(copied)
    sentence = outcome.launched.failed[day(1)]
    assert sentence.startswith(
        "rejected by data_quality: files that end inside a record or a compressed frame: 1, must be at most 0"
    )
    assert sentence.endswith("; mend the input or the thresholds")
    assert "Dagster" not in sentence
    assert sorted(outcome.launched.built) == sorted((stage, day(1)) for stage in DAY_STAGES[:3])
    assert outcome.exit_code == 1
    assert tiny_market.scope(copied).usable_days() == [day(0)]

    again, lines = run(copied)
    assert again.launched.failed == {day(1): sentence}
    assert again.launched.built == []
    assert ("fxcache", day(1)) not in again.launched.fresh
    assert again.exit_code == 1
    assert len(lines) == 1

    path.write_bytes(whole)
    healed, _ = run(copied)
    assert sorted(healed.launched.built) == sorted((stage, day(1)) for stage in DAY_STAGES)
    assert healed.exit_code == 0
    assert tiny_market.scope(copied).usable_days() == DAYS


RAISED = f"""
import json
from alpha_pipeline.ingest.quality import RULES
from alpha_pipeline.paths import Workspace
from alpha_pipeline.run import run_market
print(json.dumps(run_market("{NAME}", Workspace.locate(), raw=None, until="fxcache", say=print).to_dict()))
"""


def test_newer_cache_version_rebuilds_caches_and_nothing_upstream(copied, monkeypatch):
    monkeypatch.setattr(layout, "FXCACHE_VERSION", layout.FXCACHE_VERSION + 1)
    outcome, _ = run(copied)
    assert outcome.launched.failed == {}
    assert outcome.launched.built == [("fxcache", key) for key in DAYS]
    assert sorted(outcome.launched.fresh) == [e for e in EVERYTHING if e[0] != "fxcache"]


@pytest.mark.slow
def test_raised_cache_version_is_written_and_read(copied, tmp_path):
    """The real constant in a copy of the code, as a developer would raise it."""
    for package in ("alpha_core", "alpha_pipeline"):
        shutil.copytree(PROJECT / package, tmp_path / "code" / package)
    source = tmp_path / "code" / "alpha_pipeline" / "fxcache" / "format.py"
    text = source.read_text()
    now = f"FXCACHE_VERSION = {layout.FXCACHE_VERSION}\n"
    assert text.count(now) == 1
    source.write_text(text.replace(now, f"FXCACHE_VERSION = {layout.FXCACHE_VERSION + 1}\n"))
    outcome = fresh_process(copied, RAISED, path=tmp_path / "code")
    assert outcome["failed"] == {}
    assert outcome["built"] == [["fxcache", key] for key in DAYS]
    assert sorted(map(tuple, outcome["fresh"])) == [e for e in EVERYTHING if e[0] != "fxcache"]
    for key in DAYS:
        artifact = tiny_market.scope(copied).store.get("fxcache", key)
        assert artifact.result["params"]["version"] == layout.FXCACHE_VERSION + 1
        assert artifact.stamp.code.startswith(f"{layout.FXCACHE_VERSION + 1}-")


def test_simulated_market_is_written_once_and_again_when_spoiled(tmp_path):
    config = tiny_market.CONFIG + '\n[simulator]\nsymbol = "TINY"\ndays = 2\nevents_per_day = 1500\n'
    workspace = tiny_market.make_workspace(tmp_path, days=1, config=config)
    folder = workspace.raw(NAME)
    (folder / "TINY-2020-01-01.mbp-10.dbn.zst").write_bytes(b"of another market")
    outcome, lines = run(workspace, until="mbp10_snapshots")
    assert lines[0] == f"simulating 2 days of tiny into {folder}"
    assert sorted(outcome.launched.built) == [("mbp10_snapshots", key) for key in DAYS]
    first = file_of(folder, 0).read_bytes()
    file_of(folder, 0).write_bytes(b"spoiled")
    again, lines = run(workspace, until="mbp10_snapshots")
    assert lines[0] == f"simulating 2 days of tiny into {folder}"
    assert file_of(folder, 0).read_bytes() == first
    assert again.launched.built == []
    _, lines = run(workspace, until="mbp10_snapshots")
    assert lines == [f"tiny: 2 days in {folder}"]


@pytest.mark.parametrize(
    "moment",
    [f"  {day(1)}: 3000 snapshots", pytest.param(f"1/3 {day(0)}: built", marks=pytest.mark.slow)],
)
def test_interrupted_run_stops_at_once_and_goes_on_where_it_was(tmp_path, moment):
    """Inside a step, and between two days."""
    workspace = tiny_market.make_workspace(tmp_path, days=3)
    alpha = subprocess.Popen(
        [Path(sys.executable).with_name("alpha"), "run", "--instrument", NAME, "--until", "fxcache"],
        env={**os.environ, "ALPHA_HOME": str(workspace.root)},
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    for line in alpha.stderr:
        lines.append(line.rstrip())
        if line.startswith(moment):
            alpha.send_signal(signal.SIGINT)
    assert alpha.wait() == 130
    assert lines[-1] == "interrupted; what was built stays, run again to go on"
    store = tiny_market.scope(workspace).store
    for attempt in store.root.glob("*/*/attempt-*"):
        assert store.get(attempt.parent.parent.name, attempt.parent.name).path == attempt
    assert store.partitions("fxcache") == [day(0)]
    outcome, _ = run(workspace)
    assert outcome.exit_code == 0
    assert [entry for entry in outcome.launched.fresh if entry[0] == "fxcache"] == [("fxcache", day(0))]
    assert store.partitions("fxcache") == [day(index) for index in range(3)]
