"""Content digests of raw files, remembered, so that terabytes are not read again to learn that nothing changed.

A digest is trusted while device, inode, size, modification time and change time of the file are what they were when
its bytes were read. The change time is what counts: whoever writes, replaces or touches a file moves it, and no
program can set it back. A file that changed within `SETTLED_NS` before it was read is not remembered, because another
write inside the same tick of the clock would leave no trace.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from alpha_core.durable import write_atomic
from alpha_pipeline.bucket import is_url
from alpha_pipeline.provenance import digest_file

SETTLED_NS = 2 * 10**9


class DigestIndex:
    """Digests by path, kept in one JSON file that may be lost or spoiled at any time: files are then read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path)

    def digest(self, file: Path) -> str:
        """Content digest of a file, as `provenance.digest_file` makes it."""
        name, before = str(file.resolve()), identity(file)
        known = self._known.get(name)
        if known is not None and known[0] == before:
            return known[1]
        began = time.time_ns()
        value = digest_file(file)
        if identity(file) == before and began - _changed_ns(file) > SETTLED_NS:
            self.remember({name: (before, value)})
        return value

    def known(self, name: str, identified: str) -> str | None:
        """What is remembered of a file by name, None unless its identity is still the same."""
        for _ in range(2):
            found = self._known.get(name)
            if found is not None and found[0] == identified:
                return found[1]
            self._known = _read(self._path)  # another process may have learnt it meanwhile
        return None

    def remember(self, entries: Mapping[str, tuple[str, str]]) -> None:
        """Keep identity and value by name, beside what other processes keep; files that are gone are dropped.

        Where nothing can be written (a full disk, a store that may only be read) they are kept by this process alone:
        that costs others a reading and changes no answer.
        """
        self._known = self._known | dict(entries)
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_name(f".{self._path.name}.lock")):
                merged = self._known | _read(self._path) | dict(entries)
                self._known = {k: v for k, v in merged.items() if is_url(k) or Path(k).exists()}
                write_atomic(self._path, json.dumps(self._known, indent=0).encode())


def identity(file: Path) -> str:
    """What changes whenever the file's bytes do, without reading them."""
    found = file.stat()
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return ":".join(map(str, numbers))


def is_settled(file: Path, seconds: float) -> bool:
    """Whether nobody has written to the file for that long."""
    return time.time_ns() - _changed_ns(file) > seconds * 1e9


def _changed_ns(file: Path) -> int:
    found = file.stat()
    return max(found.st_mtime_ns, found.st_ctime_ns)


def _read(path: Path) -> dict[str, tuple[str, str]]:
    try:
        stored = json.loads(path.read_text())
        return {str(name): (str(entry[0]), str(entry[1])) for name, entry in stored.items()}
    except (OSError, ValueError, AttributeError, IndexError, TypeError):
        return {}
