"""`alpha compare` on a tiny market: one table, one parent run, a child for each contender with the same figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_market
from mlflow.tracking import MlflowClient

from alpha_core.errors import ConfigError
from alpha_core.shapes import HORIZONS
from alpha_pipeline.comparison import compare
from alpha_pipeline.research.contenders import BASELINES, NETWORKS, chosen_names
from alpha_pipeline.tracking import default_uri

CONFIG = tiny_market.CONFIG.replace("[perception]", "[perception]\nwindow = 16")
NAMES = ["bypass mamba2", "head linear", "deeplob"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tiny_market.make_workspace(tmp_path_factory.mktemp("compare"), days=3, config=CONFIG)


@pytest.fixture(scope="module")
def found(workspace):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        return compare(tiny_market.NAME, workspace, raw=None, names=NAMES, say=lambda _: None)


def test_every_contender_stands_at_every_horizon_best_first(found):
    for horizon in HORIZONS:
        lines = [line for line in found.table.to_dicts() if line["horizon"] == horizon]
        assert {line["contender"] for line in lines} == {"production", *NAMES, *BASELINES}
        assert len({line["n"] for line in lines}) == 1
        aucs = [line["auc"] for line in lines if line["auc"] is not None]
        assert aucs == sorted(aucs, reverse=True)
    at = [line["auc"] for line in found.table.to_dicts() if line["horizon"] == 300]
    assert len(set(at)) == len(at), "the contenders are not one"


def test_text_has_a_table_per_horizon_with_the_same_figures(found):
    *tables, runs = found.text().split("\n\n")
    assert runs == f"runs: {found.url}"
    lines = iter(found.table.to_dicts())
    for table, horizon in zip(tables, HORIZONS, strict=True):
        head, _, *rest = table.splitlines()
        assert head.startswith(f"{horizon} snapshots, ")
        for text in rest:
            line = next(lines)
            assert text[2:16].strip() == line["contender"]
            assert text[17:24].strip() == ("-" if line["auc"] is None else f"{line['auc']:.4f}")


def test_runs_can_be_compared_in_the_tracking_store(workspace, found):
    client = MlflowClient(default_uri(workspace.dagster_home))
    runs = client.search_runs([client.get_experiment_by_name("alpha").experiment_id])
    (parent,) = [run for run in runs if run.info.run_name == "tiny comparison"]
    children = {
        run.data.tags["alpha.stage"]: run
        for run in runs
        if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id
    }
    assert {run.info.status for run in (parent, *children.values())} == {"FINISHED"}
    assert set(children) == {"production", *NAMES, *BASELINES}
    for line in found.table.to_dicts():
        metrics = children[line["contender"]].data.metrics
        for figure in ("auc", "brier", "mcc"):
            assert metrics.get(f"{figure}_{line['horizon']}") == pytest.approx(line[figure])
    assert children["bypass mamba2"].data.params["layers"] == "0"
    assert children["head linear"].data.params["head"] == "linear"
    assert children["deeplob"].data.params["network"] == "deeplob"
    assert children["production"].data.metrics["weights"] > children["head linear"].data.metrics["weights"]
    assert [a.path for a in client.list_artifacts(parent.info.run_id, "tables")] == ["tables/league.csv"]


def test_no_name_means_all_and_an_unknown_one_is_told():
    assert chosen_names([]) == [*NETWORKS, *BASELINES]
    with pytest.raises(
        ConfigError, match="no contender is called bypass grn: name one of production, bypass vsn"
    ):
        chosen_names(["tlob", "bypass grn"])


@pytest.mark.slow
def test_the_command_trains_all_of_them(workspace, found):
    command = [Path(sys.executable).with_name("alpha"), "compare", "--instrument", tiny_market.NAME, "--json"]
    environment = {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}
    environment["ALPHA_HOME"] = str(workspace.root)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    told = {(line["contender"], line["horizon"]): line["auc"] for line in json.loads(done.stdout)}
    assert {name for name, _ in told} == {*NETWORKS, *BASELINES}
    for line in found.table.to_dicts():
        assert told[line["contender"], line["horizon"]] == line["auc"], "a second run gives the same"
