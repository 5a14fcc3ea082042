"""Dagster sensors: new raw files become partitions, stale caches become runs. Both ask `plan` what is true."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from alpha_core.errors import AlphaError
from alpha_pipeline.artifacts import DAMAGED, MISSING
from alpha_pipeline.assets.recorded import unrecorded
from alpha_pipeline.partitions import day_partitions
from alpha_pipeline.plan import Stale, stale_day
from alpha_pipeline.provenance import digest_json
from alpha_pipeline.resources import Pipeline
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import Scope

_INTERVAL_SECONDS = 60
_QUIET_SECONDS = 10.0  # a file written to more recently may not be whole yet: its day waits for a later tick
_LONGEST_RUN = timedelta(hours=1)  # an older unfinished run was killed: nothing else ever closes it
_PARTITION_TAG, _RUN_KEY_TAG = "dagster/partition", "dagster/run_key"
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


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
        fresh = [day for day in days if day not in known and _is_whole(scope, day)]
        if not fresh:
            return dg.SkipReason(f"no new day among the {len(days)} in {scope.raw}, or still being written")
        return dg.SensorResult(
            dynamic_partitions_requests=[day_partitions(instrument).build_add_request(fresh)],
            run_requests=list(_stale_requests(scope, fresh)),
        )

    return sensor


def stale_versions(instrument: str, job: Any) -> dg.SensorDefinition:
    """Asks for exactly the known days whose stamp is not what today's code and files require.

    Dagster does not mark partitions stale when a code version changes, so stored and required stamps decide. A day
    that failed is asked for again when its files change, and no day while a run of it is queued or under way. What
    was published and never recorded, since its run was killed in between, is recorded.
    """

    @dg.sensor(
        name=f"{instrument.replace('-', '_')}_stale_versions",
        job=job,
        minimum_interval_seconds=_INTERVAL_SECONDS,
    )
    def sensor(context: dg.SensorEvaluationContext, pipeline: Pipeline) -> dg.SensorResult | dg.SkipReason:
        scope = pipeline.scope(instrument, report=context.log.info)
        known = set(context.instance.get_dynamic_partitions(day_partitions(instrument).name or ""))
        try:
            days = sorted(known & set(scope.raw_files)) if known else []
        except AlphaError as error:
            return dg.SkipReason(str(error))
        busy = _days_under_way(context.instance, instrument)
        idle = [day for day in days if day not in busy]
        requests = [
            request
            for request in _stale_requests(scope, [day for day in idle if _is_whole(scope, day)])
            if not _asked_before(context.instance, request)
        ]
        events = list(unrecorded(context.instance, scope, [s for s in STAGES if s.per_day], idle))
        if not requests and not events:
            return dg.SkipReason("nothing new is stale")
        return dg.SensorResult(run_requests=requests, asset_events=events)

    return sensor


def _is_whole(scope: Scope, day: str) -> bool:
    """Whether nobody has written to the day's files for a while, whatever modification time they claim."""
    return all(scope.raw.is_settled(path, _QUIET_SECONDS) for path in scope.raw_files[day])


def _stale_requests(scope: Scope, days: Sequence[str]) -> Iterator[dg.RunRequest]:
    for day in days:
        stale = stale_day(STAGES, scope, day)
        if stale:
            yield _request(scope, day, stale)


def _days_under_way(instance: dg.DagsterInstance, instrument: str) -> set[str]:
    """Days of an instrument with an unfinished run; what it will publish is not known yet."""
    since = datetime.now(UTC) - _LONGEST_RUN
    runs = instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED, created_after=since))
    return {
        run.tags[_PARTITION_TAG]
        for run in runs
        if _PARTITION_TAG in run.tags and any(key.path[0] == instrument for key in run.asset_selection or ())
    }


def _asked_before(instance: dg.DagsterInstance, request: dg.RunRequest) -> bool:
    """Whether a run was made of the same request, by either sensor."""
    return instance.get_runs_count(dg.RunsFilter(tags={_RUN_KEY_TAG: request.run_key or ""})) > 0


def _request(scope: Scope, day: str, stale: Sequence[Stale]) -> dg.RunRequest:
    """A run of the stale stages of a day.

    Its key names the files, what is stored and why that is stale, so that it is asked once. Two files of one day are
    one partition and so one request.
    """
    identity = digest_json(
        [
            scope.raw_digests(day),
            [[s.stage, *s.reasons] for s in stale],
            [_stored_info(scope, s.stage, day) for s in stale],
        ]
    )
    return dg.RunRequest(
        run_key=f"{scope.config.name}-{day}-{identity[:16]}",
        partition_key=day,
        asset_selection=[dg.AssetKey([scope.config.name, s.stage]) for s in stale],
        tags={"alpha/reason": "; ".join(stale[0].reasons)[:200]},
    )


def _stored_info(scope: Scope, stage: str, day: str) -> Any:
    """What tells one publication from the next; a damaged one, which the reasons name, has nothing to tell."""
    if scope.store.status(stage, day) in (MISSING, DAMAGED):
        return None
    return scope.store.get(stage, day).info
