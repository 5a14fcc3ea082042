"""Cached days of a workspace to and from a shared folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from alpha_core.errors import ConfigError
from alpha_pipeline.artifacts import ArtifactStore
from alpha_pipeline.bucket import Bucket
from alpha_pipeline.config import load
from alpha_pipeline.fxcache.shared import Exchanged, SharedDays
from alpha_pipeline.paths import Workspace
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
        AlphaError: a day is not in the cache, its file is damaged, or the folder cannot be used.
    """
    store = ArtifactStore(workspace.store(load(instrument, workspace).name))
    good = [day for day in store.partitions(CACHE.name) if store.status(CACHE.name, day) == "ok"]
    usable = {day: store.get(CACHE.name, day).path / FILE for day in good}
    shared = SharedDays(Bucket(url), instrument)
    for day in _chosen(days, list(usable), f"the cache of {instrument}"):
        yield shared.push(usable[day], replace=replace)


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
        AlphaError: no such day, a file that is not what was pushed, or the folder cannot be used.
    """
    shared = SharedDays(Bucket(url), load(instrument, workspace).name)
    for day in _chosen(days, shared.days(), f"{url} for {instrument}"):
        yield shared.pull(day, out or workspace.pulled(instrument))


def _chosen(wanted: Sequence[str], there: Sequence[str], where: str) -> list[str]:
    if not there:
        raise ConfigError(f"{where} has no days, must have one at least")
    unknown = [day for day in wanted if day not in there]
    if unknown:
        span = f"its {len(there)} days run from {there[0]} to {there[-1]}"
        raise ConfigError(f"day was {', '.join(unknown)}, must be in {where}: {span}")
    return [day for day in there if not wanted or day in wanted]
