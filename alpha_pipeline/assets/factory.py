"""Turns a stage into a Dagster asset. Belongs here: keys, edges, versions. Does not: what a stage computes."""

import dagster as dg

from alpha_core.errors import AlphaError
from alpha_pipeline.artifacts import WHOLE
from alpha_pipeline.assets.metadata import describe
from alpha_pipeline.assets.recorded import STAMP_TAG
from alpha_pipeline.checks import check_result, check_specs
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.partitions import day_partitions
from alpha_pipeline.resources import Pipeline
from alpha_pipeline.stages.base import Days, Stage, Upstream
from alpha_pipeline.tracked import run_tracked

PIPELINE_RUN_TAG = "alpha/pipeline_run"


def stage_asset(stage: Stage, config: PipelineConfig) -> dg.AssetsDefinition:
    """The asset `<instrument>/<stage>`.

    Args:
        stage: what it runs.
        config: the instrument's configuration; decides the code version where that derives from it.
    """
    key = dg.AssetKey([config.name, stage.name])
    partitions = day_partitions(config.name) if stage.per_day else None

    @dg.asset(
        key=key,
        deps=[_dependency(edge, config.name) for edge in stage.upstream],
        partitions_def=partitions,
        check_specs=check_specs(stage, key, partitions),
        code_version=stage.version(config),
        group_name=config.name.replace("-", "_"),
        tags={"alpha/part": stage.group},
        kinds=set(stage.kinds),
        description=stage.description,
        owners=["team:research"],
        pool="device" if "torch" in stage.kinds else None,
    )
    def body(context: dg.AssetExecutionContext, pipeline: Pipeline) -> dg.MaterializeResult:
        scope = pipeline.scope(config.name, report=context.log.info)
        partition = context.partition_key if stage.per_day else WHOLE
        try:
            outcome = run_tracked(
                stage,
                scope,
                partition,
                tracker=pipeline.tracker(),
                pipeline_run=context.run.tags.get(PIPELINE_RUN_TAG, context.run_id[:8]),
                orchestrator_run=context.run_id,
            )
        except AlphaError as error:
            raise dg.Failure(description=str(error), allow_retries=False) from error
        return dg.MaterializeResult(
            metadata=describe(outcome),
            check_results=[check_result(c) for c in outcome.result.checks],
            data_version=dg.DataVersion(outcome.artifact.digest),
            tags={STAMP_TAG: outcome.artifact.stamp.version},
        )

    return body


def _dependency(edge: Upstream, instrument: str) -> dg.AssetDep:
    mapping = None if edge.days in (Days.SAME, Days.WHOLE) else dg.AllPartitionMapping()
    return dg.AssetDep(dg.AssetKey([instrument, edge.stage]), partition_mapping=mapping)
