"""MLflow runs: what is written can be read back, and what must not be written is not."""

import json
import math
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import plotly.graph_objects as go
import polars as pl
import pytest
import torch
from mlflow.entities import Metric
from safetensors.torch import load_file, save_file

from alpha_core.errors import ConfigError, DataError
from alpha_pipeline.results import Check, StageResult
from alpha_pipeline.tracking import RunHandle, StageTags, Tracker, TrackingError, default_uri

WORKER = """
import sys, time
from pathlib import Path
from alpha_pipeline.tracking import Tracker, StageTags
home, number = Path(sys.argv[1]), sys.argv[2]
tracker = Tracker(f"sqlite:///{home}/mlflow.db", home / "artifacts")
Path(home / f"ready{number}").touch()
while len(list(home.glob("ready*"))) < 4:
    time.sleep(0.001)
parent = tracker.parent_for("nightly", "nightly")
with tracker.stage_run(parent.run_id, "cell", StageTags(partition=number)) as run:
    for step in range(20):
        run.log_metrics({f"m{i}": i + step for i in range(10)}, step)
"""


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    home = tmp_path_factory.mktemp("home")
    return Tracker(f"sqlite:///{home}/mlflow.db", home / "artifacts")


@pytest.fixture
def run(tracker: Tracker) -> Iterator[RunHandle]:
    yield tracker.pipeline_run("test")


def stored(tracker: Tracker, run_id: str):
    return tracker.store.client.get_run(run_id)


def artifact(tracker: Tracker, handle: RunHandle, name: str) -> Path:
    root = stored(tracker, handle.run_id).info.artifact_uri.removeprefix("file://")
    return Path(root) / name


def history(tracker: Tracker, run_id: str, name: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in tracker.store.client.get_metric_history(run_id, name)]


def test_four_processes_share_a_store_that_does_not_exist_yet(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    workers = [
        subprocess.Popen([*command, str(n)], env=environment, stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    for worker in workers:
        _, error = worker.communicate(timeout=120)
        assert worker.returncode == 0, error
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts")
    runs = tracker.store.client.search_runs([tracker.store.experiment_id])
    parents = [run for run in runs if "alpha.pipeline_run" in run.data.tags]
    children = [run for run in runs if "alpha.stage" in run.data.tags]
    assert len(parents) == 1
    assert sorted(run.data.tags["dagster.partition"] for run in children) == list("0123")
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    for child in children:
        assert history(tracker, child.info.run_id, "m3") == [(s, 3.0 + s) for s in range(20)]


def test_a_run_opened_by_its_pipeline_is_found_and_its_stages_do_not_close_it(tracker):
    with tracker.pipeline_run("demo", pipeline_id="abc") as parent:
        found = tracker.parent_for("abc", "other")
        assert found.run_id == parent.run_id
        with tracker.stage_run(found.run_id, "fxcache"):
            pass
        assert stored(tracker, parent.run_id).info.status == "RUNNING"
    assert stored(tracker, parent.run_id).info.status == "FINISHED"


def test_a_parent_without_owner_follows_its_stages_and_stays_failed(tracker):
    parent = tracker.parent_for("page-run", "page")
    with tracker.stage_run(parent.run_id, "ingest"):
        pass
    assert stored(tracker, parent.run_id).info.status == "FINISHED"
    with pytest.raises(ValueError), tracker.stage_run(parent.run_id, "fit") as broken:
        raise ValueError("too few rows")
    with tracker.stage_run(parent.run_id, "report"):
        pass
    assert stored(tracker, parent.run_id).info.status == "FAILED"
    assert stored(tracker, broken.run_id).info.status == "FAILED"
    assert stored(tracker, broken.run_id).data.tags["error"] == "ValueError: too few rows"


def test_interrupt_marks_the_run_killed(tracker):
    parent = tracker.pipeline_run("interrupted")
    with pytest.raises(KeyboardInterrupt), parent:
        raise KeyboardInterrupt
    assert stored(tracker, parent.run_id).info.status == "KILLED"


def test_stage_is_labelled_with_where_it_came_from(tracker, run):
    tags = StageTags(
        dagster_run_id="d1", asset_key="es/fxcache", partition="2024-03-08", git_revision="0123abc",
        digests={"snapshots": "f" * 64},
    )  # fmt: skip
    stage = stored(tracker, tracker.stage_run(run.run_id, "fxcache", tags).run_id)
    assert stage.info.run_name == "fxcache 2024-03-08"
    expected = {
        "dagster.run_id": "d1", "dagster.asset_key": "es/fxcache", "dagster.partition": "2024-03-08",
        "git.revision": "0123abc", "digest.snapshots": "f" * 64, "alpha.stage": "fxcache",
        "mlflow.parentRunId": run.run_id,
    }  # fmt: skip
    assert expected.items() <= stage.data.tags.items()
    dataset = stage.inputs.dataset_inputs[0].dataset
    assert (dataset.name, dataset.digest) == ("snapshots", "f" * 36)


def test_nan_is_left_out_and_named(tracker, run):
    run.log_metrics({"loss": math.nan, "auc": 0.6})
    run.log_metrics({"brier": math.nan}, step=1)
    data = stored(tracker, run.run_id).data
    assert data.metrics == {"auc": 0.6}
    assert data.tags["nan_metrics"] == "brier,loss"


def test_nan_names_survive_a_resumed_run(tracker, run):
    run.log_metrics({"loss": math.nan})
    tracker.resume(run.run_id).log_metrics({"auc": math.nan})
    assert stored(tracker, run.run_id).data.tags["nan_metrics"] == "auc,loss"


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_is_refused_after_the_rest_is_safe(tracker, run, value):
    with pytest.raises(DataError, match=r"sharpe was -?inf at step 0"):
        run.log_metrics({"sharpe": value, "pnl": 2.0})
    assert stored(tracker, run.run_id).data.metrics == {"pnl": 2.0}


def test_resumed_run_has_one_value_a_step(tracker, run):
    run.log_history({"loss": [5.0, 4.0, 3.0, 2.0, 1.0]})
    resumed = tracker.resume(run.run_id)
    resumed.log_history({"loss": [9.0, 9.0, 0.5, 0.25, 0.125]}, first_step=3)
    assert history(tracker, run.run_id, "loss") == [
        (0, 5.0), (1, 4.0), (2, 3.0), (3, 2.0), (4, 1.0), (5, 0.5), (6, 0.25), (7, 0.125),
    ]  # fmt: skip
    assert stored(tracker, run.run_id).info.status == "RUNNING"


def test_more_entries_than_one_call_takes(tracker, run):
    run.log_history({"a": [float(i) for i in range(2500)]})
    run.log_params({f"p{i}": i for i in range(250)})
    assert history(tracker, run.run_id, "a")[-1] == (2499, 2499.0)
    params = stored(tracker, run.run_id).data.params
    assert len(params) == 250
    assert params["p249"] == "249"


def test_long_parameter_is_kept_whole_beside_the_table(tracker, run):
    run.log_params({"days": "2024-03-08 " * 100, "seed": 7})
    short = stored(tracker, run.run_id).data.params["days"]
    assert len(short) == 500
    assert short.endswith("…")
    whole = json.loads(artifact(tracker, run, "params.json").read_text())
    assert whole == {"days": "2024-03-08 " * 100, "seed": "7"}


def test_stage_result_can_be_read_back(tracker, run):
    check = Check(name="rows", passed=False, figure=3.0, threshold=10.0, description="At least 10 rows.")
    result = StageResult(
        metrics={"auc": 0.55},
        params={"horizon": 30},
        tables={"../by fold": pl.DataFrame({"fold": [1, 2], "auc": [0.5, 0.6]})},
        figures={"Equity": go.Figure(go.Scatter(y=[1, 2])), "Loss": go.Figure(go.Scatter(y=[3]))},
        checks=[check],
        history={"loss": [1.0, 0.5]},
    )
    run.log_result(result)
    data = stored(tracker, run.run_id).data
    assert data.metrics == {"auc": 0.55, "loss": 0.5}
    assert data.params == {"horizon": "30"}
    assert data.tags["checks_failed"] == "rows"
    assert artifact(tracker, run, "tables/by_fold.csv").read_text() == "fold,auc\n1,0.5\n2,0.6\n"
    assert json.loads(artifact(tracker, run, "checks.json").read_text())["rows"]["figure"] == 3.0
    assert json.loads(artifact(tracker, run, "figures/Equity.json").read_text())["data"][0]["y"] == [1, 2]
    page = artifact(tracker, run, "figures.html").read_text()
    assert page.count("Plotly.newPlot") >= 2
    assert "<script src" not in page


def test_model_travels_as_safetensors(tracker, run, tmp_path):
    save_file({"w": torch.arange(6.0).reshape(2, 3)}, tmp_path / "weights.safetensors")
    (tmp_path / "config.json").write_text('{"d_model": 3}')
    run.log_model(tmp_path, "perception")
    back = run.download("models/perception", tmp_path / "back")
    assert torch.equal(load_file(back / "weights.safetensors")["w"], torch.arange(6.0).reshape(2, 3))
    assert json.loads((back / "config.json").read_text()) == {"d_model": 3}


def test_model_that_could_hold_code_is_refused(run, tmp_path):
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(DataError, match=r"model\.pkl"):
        run.log_model(tmp_path, "perception")
    with pytest.raises(DataError, match="holds nothing"):
        (tmp_path / "empty").mkdir()
        run.log_model(tmp_path / "empty", "perception")


def test_link_leads_to_the_page(tracker, run, monkeypatch):
    monkeypatch.setenv("ALPHA_MLFLOW_URL", "http://127.0.0.1:5055")
    assert run.url == (f"http://127.0.0.1:5055/#/experiments/{tracker.store.experiment_id}/runs/{run.run_id}")


def test_store_address(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert default_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    assert Tracker.default(tmp_path, tmp_path).store.uri == "http://tracking:5000"
    with pytest.raises(ConfigError, match="must start with sqlite"):
        Tracker("./mlruns", tmp_path)


def test_dead_server_is_one_sentence_without_the_password(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracker = Tracker("http://user:secret@127.0.0.1:9", tmp_path)
    with pytest.raises(TrackingError, match=r"http://127\.0\.0\.1:9 could not be opened") as caught:
        tracker.prepare()
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_file_that_is_no_database_is_refused_at_once(tmp_path):
    (tmp_path / "mlflow.db").write_text("these are not the bytes of a database, whatever the name says" * 20)
    began = time.monotonic()
    with pytest.raises(TrackingError, match="not a database"):
        Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path).prepare()
    assert time.monotonic() - began < 5


def test_deleted_experiment_says_how_to_restore_it(tmp_path, tracker):
    other = Tracker(tracker.store.uri, tmp_path, "gone")
    other.store.client.delete_experiment(other.store.experiment_id)
    with pytest.raises(TrackingError, match="mlflow experiments restore"):
        Tracker(tracker.store.uri, tmp_path, "gone").prepare()


def test_identity_cannot_carry_a_query(tracker):
    with pytest.raises(ConfigError, match="letters, digits"):
        tracker.parent_for("x' OR '1'='1", "bad")


def test_making_a_tracker_does_not_import_mlflow():
    code = (
        "import sys; from alpha_pipeline.tracking import Tracker; Tracker('sqlite:////tmp/x.db', '/tmp');"
        "sys.exit('mlflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_logging_a_stage_costs_little(tracker):
    """A stage that logs 2000 points, 50 parameters and a table must not wait a second for its notebook."""
    result = StageResult(
        history={f"loss{i}": [float(j) for j in range(200)] for i in range(10)},
        params={f"p{i}": i for i in range(50)},
        tables={"t": pl.DataFrame({"a": list(range(100))})},
    )
    parent = tracker.parent_for("timing", "timing")
    began = time.process_time()
    with tracker.stage_run(parent.run_id, "timed") as run:
        run.log_result(result)
    assert time.process_time() - began < 1.0
    assert len(tracker.store.client.get_metric_history(run.run_id, "loss9")) == 200


def test_metrics_written_by_others_are_not_repeated(tracker, run):
    tracker.store.client.log_batch(run.run_id, [Metric("loss", 1.0, 0, 0)])
    tracker.resume(run.run_id).log_metrics({"loss": 2.0})
    assert history(tracker, run.run_id, "loss") == [(0, 1.0)]
