"""Cached days of a workspace to and from a shared folder; a day that cannot be used keeps no other from its way."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from alpha_core.errors import AlphaError, ConfigError
from alpha_pipeline.artifacts import DAMAGED, ArtifactStore, refusals_told
from alpha_pipeline.bucket import Bucket, UnreachedError
from alpha_pipeline.config import load
from alpha_pipeline.fxcache.shared import REFUSED, Exchanged, SharedDays
from alpha_pipeline.fxcache.store import SUFFIX
from alpha_pipeline.paths import Workspace, writable_folder
from alpha_pipeline.stages.fxcache import FILE
from alpha_pipeline.stages.fxcache import STAGE as CACHE


def push_days(
    instrument: str, workspace: Workspace, url: str, days: Sequence[str] = (), *, replace: bool = False
) -> Iterator[Exchanged]:
    """Push the published days of an instrument, oldest first.

    Args:
        instrument: name of a configuration file.
        workspace: where its cache lies.
        url: the shared folder.
        days: which; all usable ones when empty.
        replace: see `SharedDays.push`.

    Raises:
        AlphaError: a day is not in the cache, or the folder cannot be used.
    """
    store = ArtifactStore(workspace.store(load(instrument, workspace).name))
    there = [day for day in store.partitions(CACHE.name) if store.status(CACHE.name, day) in ("ok", DAMAGED)]
    shared = SharedDays(Bucket(url), instrument)
    for day in _chosen(days, there, f"the cache of {instrument}"):
        yield _or_refused(
            day, store.root / CACHE.name / day, lambda day=day: _pushed(store, shared, day, replace)
        )


def _pushed(store: ArtifactStore, shared: SharedDays, day: str, replace: bool) -> Exchanged:
    return shared.push(store.get(CACHE.name, day).path / FILE, replace=replace)


def pull_days(
    instrument: str, workspace: Workspace, url: str, days: Sequence[str] = (), out: Path | None = None
) -> Iterator[Exchanged]:
    """Pull days of an instrument, oldest first, into one file each.

    Args:
        instrument: name of a configuration file.
        workspace: holds `data/pulled/<instrument>`, where the files go by default.
        url: the shared folder.
        days: which; all when empty.
        out: another folder for the files.

    Raises:
        AlphaError: no such day, or a folder cannot be used.
    """
    shared = SharedDays(Bucket(url, make=False), load(instrument, workspace).name)
    chosen = _chosen(days, shared.days(), f"{url} for {instrument}")
    folder = writable_folder(out or workspace.pulled(instrument))
    for day in chosen:
        yield _or_refused(day, folder / f"{day}{SUFFIX}", lambda day=day: shared.pull(day, folder))


def _or_refused(day: str, file: Path, exchange: Callable[[], Exchanged]) -> Exchanged:
    """What came of a day; what is wrong with that day alone is told with it."""
    try:
        with refusals_told(file.parent):
            return exchange()
    except UnreachedError:
        raise
    except AlphaError as error:
        return Exchanged(day=day, outcome=REFUSED, detail=str(error), file=file)


def _chosen(wanted: Sequence[str], there: Sequence[str], where: str) -> list[str]:
    if not there:
        raise ConfigError(f"{where} has no days, must have one at least")
    unknown = [day for day in wanted if day not in there]
    if unknown:
        span = f"its {len(there)} days run from {there[0]} to {there[-1]}"
        raise ConfigError(f"day was {', '.join(unknown)}, must be in {where}: {span}")
    return [day for day in there if not wanted or day in wanted]
