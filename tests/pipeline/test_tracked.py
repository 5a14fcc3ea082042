"""A stage that cannot start leaves no record that looks as if it were running."""

import pytest
import tiny_market

from alpha_core.errors import DataError
from alpha_pipeline.stages import STAGES
from alpha_pipeline.tracked import run_tracked
from alpha_pipeline.tracking import Tracker

FILL_MODEL = next(stage for stage in STAGES if stage.name == "fill_model")
SNAPSHOTS, FXCACHE = STAGES[0], STAGES[3]


@pytest.fixture
def tracker(tmp_path):
    return Tracker(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "files")


def runs(tracker):
    return tracker.store.client.search_runs([tracker.store.experiment_id])


def test_stage_without_its_inputs_opens_no_run(tmp_path, tracker):
    workspace = tiny_market.make_workspace(tmp_path, days=1)
    scope = tiny_market.scope(workspace)
    with pytest.raises(DataError, match="has 0 usable days"):
        run_tracked(FILL_MODEL, scope, "all", tracker=tracker, pipeline_run="one", orchestrator_run="")
    assert runs(tracker) == []


def test_failing_stage_closes_its_run_and_its_parent_as_failed(tmp_path, tracker):
    """The day stages of one pipeline run share a parent; one of them that fails is named there."""
    workspace = tiny_market.make_workspace(tmp_path, days=1)
    scope, key = tiny_market.scope(workspace), tiny_market.day(0)
    context = {"tracker": tracker, "pipeline_run": "one", "orchestrator_run": "run-7"}
    run_tracked(SNAPSHOTS, scope, key, **context)
    with pytest.raises(DataError, match=r"trades of .* was never published"):
        run_tracked(FXCACHE, scope, key, **context)
    parent, *children = sorted(runs(tracker), key=lambda run: "alpha.stage" in run.data.tags)
    assert parent.info.status == "FAILED"
    status = {run.data.tags["alpha.stage"]: run.info.status for run in children}
    assert status == {"mbp10_snapshots": "FINISHED", "fxcache": "FAILED"}
    failed = next(run for run in children if run.info.status == "FAILED")
    assert failed.data.tags["error"].startswith("DataError: trades of")
    assert failed.data.tags["dagster.run_id"] == "run-7"
