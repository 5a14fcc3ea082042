"""The feature cache as a desk operates it: what is there, whether it is whole, what can go. Builds nothing."""

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alpha_core.errors import AlphaError, ConfigError
from alpha_pipeline.artifacts import DAMAGED, MISSING, refusals_told
from alpha_pipeline.fxcache import CacheInfo, open_day
from alpha_pipeline.fxcache.readers import read_info
from alpha_pipeline.plan import stale_day
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import Scope, required_stamp
from alpha_pipeline.stages.fxcache import FILE
from alpha_pipeline.stages.fxcache import STAGE as CACHE

GARBAGE_AGE_S = 3600.0
"""Younger leftovers may be an attempt in the making, or held open by a reader."""


@dataclass(frozen=True, kw_only=True)
class CachedDayLine:
    """One day of the cache.

    Attributes:
        day: partition key.
        version: format version of the file, None when its header cannot be read.
        rows: decision points.
        bytes: size of the file.
        status: "ok", "empty", or "damaged".
        sampler: what a row is.
        builder: start of the builder digest.
        degraded: what an old format version lacks.
        stale: why it would be rebuilt now; empty when it is up to date.
    """

    day: str
    version: int | None
    rows: int
    bytes: int
    status: str
    sampler: str
    builder: str
    degraded: Sequence[str]
    stale: Sequence[str]


def list_cached(scope: Scope) -> list[CachedDayLine]:
    """All days in the cache, oldest first, whether their raw files are still there or not."""
    return [_line(scope, day) for day in scope.store.partitions(CACHE.name)]


def _line(scope: Scope, day: str) -> CachedDayLine:
    stale = _stale_reasons(scope, day)
    try:
        artifact = scope.store.get(CACHE.name, day)
    except AlphaError as error:
        return _damaged_line(day, 0, str(error), stale)
    path = artifact.path / FILE
    try:
        info = read_info(path)
    except AlphaError as error:
        return _damaged_line(day, path.stat().st_size if path.exists() else 0, str(error), stale)
    return CachedDayLine(
        day=day,
        version=info.version,
        rows=info.rows,
        bytes=info.size_bytes,
        status=scope.store.status(CACHE.name, day),
        sampler=info.header.config.get("sampler", {}).get("kind", "unknown"),
        builder=info.header.builder_digest[:12],
        degraded=info.degraded,
        stale=stale,
    )


def _damaged_line(day: str, size: int, problem: str, stale: Sequence[str]) -> CachedDayLine:
    return CachedDayLine(
        day=day,
        version=None,
        rows=0,
        bytes=size,
        status=DAMAGED,
        sampler="",
        builder="",
        degraded=(),
        stale=(problem, *stale),
    )


def _stale_reasons(scope: Scope, day: str) -> list[str]:
    if day not in _raw_days(scope):
        return ["its raw files are gone"]
    day_stages = [stage for stage in STAGES if stage.per_day]
    return [f"{e.stage}: {'; '.join(e.reasons)}" for e in stale_day(day_stages, scope, day)]


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Whether one day's file is whole.

    Attributes:
        day: partition key.
        problem: what is wrong and what to do, None when nothing is.
    """

    day: str
    problem: str | None


def verify_cached(scope: Scope, days: Sequence[str] = (), *, full: bool = False) -> Iterator[Verified]:
    """Open days and compare them with their headers. A damaged one is marked, so that it is stale from then on.

    Args:
        scope: the market.
        days: which; all when empty.
        full: also compare the checksum of every buffer, which reads whole files.

    Raises:
        ConfigError: a day is not in the cache.
        AlphaError: a damaged day cannot be marked.
    """
    for day in _known(scope, days):
        problem = _problem(scope, day, full)
        if problem is not None and day not in _raw_days(scope):
            problem += "; its raw files are gone: bring them back first"
        yield Verified(day=day, problem=problem)


def _problem(scope: Scope, day: str, full: bool) -> str | None:
    """What is wrong with the day that is in force; looked at again when that was replaced meanwhile."""
    while True:
        try:
            artifact = scope.store.get(CACHE.name, day)
        except AlphaError as error:
            return str(error)
        try:
            open_day(artifact.path / FILE, verify="full" if full else "fast")
        except AlphaError as error:
            with refusals_told(scope.store.root):
                if scope.store.note_damage(artifact, str(error)):
                    return str(error)
        else:
            return artifact.damage


def _raw_days(scope: Scope) -> Collection[str]:
    """Days that have raw files; none where the folder is gone or empty."""
    try:
        return scope.raw_files.keys()
    except AlphaError:
        return ()


def _known(scope: Scope, days: Sequence[str]) -> list[str]:
    there = scope.store.partitions(CACHE.name)
    unknown = [day for day in days if day not in there]
    if unknown:
        span = f"its {len(there)} days run from {there[0]} to {there[-1]}" if there else "it has no days"
        raise ConfigError(
            f"day was {', '.join(unknown)}, must be in the cache of {scope.config.name}: {span}"
        )
    return [day for day in there if not days or day in days]


def describe_cached(scope: Scope, day: str) -> dict[str, Any]:
    """Everything about one day: header, stored and required stamp, and what its quality stage said.

    Raises:
        ConfigError: the day is not in the cache.
        InputError: its file is damaged.
    """
    _known(scope, [day])
    artifact = scope.store.get(CACHE.name, day)
    info: CacheInfo = open_day(artifact.path / FILE).info
    quality = scope.store.status("data_quality", day)
    there = day in _raw_days(scope)
    return {
        **info.to_dict(),
        "stored_stamp": artifact.stamp.to_dict(),
        "required_stamp": required_stamp(CACHE, scope, day).to_dict() if there else None,
        "stale": _stale_reasons(scope, day),
        "quality": None if quality == MISSING else quality,
    }


@dataclass(frozen=True, kw_only=True)
class Garbage:
    """A folder or file that no artifact in force needs.

    Attributes:
        path: where it lies.
        bytes: what it holds.
    """

    path: Path
    bytes: int


def collect_garbage(
    scope: Scope, *, dry_run: bool = False, min_age_s: float = GARBAGE_AGE_S
) -> list[Garbage]:
    """Remove what killed or superseded attempts of all stages left; what is in force, in the making or young stays.

    Args:
        scope: the market.
        dry_run: only say what would go.
        min_age_s: age below which nothing is touched, in seconds.
    """
    with refusals_told(scope.store.root):
        found = [
            Garbage(path=path, bytes=sum(p.stat().st_size for p in (path, *path.rglob("*")) if p.is_file()))
            for path in scope.store.leftovers(min_age_s)
        ]
        for garbage in found if not dry_run else ():
            _remove(garbage.path)
    return found


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
