"""What was published but never recorded: the run that published it was killed, or its disk was full, in between."""

from collections.abc import Iterator, Sequence

import dagster as dg

from alpha_pipeline.artifacts import DAMAGED, MISSING, Artifact
from alpha_pipeline.stages.base import Scope, Stage

STAMP_TAG = "alpha/stamp"
_DATA_VERSION_TAG = "dagster/data_version"


def unrecorded(
    instance: dg.DagsterInstance, scope: Scope, stages: Sequence[Stage], days: Sequence[str]
) -> Iterator[dg.AssetMaterialization]:
    """Materializations that make the page know what is in force.

    Args:
        instance: what the page shows.
        scope: the market.
        stages: per-day stages.
        days: days that no run is at work on.
    """
    for stage in stages:
        key = dg.AssetKey([scope.config.name, stage.name])
        known = instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_MATERIALIZATION, [_DATA_VERSION_TAG]
        )
        for day in days:
            if scope.store.status(stage.name, day) in (MISSING, DAMAGED):
                continue
            artifact = scope.store.get(stage.name, day)
            if known.get(day, {}).get(_DATA_VERSION_TAG) != artifact.digest:
                yield _materialization(key, artifact)


def _materialization(key: dg.AssetKey, artifact: Artifact) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        key,
        partition=artifact.partition,
        description="published by a run that ended before it could record it",
        metadata={
            "status": artifact.status,
            "metrics": dg.MetadataValue.json(artifact.result["metrics"]),
            "files": dg.MetadataValue.path(artifact.path),
            "provenance": dg.MetadataValue.json(artifact.stamp.to_dict()),
        },
        tags={STAMP_TAG: artifact.stamp.version, _DATA_VERSION_TAG: artifact.digest},
    )
