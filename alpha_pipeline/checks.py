"""Asset checks: how a stage's checks are declared to Dagster and reported to it. No rules live here."""

import dagster as dg

from alpha_pipeline.results import Check
from alpha_pipeline.stages.base import Stage


def check_specs(
    stage: Stage, key: dg.AssetKey, partitions: dg.PartitionsDefinition | None
) -> list[dg.AssetCheckSpec]:
    """Declarations of a stage's checks; partitioned with the asset, so that a bad day stops its own day only."""
    return [
        dg.AssetCheckSpec(name, asset=key, blocking=blocking, partitions_def=partitions)
        for name, blocking in stage.checks.items()
    ]


def check_result(check: Check) -> dg.AssetCheckResult:
    """One answer with its figure and threshold."""
    metadata: dict[str, dg.MetadataValue] = {}
    if check.figure is not None:
        metadata["figure"] = dg.MetadataValue.float(float(check.figure))
    if check.threshold is not None:
        metadata["threshold"] = dg.MetadataValue.float(float(check.threshold))
    severity = dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        check_name=check.name,
        passed=check.passed,
        severity=severity,
        description=check.description,
        metadata=metadata,
    )
