"""Local copies of shared files, for as long as they are read, and within a bound on their size.

A copy is fetched under a hidden name, compared with the size that was told and renamed. Beside it lies the version
that it is a copy of. Readers hold a shared lock on the copy; who replaces or removes it needs the lock alone. So
several processes fetch a file once, and none finds it changed or gone while it reads.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alpha_core.errors import DataError

PARTIAL, VERSION, LOCK = ".partial", ".version", ".lock"


class Spool:
    """A folder of copies.

    Attributes:
        root: the folder; nothing else lies in it.
        limit_bytes: what copies may take together. Copies being read are never removed, so that what is in use at
            a time may exceed it.
    """

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def path(self, name: str) -> Path:
        """Where the copy of `name` lies, whether it is there or not."""
        return self.root / name

    @contextmanager
    def held(self, name: str, version: str, size: int, fetch: Callable[[Path], None]) -> Iterator[Path]:
        """The copy of one version of a file; it stays as it is until the block is left.

        Args:
            name: relative path, which the copy keeps.
            version: what changes whenever the content does.
            size: bytes.
            fetch: writes the file's bytes to a path, whole, or raises.
        """
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _beside(path, LOCK).open("a") as lock:
            while True:
                fcntl.flock(lock, fcntl.LOCK_SH)
                if _is_copy(path, version, size):
                    break
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not _is_copy(path, version, size):
                    self._fetch(path, version, size, fetch)
            now = time.time_ns()  # finer than what the file system takes by itself
            os.utime(_beside(path, VERSION), ns=(now, now))
            yield path

    def _fetch(self, path: Path, version: str, size: int, fetch: Callable[[Path], None]) -> None:
        self._make_room(size)
        _remove(path)
        partial = _beside(path, PARTIAL)
        try:
            fetch(partial)
            partial.replace(path)
            _beside(path, VERSION).write_text(version)
        except OSError as error:
            raise DataError(
                f"{path} cannot be written ({error.strerror or error}): free space or lower source.spool_gib"
            ) from error
        finally:
            partial.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Remove the copies that were used longest ago until `size` more bytes fit; those in use stay."""
        copies = [
            (version.stat().st_mtime_ns, version.with_name(version.name[1 : -len(VERSION)]))
            for version in self.root.rglob(f".*{VERSION}")
        ]
        taken = sum(path.stat().st_size for _, path in copies if path.exists())
        for _, path in sorted(copies):
            if taken + size <= self.limit_bytes:
                return
            taken -= _removed_if_idle(path)


def _removed_if_idle(path: Path) -> int:
    """Bytes that were set free; 0 when somebody reads the copy."""
    with _beside(path, LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        size = path.stat().st_size if path.exists() else 0
        _remove(path)
        return size


def _remove(path: Path) -> None:
    _beside(path, VERSION).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _is_copy(path: Path, version: str, size: int) -> bool:
    with suppress(FileNotFoundError):
        return _beside(path, VERSION).read_text() == version and path.stat().st_size == size
    return False


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}{suffix}")
