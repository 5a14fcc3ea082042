"""A stage run with its record kept: executed, published, and logged to the tracking store. No orchestration."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from alpha_pipeline.artifacts import WHOLE, Artifact
from alpha_pipeline.provenance import git_revision
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Days, Scope, Stage, execute, required_stamp
from alpha_pipeline.threads import use_threads
from alpha_pipeline.tracking import RunHandle, StageTags, Tracker


class HasResult(Protocol):
    """Something that was measured."""

    @property
    def result(self) -> StageResult: ...


M = TypeVar("M", bound=HasResult)


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
    name = scope.config.name
    tags = StageTags(
        dagster_run_id=orchestrator_run,
        asset_key=f"{name}/{stage.name}",
        partition="" if partition == WHOLE else partition,
        git_revision=git_revision(),
        digests=required_stamp(stage, scope, partition).inputs if partition == WHOLE else {},
    )
    parent = tracker.parent_for(pipeline_run, name=f"{name} {pipeline_run}", tags={"instrument": name})
    with tracker.stage_run(parent.run_id, stage.name, tags) as record:
        result, artifact = execute(stage, scope, partition, {"dagster_run_id": orchestrator_run})
        record.log_result(result, page=partition == WHOLE)
        record.set_tags({"digest": artifact.digest, "stamp": artifact.stamp.version})
        _keep_files(record, artifact)
    return Outcome(result=result, artifact=artifact, link=record.url)


def measured_runs(
    scope: Scope, tracker: Tracker, parent: str, names: Iterable[str], measure: Callable[[str], M]
) -> Iterator[M]:
    """What is measured under each name, in a child run of its own; what ran before a failure stays recorded.

    Args:
        scope: the market, whose in-sample days are tagged.
        tracker: the tracking store.
        parent: run that holds the children.
        names: of the children.
        measure: gives, by name, something with a `result`.
    """
    use_threads(scope.config.threads)
    days = {f"fxcache/{day}": scope.store.get("fxcache", day).digest for day in scope.days(Days.IN_SAMPLE)}
    tags = StageTags(git_revision=git_revision(), digests=days)
    for name in names:
        with tracker.stage_run(parent, name, tags) as record:
            one = measure(name)
            record.log_result(one.result)
        yield one


def _keep_files(record: RunHandle, artifact: Artifact) -> None:
    """Models as folders of safetensors, single files such as coefficients, verdict and report beside them."""
    for path in sorted(artifact.path.iterdir()):
        if path.is_dir() and any(path.glob("*.safetensors")):
            record.log_model(path, path.name)
        elif path.suffix in (".json", ".html") and artifact.partition == WHOLE:
            record.log_file(path)
