"""`alpha train policy --ladder` on a tiny market: one table, one parent run, a child for each training."""

import numpy as np
import pytest
import tiny_market
from mlflow.tracking import MlflowClient
from typer.testing import CliRunner

from alpha_core.errors import ConfigError, DataError
from alpha_pipeline.cli import app
from alpha_pipeline.evaluation.splits import RowRange
from alpha_pipeline.policy_ladder import climb
from alpha_pipeline.research.ladder import KINDS, RULES, RUNGS, Climbed, ladder_table, parted
from alpha_pipeline.results import StageResult
from alpha_pipeline.tracking import default_uri

SEEDS = 2


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tiny_market.make_workspace(tmp_path_factory.mktemp("ladder"), days=3)


@pytest.fixture(scope="module")
def found(workspace):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        return climb(tiny_market.NAME, workspace, raw=None, seeds=SEEDS, say=lambda _: None)


def test_rungs_stand_in_order_on_the_same_episodes(found):
    lines = found.table.to_dicts()
    assert [line["rung"] for line in lines] == list(RUNGS)
    assert len({line["episodes"] for line in lines}) == 1
    by_rung = {line["rung"]: line for line in lines}
    assert (by_rung["wait"]["pnl_ticks"], by_rung["wait"]["trades"]) == (0.0, 0.0)
    assert by_rung["random"]["trades"] > 1
    assert {by_rung[name]["seeds"] for name in KINDS} == {SEEDS}
    assert by_rung["c51"]["seed_sd"] is not None
    gains = [line["over_previous"] for line in lines]
    assert gains[0] is None
    np.testing.assert_allclose(gains[1:], np.diff([line["pnl_ticks"] for line in lines]), atol=1e-9)
    assert found.text().count("\n") == len(RUNGS) + 3


def test_each_training_is_a_run_of_its_own(workspace, found):
    client = MlflowClient(default_uri(workspace.dagster_home))
    runs = client.search_runs([client.get_experiment_by_name("alpha").experiment_id])
    (parent,) = [run for run in runs if run.info.run_name == "tiny ladder"]
    children = {
        run.data.tags["alpha.stage"]: run
        for run in runs
        if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id
    }
    assert len(children) == 2 + SEEDS * (1 + len(KINDS))
    assert {run.info.status for run in children.values()} == {"FINISHED"}
    means = {}
    for run in children.values():
        means.setdefault(run.data.params["rung"], []).append(run.data.metrics["judged_pnl_ticks"])
    for line in found.table.to_dicts():
        assert np.mean(means[line["rung"]]) == pytest.approx(line["pnl_ticks"])
    assert children["linear, seed 7"].data.params["network"] == "linear"
    assert children["c51, seed 7"].data.metrics["judged_pnl_ticks"] != pytest.approx(
        children["c51, seed 8"].data.metrics["judged_pnl_ticks"]
    )


def one(rung, pnl, seed=0):
    result = StageResult(metrics={})
    clusters = ["a/0", "a/0", "b/0", "b/0"]
    return Climbed(rung=rung, seed=seed, pnl_ticks=np.array(pnl), cluster=clusters, trades=2.0, result=result)


def test_table_by_hand():
    table = ladder_table(
        [one("wait", [0.0] * 4), one("c51", [1.0, 3, 5, 7], 1), one("c51", [3.0, 5, 7, 9], 2)]
    )
    wait, c51 = table.to_dicts()
    assert (wait["pnl_ticks"], wait["low"], wait["high"], wait["over_previous"]) == (0.0, 0.0, 0.0, None)
    # Seeds are averaged to 2, 4, 6, 8; two clusters with residuals -4 and 4: sqrt(2 x 32) / 4 = 2.
    assert c51["pnl_ticks"] == 5.0
    assert c51["high"] - 5.0 == pytest.approx(2.0 * 12.7062, rel=1e-4)
    assert c51["seed_sd"] == pytest.approx(2**0.5)
    assert (c51["over_previous"], c51["over_previous_low"]) == (5.0, c51["low"])


def test_policies_are_judged_an_episode_behind_where_they_learn():
    config = tiny_config(horizon=40)
    train, judge = parted(RowRange(100, 1100), config)
    assert (train.start, train.stop) == (100, 800)
    assert (judge.start, judge.stop) == (800 + 40 + config.market.latency + 1, 1100)
    with pytest.raises(DataError, match="the ladder's judged rows are 60 of 200 validation rows"):
        parted(RowRange(0, 200), config)


def tiny_config(horizon):
    from alpha_pipeline.config import PipelineConfig

    spec = {"name": "tiny", "symbols": ["TINY"], "tick_size": "0.25", "calendar": "24/7"}
    return PipelineConfig.model_validate({"instrument": spec, "market": {"horizon": horizon}})


def test_wrong_usage_is_one_sentence(workspace):
    with pytest.raises(ConfigError, match="--seeds was 0, must be at least 1"):
        climb(tiny_market.NAME, workspace, raw=None, seeds=0, say=print)
    told = CliRunner().invoke(app, ["train", "policy"])
    assert told.exit_code == 2
    assert "say --ladder" in told.output


def test_rules_learn_nothing():
    assert set(RULES) | set(KINDS) == set(RUNGS)
