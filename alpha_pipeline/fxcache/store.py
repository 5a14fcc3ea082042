"""A folder of cache files, one a day: names, listing, cleaning."""

import time
from pathlib import Path

from alpha_pipeline.fxcache.format import check_day

SUFFIX = ".fxcache"
LEFTOVER_AGE_S = 3600.0


def day_path(folder: Path, day: str) -> Path:
    """Where a day's file lies. Raises ConfigError for anything but a date."""
    return folder / f"{check_day(day)}{SUFFIX}"


def list_days(folder: Path) -> dict[str, Path]:
    """Cache files by day, in order; damaged ones included, unpublished ones not."""
    return {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"[0-9]*{SUFFIX}"))}


def collect_garbage(folder: Path, min_age_s: float = LEFTOVER_AGE_S) -> list[Path]:
    """Deletes what killed writers left unpublished, and names it; younger files may be in the making."""
    old = [p for p in folder.glob(f".*{SUFFIX}.*.tmp") if time.time() - p.stat().st_mtime >= min_age_s]
    for path in old:
        path.unlink(missing_ok=True)
    return old
