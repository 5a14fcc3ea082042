"""What a stage is, and how one is run, stamped and published. Stages know files and numbers, not orchestration."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from alpha_core.errors import AlphaError, DataError
from alpha_pipeline.artifacts import DAMAGED, MISSING, WHOLE, Artifact, ArtifactStore, refusals_told
from alpha_pipeline.bucket import is_url
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.digests import DigestIndex
from alpha_pipeline.evaluation.splits import in_sample_oos
from alpha_pipeline.failures import failure_kept
from alpha_pipeline.ingest.folder import RawFolder, open_folder
from alpha_pipeline.ingest.spool import Spool
from alpha_pipeline.paths import Workspace
from alpha_pipeline.provenance import Stamp, canonical_json, digest_json
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.checks import completed
from alpha_pipeline.threads import use_threads


class Days(StrEnum):
    """Which partitions of an upstream stage a stage reads. ALL are the usable ones, JUDGED also the rejected."""

    SAME = "same"
    WHOLE = "whole"
    IN_SAMPLE = "in_sample"
    OUT_OF_SAMPLE = "out_of_sample"
    ALL = "all"
    JUDGED = "judged"


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """One edge of the graph.

    Attributes:
        stage: name of the stage that is read.
        days: which of its partitions.
        content: False for a gate that must have been passed but whose content does not enter the result.
    """

    stage: str
    days: Days = Days.SAME
    content: bool = True


@dataclass(frozen=True, kw_only=True)
class Scope:
    """One market in one workspace: what every stage of a run shares.

    Attributes:
        config: the instrument's configuration.
        store: where artifacts are published.
        raw: where the instrument's raw files lie.
        report: receives one line of progress at a time.
    """

    config: PipelineConfig
    store: ArtifactStore
    raw: RawFolder
    report: Callable[[str], None] = field(default=print)

    @cached_property
    def raw_files(self) -> dict[str, list[Path]]:
        """Raw files by day. Raises InputError when the folder holds none of this instrument."""
        from alpha_pipeline.ingest.source import discover

        return discover(self.raw, self.config.instrument)

    def raw_digests(self, day: str) -> dict[str, str]:
        """Content digest of each raw file of a day; names and times do not count.

        What lies elsewhere and was not read since it changed has a digest that no stored stamp has.
        """
        return {f"raw/{i}": self.raw.digest(p) for i, p in enumerate(self.raw_files.get(day, []))}

    def raw_at_hand(self, day: str) -> AbstractContextManager[None]:
        """Keeps a day's raw files readable, and their content digests known, while the block lasts."""
        return self.raw.held(self.raw_files.get(day, []))

    def settle(self, days: Sequence[str]) -> None:
        """Read built days whose shared files were written anew: their content and not the writing makes them stale."""
        for day in days:
            unread = any(self.raw.unread(path) for path in self.raw_files.get(day, []))
            if unread and self.store.status("mbp10_snapshots", day) != MISSING:
                # a file that cannot be read leaves its day stale, whose run then tells why
                with suppress(AlphaError), self.raw_at_hand(day):
                    self.report(f"{day}: its files were written anew, read again")

    def usable_days(self) -> list[str]:
        """Days that have raw files and a cache with rows and that no check rejected, oldest first.

        The store may hold more: days of another folder, or a cache made before the day's file was replaced by one
        that was rejected.
        """
        return [
            day for day in self.store.partitions("fxcache") if day in self.raw_files and self._passed(day)
        ]

    def _passed(self, day: str) -> bool:
        return all(self.store.status(stage, day) == "ok" for stage in ("trades", "data_quality", "fxcache"))

    def _judged(self, day: str) -> bool:
        return self.store.status("data_quality", day) not in (MISSING, DAMAGED)

    def days(self, which: Days) -> list[str]:
        """Days of one part of the sample; the last `walk_forward.oos_days` are out of sample.

        Raises:
            DataError: fewer usable days than the out-of-sample part and one more.
        """
        if which is Days.JUDGED:
            judged = self.store.partitions("data_quality")
            return [day for day in judged if day in self.raw_files and self._judged(day)]
        usable, held_out = self.usable_days(), self.config.walk_forward.oos_days
        if which is Days.ALL:
            return usable
        if len(usable) <= held_out:
            raise DataError(
                f"{self.config.name} has {len(usable)} usable days, must be more than walk_forward.oos_days = "
                f"{held_out}: add raw files or hold out fewer days"
            )
        in_sample, out_of_sample = in_sample_oos(usable, held_out)
        return in_sample if which is Days.IN_SAMPLE else out_of_sample


def open_scope(
    config: PipelineConfig, workspace: Workspace, *, raw: str | None, report: Callable[[str], None] = print
) -> Scope:
    """The scope of a market whose raw files lie where `raw` says, else where its configuration does.

    Args:
        config: the market.
        workspace: where everything else lies.
        raw: path (a relative one starts here) or URL, None for the configured place.
        report: receives lines of progress.

    Raises:
        ConfigError: the place is no path and no URL of a kind that is understood.
    """
    store = ArtifactStore(workspace.store(config.name))
    folder = open_folder(
        _place(config, workspace, raw),
        spool=Spool(workspace.spool, round(config.source.spool_gib * 2**30)),
        index=DigestIndex(store.root / "raw_digests.json"),
    )
    return Scope(config=config, store=store, raw=folder, report=report)


def _place(config: PipelineConfig, workspace: Workspace, raw: str | None) -> str:
    """Where raw files lie, as an absolute path or a URL; a configured path starts at the workspace."""
    if raw is not None:
        return raw if is_url(raw) else str(Path(raw).resolve())
    configured = config.source.raw or str(workspace.raw(config.name))
    return configured if is_url(configured) else str(workspace.root / configured)


@dataclass(frozen=True, kw_only=True)
class StageContext:
    """What one run of one stage sees.

    Attributes:
        scope: see Scope.
        partition: the day, or WHOLE.
        out: folder to write into.
        work: folder that outlives a killed run, for the next one of the same stamp; absent until somebody makes it.
    """

    scope: Scope
    partition: str
    out: Path
    work: Path

    @property
    def config(self) -> PipelineConfig:
        return self.scope.config

    @property
    def store(self) -> ArtifactStore:
        return self.scope.store

    def upstream(self, stage: str, partition: str = WHOLE) -> Path:
        """Folder of a published upstream artifact."""
        return self.store.get(stage, partition).path


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One box of the pipeline.

    Attributes:
        name: noun, also the asset's name.
        description: what a person reads on the page.
        group: part of the pipeline it belongs to, a tag on the page (the page groups by instrument).
        kinds: technologies, shown as badges.
        per_day: whether days are its partitions.
        upstream: what it reads.
        version: version of its logic, as a function because some are derived from code.
        settings: the part of the configuration it reads.
        run: the one function.
        checks: names of the checks that `run` returns, with True for those that stop what lies downstream.
    """

    name: str
    description: str
    group: str
    kinds: frozenset[str]
    per_day: bool
    upstream: Sequence[Upstream]
    version: Callable[[PipelineConfig], str]
    settings: Callable[[PipelineConfig], Any]
    run: Callable[[StageContext], StageResult]
    checks: Mapping[str, bool] = field(default_factory=dict)


def required_stamp(stage: Stage, scope: Scope, partition: str) -> Stamp:
    """The stamp a rebuild would carry now.

    Raises:
        DataError: an upstream artifact was never published.
    """
    inputs = {} if stage.upstream else scope.raw_digests(partition)
    for edge in stage.upstream:
        if edge.content:
            inputs |= {
                f"{edge.stage}/{p}": scope.store.get(edge.stage, p).digest
                for p in _read(edge, scope, partition)
            }
    return Stamp(
        code=stage.version(scope.config), config=digest_json(stage.settings(scope.config)), inputs=inputs
    )


def _read(edge: Upstream, scope: Scope, partition: str) -> list[str]:
    if edge.days is Days.SAME:
        return [partition]
    return [WHOLE] if edge.days is Days.WHOLE else scope.days(edge.days)


def execute(stage: Stage, scope: Scope, partition: str, info: dict[str, Any]) -> tuple[StageResult, Artifact]:
    """Run a stage and publish what it made; on any error the artifact in force stays as it was.

    Args:
        stage: which.
        scope: where.
        partition: the day, or WHOLE.
        info: free facts to keep beside the artifact, such as the orchestrator's run id.

    Returns:
        The result for people and the published artifact.

    Raises:
        AlphaError: an input cannot serve, the disk is full or the store may not be written.
    """
    _refuse_rejected(stage, scope, partition)
    with (
        refusals_told(scope.store.root),
        scope.store.locked(stage.name, partition),
        scope.store.attempt(stage.name, partition) as out,
        _inputs(stage, scope, partition),
    ):
        stamp = required_stamp(stage, scope, partition)
        if "torch" in stage.kinds:
            use_threads(scope.config.threads)
        work = scope.store.work(stage.name, stamp, partition)
        with failure_kept(out.parent, stamp):
            result = stage.run(StageContext(scope=scope, partition=partition, out=out, work=work))
            result = replace(result, checks=completed(result.checks, stage.checks))
            _write_result(result, out)
            status = "rejected" if any(c.blocking for c in result.failed) else result.status
            return result, scope.store.publish(out, stamp=stamp, status=status, info=info)


def _refuse_rejected(stage: Stage, scope: Scope, partition: str) -> None:
    """A blocking check holds also where a single stage is asked for, on the page or by a script."""
    for edge in stage.upstream:
        if edge.days in (Days.SAME, Days.WHOLE):
            (read,) = _read(edge, scope, partition)
            if scope.store.status(edge.stage, read) == "rejected":
                raise DataError(
                    f"{stage.name} stands on {edge.stage}, which its own checks rejected: mend its input or the "
                    f"thresholds, then run {edge.stage} again"
                )


def _inputs(stage: Stage, scope: Scope, partition: str) -> AbstractContextManager[None]:
    """Raw files are held from before their digests are asked until they were read."""
    return nullcontext() if stage.upstream else scope.raw_at_hand(partition)


def _write_result(result: StageResult, out: Path) -> None:
    """Store what people see: `result.json`, tables as Parquet, figures as Plotly JSON."""
    summary = {
        "status": result.status,
        "metrics": dict(result.metrics),
        "params": dict(result.params),
        "checks": list(result.checks),
        "tables": list(result.tables),
        "figures": list(result.figures),
    }
    (out / "result.json").write_text(json.dumps(json.loads(canonical_json(summary)), indent=1))
    for name, table in result.tables.items():
        table.write_parquet(_named(out / "tables", f"{name}.parquet"))
    for name, figure in result.figures.items():
        _named(out / "figures", f"{name}.json").write_text(str(figure.to_json()))


def _named(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    return folder / name
