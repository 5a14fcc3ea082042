"""The feature cache as a desk operates it: what is there, whether it is whole, what can go. Builds nothing."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alpha_core.errors import AlphaError, ConfigError
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
    artifact = scope.store.get(CACHE.name, day)
    path = artifact.path / FILE
    stale = _stale_reasons(scope, day)
    try:
        info = read_info(path)
    except AlphaError as error:
        size = path.stat().st_size if path.exists() else 0
        return CachedDayLine(
            day=day,
            version=None,
            rows=0,
            bytes=size,
            status="damaged",
            sampler="",
            builder="",
            degraded=(),
            stale=(str(error), *stale),
        )
    return CachedDayLine(
        day=day,
        version=info.version,
        rows=info.rows,
        bytes=info.size_bytes,
        status=artifact.status,
        sampler=info.header.config.get("sampler", {}).get("kind", "unknown"),
        builder=info.header.builder_digest[:12],
        degraded=info.degraded,
        stale=stale,
    )


def _stale_reasons(scope: Scope, day: str) -> list[str]:
    if day not in scope.raw_files:
        return ["its raw files are gone"]
    day_stages = [stage for stage in STAGES if stage.per_day]
    return [f"{e.stage}: {'; '.join(e.reasons)}" for e in stale_day(day_stages, scope, day)]


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Whether one day's file is whole.

    Attributes:
        day: partition key.
        problem: what is wrong, None when nothing is.
        withdrawn: whether the damaged artifact was taken out of force, so that `alpha build` makes it anew.
    """

    day: str
    problem: str | None
    withdrawn: bool = False


def verify_cached(
    scope: Scope, days: Sequence[str] = (), *, full: bool = False, withdraw: bool = False
) -> Iterator[Verified]:
    """Open days and compare them with their headers.

    Args:
        scope: the market.
        days: which; all when empty.
        full: also compare the checksum of every buffer, which reads whole files.
        withdraw: take damaged artifacts out of force.

    Raises:
        ConfigError: a day is not in the cache.
    """
    for day in _known(scope, days):
        artifact = scope.store.get(CACHE.name, day)
        try:
            open_day(artifact.path / FILE, verify="full" if full else "fast")
        except AlphaError as error:
            if withdraw:
                scope.store.withdraw(CACHE.name, day)
            yield Verified(day=day, problem=str(error), withdrawn=withdraw)
        else:
            yield Verified(day=day, problem=None)


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
    quality = scope.store.find("data_quality", day)
    there = day in scope.raw_files
    return {
        **info.to_dict(),
        "stored_stamp": artifact.stamp.to_dict(),
        "required_stamp": required_stamp(CACHE, scope, day).to_dict() if there else None,
        "stale": _stale_reasons(scope, day),
        "quality": None if quality is None else quality.status,
    }


@dataclass(frozen=True, kw_only=True)
class Garbage:
    """A folder that no artifact in force needs.

    Attributes:
        path: the folder.
        bytes: what it holds.
    """

    path: Path
    bytes: int


def collect_garbage(
    scope: Scope, *, dry_run: bool = False, min_age_s: float = GARBAGE_AGE_S
) -> list[Garbage]:
    """Remove what killed or superseded attempts of all stages left; what is in force, or young, stays.

    Args:
        scope: the market.
        dry_run: only say what would go.
        min_age_s: age below which nothing is touched, in seconds.
    """
    found = [
        Garbage(path=path, bytes=sum(p.stat().st_size for p in path.rglob("*") if p.is_file()))
        for path in scope.store.leftovers(min_age_s)
    ]
    for garbage in found:
        if not dry_run:
            shutil.rmtree(garbage.path, ignore_errors=True)
    return found
