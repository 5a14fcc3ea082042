"""Opening runs: a parent for each pipeline run, a child for each stage, found again by their tags."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from alpha_core.errors import ConfigError
from alpha_pipeline.tracking.run import CLOSED_BY_TAG, PARENT_TAG, PIPELINE_TAG, STAGE_TAG, RunHandle
from alpha_pipeline.tracking.store import Store, default_uri


@dataclass(frozen=True, kw_only=True)
class StageTags:
    """What a stage's run is labelled with, so that it can be found from Dagster and from the data.

    Attributes:
        dagster_run_id: run of the orchestrator that opened it, empty outside Dagster.
        asset_key: asset that was materialized.
        partition: trading day, empty for unpartitioned assets.
        git_revision: commit of the code.
        digests: content digest of each input, by name.
    """

    dagster_run_id: str = ""
    asset_key: str = ""
    partition: str = ""
    git_revision: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, str]:
        """Tag name -> value, without the empty ones."""
        named = {
            "dagster.run_id": self.dagster_run_id,
            "dagster.asset_key": self.asset_key,
            "dagster.partition": self.partition,
            "git.revision": self.git_revision,
        }
        named |= {f"digest.{name}": digest for name, digest in self.digests.items()}
        return {key: value for key, value in named.items() if value}


class Tracker:
    """Opens runs of one experiment. Making one costs nothing; MLflow is imported with the first run.

    Args:
        uri: database URI or address of an MLflow server (see `Store`).
        artifact_root: where runs put their files.
        experiment: name under which runs are grouped.

    Raises:
        ConfigError: the URI is neither a database nor an http(s) address.
    """

    def __init__(self, uri: str, artifact_root: Path | str, experiment: str = "alpha") -> None:
        self.store = Store(uri, artifact_root, experiment)

    @classmethod
    def default(cls, home: Path, data: Path, experiment: str = "alpha") -> "Tracker":
        """The tracker of an installation: database under `home`, artifacts under `data/mlflow`."""
        return cls(default_uri(home), data.resolve() / "mlflow", experiment)

    def prepare(self) -> None:
        """Create or migrate the store now, so that no later process has to."""
        _ = self.store.experiment_id

    def pipeline_run(
        self, name: str, tags: Mapping[str, str] | None = None, *, pipeline_id: str | None = None
    ) -> RunHandle:
        """Open the parent run of a pipeline run; the caller closes it (it is a context manager).

        Args:
            name: title for people.
            tags: further labels.
            pipeline_id: identity to find it by; drawn when absent.
        """
        return self._find_or_create(name, dict(tags or {}), pipeline_id or uuid.uuid4().hex)

    def parent_for(self, pipeline_id: str, name: str, tags: Mapping[str, str] | None = None) -> RunHandle:
        """The parent run of `pipeline_id`, made if nobody opened one, e.g. for a run started on the page.

        One made here has no owner, so each stage that ends below it closes it anew.
        """
        return self._find_or_create(name, {**(tags or {}), CLOSED_BY_TAG: "stages"}, pipeline_id)

    def _find_or_create(self, name: str, tags: dict[str, str], pipeline_id: str) -> RunHandle:
        if not re.fullmatch(r"[A-Za-z0-9_.:-]+", pipeline_id):
            raise ConfigError(f"pipeline run id was {pipeline_id!r}, must be letters, digits and _ . : -")
        store = self.store
        experiment, query = store.experiment_id, f"tags.`{PIPELINE_TAG}` = '{pipeline_id}'"
        with store.reporting("open a run"), store.lock():
            found = store.client.search_runs([experiment], query, max_results=1)
            if found:
                return RunHandle(store, found[0], resumed=True)
            return self._create(name, {**tags, PIPELINE_TAG: pipeline_id})

    def stage_run(self, parent_id: str, stage: str, tags: StageTags | None = None) -> RunHandle:
        """Open the run of one stage below its pipeline run; as a context manager it closes itself."""
        tags = tags or StageTags()
        labels = {**tags.to_dict(), STAGE_TAG: stage, PARENT_TAG: parent_id}
        handle = self._create(f"{stage} {tags.partition}".rstrip(), labels)
        handle.log_inputs(tags.digests)
        return handle

    def resume(self, run_id: str) -> RunHandle:
        """Go on with a run that a killed process left; steps it has already logged are not logged twice."""
        with self.store.reporting("find the run"):
            self.store.client.update_run(run_id, status="RUNNING")
            return RunHandle(self.store, self.store.client.get_run(run_id), resumed=True)

    def _create(self, name: str, tags: Mapping[str, str]) -> RunHandle:
        experiment = self.store.experiment_id
        with self.store.reporting("open a run"):
            run = self.store.client.create_run(experiment, run_name=name, tags=dict(tags))
        return RunHandle(self.store, run)

    def url_for(self, run_id: str) -> str:
        """Address of a run's page: on the tracking server, else on the MLflow page `alpha ui` serves."""
        return self.store.url_for(run_id)
