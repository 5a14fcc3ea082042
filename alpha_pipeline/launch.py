"""Runs the asset graph in this process, recorded in the same Dagster instance that the page shows.

Belongs here: which partitions run, in which order, and what came of each. Does not: what a stage computes.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from alpha_core.errors import AlphaError, DataError
from alpha_pipeline.artifacts import WHOLE, refusals_told
from alpha_pipeline.assets.factory import PIPELINE_RUN_TAG
from alpha_pipeline.assets.recorded import unrecorded
from alpha_pipeline.config import load
from alpha_pipeline.definitions import build_defs
from alpha_pipeline.launched import Launched
from alpha_pipeline.partitions import day_partitions
from alpha_pipeline.paths import Workspace
from alpha_pipeline.plan import rejection, stale_day, stale_whole, standing
from alpha_pipeline.sqlite import cheap_commits, database_refusals_told
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import Days, Scope, Stage, open_scope
from alpha_pipeline.workers import WorkerDiedError, worker_pool

_QUIET = {"loggers": {"progress": {}}}
_PARTITION_TAG = "dagster/partition"
_UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
_TURNS = ".turns"  # whoever brings a partition up to date holds its lock there, so that two launches do not do it twice


def launch(
    scope: Scope,
    workspace: Workspace,
    stages: Sequence[Stage],
    days: Sequence[str],
    say: Callable[[str], None],
    processes: int = 1,
) -> Launched:
    """Bring the given stages up to date: day by day, then the undivided ones in one run.

    A failing day is reported and the others go on, also when it takes the process that works on it with it. Nothing
    that is up to date runs, and what another launch is bringing up to date is waited for.

    Args:
        scope: the market.
        workspace: holds the Dagster instance.
        stages: which, upstream first.
        days: which days of the per-day stages.
        say: receives lines for people.
        processes: days that are worked on at a time.
    """
    started, done = time.monotonic(), Launched()
    with cheap_commits(), _stoppable(say), _writable(workspace), _instance(workspace) as instance:
        runner = _Runner(scope, workspace, instance, _run_tags(), done)
        instance.add_dynamic_partitions(day_partitions(scope.config.name).name or "", sorted(scope.raw_files))
        by_day = [s for s in stages if s.per_day]
        _bring_days(runner, by_day, days, say, processes)
        for materialization in unrecorded(instance, scope, by_day, days):
            instance.report_runless_asset_event(materialization)
        whole = [s for s in stages if not s.per_day]
        if whole:
            _refuse_without_days(done, days)
            scope.days(Days.IN_SAMPLE)
            say(runner.bring_up_to_date(whole, WHOLE, "research"))
    done.seconds = time.monotonic() - started
    return done


def _run_tags() -> dict[str, str]:
    """What all runs of one launch have in common."""
    return {PIPELINE_RUN_TAG: time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)}


def _bring_days(
    runner: "_Runner",
    stages: Sequence[Stage],
    days: Sequence[str],
    say: Callable[[str], None],
    processes: int,
) -> None:
    """Fresh days are only told; stale ones run here, or side by side in processes of their own."""
    stale = {day: stale_day(stages, runner.scope, day) for day in days}
    labels = {day: f"{number}/{len(days)} {day}" for number, day in enumerate(days, start=1)}
    busy = [day for day in days if stale[day]]
    for day in days:
        if not stale[day]:
            say(runner.tell_fresh(stages, day, labels[day]))
    count = min(processes, len(busy))
    if count <= 1:
        for day in busy:
            say(runner.bring_up_to_date(stages, day, labels[day]))
        return
    say(f"{len(busy)} days are stale, {count} at a time")
    names = tuple(stage.name for stage in stages)
    root, raw, tags = runner.workspace.root, str(runner.scope.raw), tuple(runner.tags.items())
    with worker_pool(count) as pool:
        tasks = {
            pool.submit(_bring_day, root, runner.scope.config.name, raw, tags, names, day, labels[day]): day
            for day in busy
        }
        for task in as_completed(tasks):
            try:
                part, line = task.result()
            except WorkerDiedError as death:
                line = runner.lost(tasks[task], labels[tasks[task]], death)
            else:
                runner.done.add(part)
            say(line)


def _bring_day(
    root: Path,
    instrument: str,
    raw: str,
    tags: tuple[tuple[str, str], ...],
    names: tuple[str, ...],
    day: str,
    label: str,
) -> tuple[Launched, str]:
    """One day in a worker: what came of it, and the line for people."""
    runner = _standing_runner(root, instrument, raw, tags)
    runner.done = Launched()
    stages = [stage for stage in STAGES if stage.name in names]
    line = runner.bring_up_to_date(stages, day, label)
    return runner.done, line


@cache
def _standing_runner(root: Path, instrument: str, raw: str, tags: tuple[tuple[str, str], ...]) -> "_Runner":
    """What a worker keeps from day to day; it lasts as long as its process."""
    workspace, standing_contexts = Workspace(root), ExitStack()
    standing_contexts.enter_context(cheap_commits())
    instance = standing_contexts.enter_context(_instance(workspace))
    scope = open_scope(load(instrument, workspace), workspace, raw=raw, report=lambda _: None)
    runner = _Runner(scope, workspace, instance, dict(tags), Launched())
    runner.contexts = standing_contexts
    return runner


def _refuse_without_days(done: Launched, days: Sequence[str]) -> None:
    if len(done.failed) == len(days):
        raise DataError(f"every day failed; {days[0]}: {done.failed[days[0]]}")


class _Runner:
    """Runs stale stages of one partition at a time and keeps the books."""

    def __init__(
        self,
        scope: Scope,
        workspace: Workspace,
        instance: dg.DagsterInstance,
        tags: dict[str, str],
        done: Launched,
    ) -> None:
        self.scope, self.workspace, self.instance, self.tags, self.done = (
            scope,
            workspace,
            instance,
            tags,
            done,
        )
        defs = build_defs(workspace, [scope.config.name], {scope.config.name: str(scope.raw)})
        self.job = defs.resolve_implicit_global_asset_job_def()
        self.contexts = ExitStack()

    def tell_fresh(self, stages: Sequence[Stage], partition: str, label: str) -> str:
        """Enter a partition of which nothing is stale; returns the line for people."""
        now = standing(stages, self.scope, partition, ())
        self.done.note(partition, now.fresh, now.rejection)
        return f"{label}: {self.done.failed.get(partition, 'up to date')}"

    def bring_up_to_date(self, stages: Sequence[Stage], partition: str, label: str) -> str:
        """Run what is stale of a partition once nobody else does; returns the line for people."""
        try:
            with _writable(self.workspace), self.scope.store.locked(_TURNS, partition):
                return self._run_stale(stages, partition, label)
        except AlphaError as error:
            return self._failed(partition, label, str(error))

    def _run_stale(self, stages: Sequence[Stage], partition: str, label: str) -> str:
        whole = partition == WHOLE
        stale = stale_whole(stages, self.scope) if whole else stale_day(stages, self.scope, partition)
        if not stale:
            return self.tell_fresh(stages, partition, label)
        names = [s.stage for s in stale]
        now = standing(stages, self.scope, partition, stale)
        self.done.note(partition, now.fresh, now.rejection)
        started = time.monotonic()
        result = self._execute(names, partition)
        if _interrupted(result):
            raise KeyboardInterrupt
        built = _materialized(result)
        self.done.built += [(name, partition) for name in built]
        if result.success:
            return f"{label}: built {', '.join(built)} in {time.monotonic() - started:.1f} s"
        return self._failed(partition, label, rejection(built, self.scope, partition) or _reason(result))

    def lost(self, partition: str, label: str, death: WorkerDiedError) -> str:
        """Enter a partition whose process is gone, and close the run that it had begun, which nobody else would."""
        mine = dg.RunsFilter(tags=self.tags | {_PARTITION_TAG: partition}, statuses=_UNFINISHED)
        for run in self.instance.get_runs(mine):
            self.instance.report_run_failed(run, str(death))
        return self._failed(partition, label, str(death))

    def _failed(self, partition: str, label: str, reason: str) -> str:
        self.done.failed[partition] = reason
        return f"{label}: FAILED, {reason}"

    def _execute(self, names: Sequence[str], partition: str) -> dg.ExecuteInProcessResult:
        return self.job.execute_in_process(
            instance=self.instance,
            run_config=_QUIET,
            partition_key=None if partition == WHOLE else partition,
            asset_selection=[dg.AssetKey([self.scope.config.name, name]) for name in names],
            tags=self.tags,
            raise_on_error=False,
        )


def _materialized(result: dg.ExecuteInProcessResult) -> list[str]:
    """Names of the stages that published something in a run, in the order in which they did."""
    keys = (event.asset_key for event in result.get_asset_materialization_events())
    return [key.path[-1] for key in keys if key is not None]


def _interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a person stopped it: the orchestrator records that as the failure of one step and would go on."""
    failures = (event.step_failure_data.error for event in result.all_events if event.is_step_failure)
    return any(
        error is not None and error.cls_name == dg.DagsterExecutionInterruptedError.__name__
        for error in failures
    )


def _reason(result: Any) -> str:
    """The sentence of the first failed step."""
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            if data.user_failure_data and data.user_failure_data.description:
                return data.user_failure_data.description
            return _root_cause(data.error) if data.error else "a step failed"
    return "a step failed"


def _root_cause(error: Any) -> str:
    """The innermost error's class and text, on one line; the page shows its traceback."""
    while error.cause is not None:
        error = error.cause
    return " ".join(error.message.split())


@contextmanager
def _stoppable(say: Callable[[str], None]) -> Iterator[None]:
    """Let a person's Ctrl-C end the launch wherever it strikes, with a word on what remains."""
    try:
        yield
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as stop:
        say("interrupted; what was built stays, run again to go on")
        raise KeyboardInterrupt from stop


@contextmanager
def _writable(workspace: Workspace) -> Iterator[None]:
    """Make one sentence of a disk that takes no files or no records."""
    with refusals_told(workspace.root), database_refusals_told(workspace.dagster_home):
        yield


@contextmanager
def _instance(workspace: Workspace) -> Iterator[dg.DagsterInstance]:
    home = workspace.prepared_dagster_home()
    # Dagster's telemetry thread moves files out of its home even when it may send nothing.
    os.environ |= {"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance
