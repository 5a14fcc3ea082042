"""Dagster sensors: new raw files become partitions, stale caches become runs. Both ask `plan` what is true."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from alpha_core.errors import AlphaError
from alpha_pipeline.partitions import day_partitions
from alpha_pipeline.plan import Stale, stale_day
from alpha_pipeline.provenance import digest_json
from alpha_pipeline.resources import Pipeline
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import Scope

_INTERVAL_SECONDS = 60


def new_files(instrument: str, job: Any) -> dg.SensorDefinition:
    """Adds a partition for each day whose raw files appeared, and asks for its first run.

    The folder's content is the state, not a clock or a cursor: a file with an old modification time is found too.
    """

    @dg.sensor(
        name=f"{instrument.replace('-', '_')}_new_files", job=job, minimum_interval_seconds=_INTERVAL_SECONDS
    )
    def sensor(context: dg.SensorEvaluationContext, pipeline: Pipeline) -> dg.SensorResult | dg.SkipReason:
        scope = pipeline.scope(instrument, report=context.log.info)
        try:
            days = sorted(scope.raw_files)
        except AlphaError as error:
            return dg.SkipReason(str(error))
        known = set(context.instance.get_dynamic_partitions(day_partitions(instrument).name or ""))
        fresh = [day for day in days if day not in known]
        return dg.SensorResult(
            dynamic_partitions_requests=[day_partitions(instrument).build_add_request(fresh)]
            if fresh
            else [],
            run_requests=[_request(scope, day, stale_day(STAGES, scope, day)) for day in fresh],
        )

    return sensor


def stale_versions(instrument: str, job: Any) -> dg.SensorDefinition:
    """Asks for exactly the published days whose stamp is not what today's code and files require.

    Dagster does not mark partitions stale when a code version changes, so stored and required stamps decide.
    """

    @dg.sensor(
        name=f"{instrument.replace('-', '_')}_stale_versions",
        job=job,
        minimum_interval_seconds=_INTERVAL_SECONDS,
    )
    def sensor(context: dg.SensorEvaluationContext, pipeline: Pipeline) -> dg.SensorResult | dg.SkipReason:
        requests = list(_stale_requests(pipeline.scope(instrument, report=context.log.info), context))
        return (
            dg.SensorResult(run_requests=requests)
            if requests
            else dg.SkipReason("every cached day is up to date")
        )

    return sensor


def _stale_requests(scope: Scope, context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest]:
    known = context.instance.get_dynamic_partitions(day_partitions(scope.config.name).name or "")
    for day in sorted(set(known) & set(scope.store.partitions("mbp10_snapshots"))):
        stale = stale_day(STAGES, scope, day)
        if stale:
            yield _request(scope, day, stale)


def _request(scope: Scope, day: str, stale: list[Stale]) -> dg.RunRequest:
    """A run of the stale stages of a day; its key names what is stored and why it is stale, so that it is asked once.

    Two files of one day are one partition and so one request.
    """
    stored = [scope.store.find(s.stage, day) for s in stale]
    identity = digest_json([[s.stage, *s.reasons] for s in stale] + [a.info if a else None for a in stored])
    return dg.RunRequest(
        run_key=f"{day}-{identity[:16]}",
        partition_key=day,
        asset_selection=[dg.AssetKey([scope.config.name, s.stage]) for s in stale],
        tags={"alpha/reason": "; ".join(stale[0].reasons)[:200]} if stale else {},
    )
