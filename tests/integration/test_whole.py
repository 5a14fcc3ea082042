"""The whole graph on a tiny market: raw files to a verdict and a page, and the ways in which that ends."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
import tiny_market
from mlflow.tracking import MlflowClient
from tiny_market import DAY_STAGES, NAME, WHOLE_STAGES, day

from alpha_core.errors import DataError
from alpha_pipeline.evaluation.criteria import all_criteria
from alpha_pipeline.evaluation.verdict import read_verdict
from alpha_pipeline.launched import Launched
from alpha_pipeline.paths import Workspace
from alpha_pipeline.run import RunOutcome, run_market, standings_of
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import execute
from alpha_pipeline.tracking import default_uri

DAYS = [day(index) for index in range(3)]
EVERYTHING = {(stage, key) for stage in DAY_STAGES for key in DAYS} | {
    (stage, "all") for stage in WHOLE_STAGES
}
VERDICT = {"passed": True, "verdict": "PASS"}


def alpha(workspace, *words):
    """The installed command, in a process of its own."""
    command = [Path(sys.executable).with_name("alpha"), *words, "--instrument", NAME]
    environment = {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}
    environment["ALPHA_HOME"] = str(workspace.root)
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A workspace taken to its verdict by the command: (workspace, what it printed as JSON, the process)."""
    workspace = tiny_market.make_workspace(tmp_path_factory.mktemp("whole"), days=3)
    done = alpha(workspace, "run", "--json")
    assert done.returncode in (0, 3), done.stderr
    return workspace, json.loads(done.stdout), done


@pytest.fixture(scope="module")
def store(first):
    return tiny_market.scope(first[0]).store


def test_everything_was_built(first):
    _, told, _ = first
    assert {tuple(entry) for entry in told["built"]} == EVERYTHING
    assert told["failed"] == {}
    assert told["fresh"] == []
    assert told["instrument"] == NAME


def test_progress_is_told_while_it_runs(first):
    _, _, done = first
    for words in (
        *(
            "tiny: 3 days in",
            f"3/3 {DAYS[2]}: built",
            "fill model:",
            "random baseline:",
            "perception:",
            "policy:",
        ),
        *("backtest grid: 30 cells", "walk-forward: fold 2 of 2 done", "report: ", "research: built"),
    ):
        assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_verdict_is_stored_and_exit_code_follows_it(first, store):
    _, told, done = first
    stored = read_verdict(store.get("oos_gate").path / "verdict.json")
    assert told["verdict"] == stored
    assert stored["instrument"] == NAME
    assert [c["name"] for c in stored["criteria"]] == [criterion.name for criterion in all_criteria()]
    assert stored["passed"] == all(c["status"] != "fail" for c in stored["criteria"])
    assert done.returncode == (0 if stored["passed"] else 3)


def test_clean_inputs_hold_but_for_the_tiny_purge(store):
    """A fresh run is current and gives the same again; the tiny purge, shorter than a label, must not be forgiven."""
    (criterion,) = [
        c
        for c in read_verdict(store.get("oos_gate").path / "verdict.json")["criteria"]
        if c["name"] == "clean_inputs"
    ]
    assert criterion["status"] == "fail"
    assert criterion["sentence"] == "lineage: purge_covers_labels failed"


def test_report_is_one_page_without_foreign_addresses(first):
    _, told, _ = first
    page = Path(told["report"]).read_text()
    sources = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            sources.extend(
                v for k, v in attrs if k in ("src", "href") and v and not v.startswith(("data:", "#"))
            )

    Reader().feed(page)
    assert sources == []
    assert told["verdict"]["verdict"] in page
    for title in ("Market data", "Fill model", "Perception", "Walk-forward", "Out of sample"):
        assert title in page
    for key in DAYS:
        assert key in page


def test_models_are_stored_without_pickle(store):
    for stage, folder in (("perception_model", "perception"), ("execution_policy", "policy")):
        files = {
            path.suffix
            for path in (store.get(stage).path / folder).iterdir()
            if not path.name.startswith(".")
        }
        assert files == {".safetensors", ".json"}
    suffixes = {
        path.suffix for path in store.root.rglob("*") if path.is_file() and not path.name.startswith(".")
    }
    assert suffixes <= {".arrow", ".html", ".json", ".jsonl", ".lock", ".parquet", ".safetensors"}


def test_each_stage_returned_the_checks_it_declares(store):
    for stage in STAGES:
        for key in DAYS if stage.per_day else ["all"]:
            made = store.get(stage.name, key).result["checks"]
            shown = {"auc_above_chance": False} if stage.name == "perception_model" else {}
            assert {c["name"]: c["blocking"] for c in made} == {**stage.checks, **shown}, stage.name


def test_orchestrator_and_tracking_store_have_the_research_run(first):
    workspace = first[0]
    with dg.DagsterInstance.from_config(str(workspace.dagster_home)) as instance:
        runs = instance.get_runs()
        assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
        assert len(runs) == 4
        for stage in WHOLE_STAGES:
            event = instance.get_latest_materialization_event(dg.AssetKey([NAME, stage]))
            assert event.asset_materialization.metadata["mlflow"].value
    client = MlflowClient(default_uri(workspace.dagster_home))
    children = {
        run.data.tags["alpha.stage"]: run
        for run in client.search_runs([client.get_experiment_by_name("alpha").experiment_id])
        if run.data.tags.get("alpha.stage") in WHOLE_STAGES
    }
    assert set(children) == set(WHOLE_STAGES)
    assert {run.info.status for run in children.values()} == {"FINISHED"}
    assert children["perception_model"].data.metrics["train_rows"] > 0
    assert children["oos_gate"].data.metrics["passed"] in (0.0, 1.0)
    names = {
        item.path
        for item in client.list_artifacts(children["perception_model"].info.run_id, "models/perception")
    }
    assert any(name.endswith(".safetensors") for name in names)
    assert {item.path for item in client.list_artifacts(children["report"].info.run_id)} >= {"report.html"}


def test_looks_are_counted_once(store):
    lines = (store.root / "looks.jsonl").read_text().splitlines()
    assert [json.loads(line)["days"] for line in lines] == [[DAYS[2]]]


def test_perception_without_a_bound_above_chance_stops_what_would_train_on_it(first, tmp_path):
    """The tiny market has too few labels for a bound: an error in one sentence, and no look at the held-out day."""
    workspace = tiny_market.copy_of(first[0], tmp_path / "blocked")
    tiny_market.configure(workspace, tiny_market.CONFIG.replace('floor = "show"', 'floor = "block"'))
    before = tiny_market.scope(workspace).store.get("execution_policy").digest
    outcome = run_market(NAME, workspace, raw=None, until=None, say=lambda _: None)
    assert outcome.exit_code == 1
    assert outcome.verdict is None
    assert outcome.launched.failed == {
        "all": "rejected by perception_model: lower 95 % bound of the validation AUC at 300 snapshots: "
        f"{_labels(workspace)} labels are too few for a bound, must be above 0.5; mend the input or the thresholds"
    }
    store = tiny_market.scope(workspace).store
    assert store.get("perception_model").status == "rejected"
    assert {stage for stage, _ in outcome.launched.built} <= {
        "fill_model",
        "random_baseline",
        "perception_model",
    }
    assert store.get("execution_policy").digest == before
    assert len((store.root / "looks.jsonl").read_text().splitlines()) == 1
    for stage in STAGES:
        if stage.name in ("execution_policy", "walk_forward"):
            with pytest.raises(DataError, match="stands on perception_model, which its own checks rejected"):
                execute(stage, tiny_market.scope(workspace), "all", {})


def _labels(workspace):
    table = tiny_market.scope(workspace).store.get("perception_model").path / "tables" / "validation.parquet"
    return pl.read_parquet(table).row(2, named=True)["n"]


def test_second_run_finds_everything_up_to_date(first):
    workspace, told, done = first
    assert standings_of(NAME, workspace, raw=None).stale == []
    again = alpha(workspace, "run", "--json")
    second = json.loads(again.stdout)
    assert again.returncode == done.returncode
    assert second["built"] == []
    assert {tuple(entry) for entry in second["fresh"]} == EVERYTHING
    assert (second["verdict"], second["report"]) == (told["verdict"], told["report"])
    assert len(again.stderr.splitlines()) == 1


def test_text_names_every_criterion_and_the_word(first):
    workspace, told, _ = first
    outcome = run_market(NAME, workspace, raw=None, until=None, say=lambda _: None)
    text = outcome.text()
    assert text.startswith("0 built, 20 up to date, 0 failed, ")
    for criterion in told["verdict"]["criteria"]:
        assert f"{criterion['number']:>2} {criterion['title']}: {criterion['sentence']}" in text
    assert f"VERDICT {told['verdict']['verdict']} (tiny)" in text
    assert text.endswith(f"report: {told['report']}")


@pytest.mark.parametrize(
    ("failed", "verdict", "code"),
    [
        ({}, None, 0),
        ({}, VERDICT, 0),
        ({}, {"passed": False}, 3),
        ({"2024-01-02": "damaged"}, None, 1),
        ({"2024-01-02": "damaged"}, VERDICT, 0),
        ({"2024-01-02": "damaged"}, {"passed": False}, 3),
        ({"all": "no fills"}, None, 1),
    ],
)
def test_exit_code_says_error_pass_or_fail(failed, verdict, code):
    launched = Launched(failed=failed)
    assert RunOutcome(instrument=NAME, launched=launched, verdict=verdict, report=None).exit_code == code


@pytest.mark.slow
def test_two_runs_from_nothing_give_the_same_bytes(first, tmp_path):
    """Every artifact of a second workspace, with as many threads as the machine likes, has the digest of the first."""
    other = tiny_market.make_workspace(tmp_path, days=3)
    environment = {k: v for k, v in os.environ.items() if "THREADS" not in k and k != "MLFLOW_TRACKING_URI"}
    environment["ALPHA_HOME"] = str(other.root)
    command = [Path(sys.executable).with_name("alpha"), "run", "--instrument", NAME]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 3), done.stderr
    stores = [tiny_market.scope(Workspace(w.root)).store for w in (first[0], other)]
    for stage, key in sorted(EVERYTHING - {("report", "all")}):  # the report names folders
        digests = {found.get(stage, key).digest for found in stores}
        assert len(digests) == 1, f"{stage} {key}"
