"""A stage run with its record kept: executed, published, and logged to the tracking store. No orchestration."""

from dataclasses import dataclass
from pathlib import Path

from alpha_pipeline.artifacts import WHOLE, Artifact
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Scope, Stage, execute
from alpha_pipeline.tracking import Tracker


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one tracked run of a stage left.

    Attributes:
        result: for people.
        artifact: what was published.
        link: address of its record in the tracking server.
    """

    result: StageResult
    artifact: Artifact
    link: str


def run_tracked(
    stage: Stage, scope: Scope, partition: str, *, tracker: Tracker, pipeline_run: str, orchestrator_run: str
) -> Outcome:
    """Execute a stage and record it as a child of its pipeline run.

    Args:
        stage: which.
        scope: where.
        partition: the day, or WHOLE.
        tracker: the tracking store.
        pipeline_run: identity that all stages of one pipeline run share.
        orchestrator_run: identity of the Dagster run, kept with the artifact and as a tag.
    """
    tags = {"dagster_run_id": orchestrator_run, "asset": stage.name, "instrument": scope.config.name}
    parent = tracker.pipeline_run(pipeline_run, name=f"{scope.config.name} {pipeline_run}", tags=tags)
    with tracker.stage_run(parent, stage.name, tags=tags | {"partition": partition}) as record:
        result, artifact = execute(stage, scope, partition, {"dagster_run_id": orchestrator_run})
        step = 0 if partition == WHOLE else scope.store.partitions(stage.name).index(partition)
        record.log_params(result.params)
        record.log_metrics(result.metrics, step=step)
        record.log_history(result.history)
        record.set_tags({"digest": artifact.digest, "stamp": artifact.stamp.version})
        if partition == WHOLE:
            _log_files(record, artifact.path)
    return Outcome(result=result, artifact=artifact, link=record.url)


def _log_files(record: "StageRecord", folder: Path) -> None:  # noqa: F821
    record.log_directory(folder)
