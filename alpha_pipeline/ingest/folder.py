"""Where raw files lie: a folder here, or a shared one that is listed by URL and read through local copies.

Paths name files either way. Those of a shared folder lie in the spool and exist only while they are held; until then
name, size and version are known from one listing, and the digest of the content from the last time it was read.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from alpha_core.durable import publish
from alpha_core.errors import InputError
from alpha_pipeline.bucket import Bucket, Stored, local_path
from alpha_pipeline.digests import DigestIndex, is_settled
from alpha_pipeline.ingest.spool import Spool
from alpha_pipeline.provenance import digest_file

_UNREAD = "unread:"
"""Begins the digest of a file whose content nobody read since it changed: no content digest looks like it."""

HEAD_BYTES = 1 << 18
"""Enough for the first block of a compressed file, which holds the header of all but the largest symbol lists."""

_LISTENERS = 8


class RawFolder(Protocol):
    """The raw files of one instrument."""

    def __str__(self) -> str:
        """Path or URL, from which the folder can be opened again."""
        ...

    @property
    def staging(self) -> Path:
        """A local folder for files that are to be added."""
        ...

    def files(self) -> list[Path]:
        """All files that are not hidden, by name. Raises InputError when there is no such folder."""
        ...

    def others(self) -> dict[Path, str]:
        """What else lies below it and is not hidden, by name, with what it is: "a folder", "a broken link", ..."""
        ...

    def peek(self, paths: Sequence[Path], question: str, answer: Callable[[Path], bool], /) -> list[bool]:
        """What the beginning of each file answers to a question.

        Args:
            paths: which.
            question: names the question, so that its answers may be remembered.
            answer: reads a file that may end early but has its whole header.
        """
        ...

    def held(self, paths: Sequence[Path], /) -> AbstractContextManager[None]:
        """Keeps the files readable and unchanged by this folder while the block lasts."""
        ...

    def digest(self, path: Path) -> str:
        """Content digest, or a text that no content has where nobody has read the content yet."""
        ...

    def unread(self, path: Path, /) -> bool:
        """Whether `digest` cannot tell the content without fetching the file."""
        ...

    def is_settled(self, path: Path, seconds: float, /) -> bool:
        """Whether nobody has written to the file for that long."""
        ...

    def has(self, name: str) -> bool:
        """Whether a file of this very name is there now."""
        ...

    def add(self, whole: Path, name: str) -> None:
        """Move a local file into the folder: others see all of it or nothing."""
        ...


class LocalFolder:
    """A folder of this machine.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path, index: DigestIndex | None = None) -> None:
        self.path = path
        self._index = index

    def __str__(self) -> str:
        return str(self.path)

    @property
    def staging(self) -> Path:
        return self.path

    def files(self) -> list[Path]:
        if not self.path.is_dir():
            raise InputError(f"{self.path} is not a folder: put raw files there or name another folder")
        return [path for path in self._below() if path.is_file()]

    def others(self) -> dict[Path, str]:
        told = {path: _what(path) for path in self._below() if not path.is_file()}
        return {path: what for path, what in told.items() if what}

    def _below(self) -> list[Path]:
        """All that is visible below, each folder once: under its own name if that lies here, else under a link's."""
        found: list[Path] = []
        seen: set[Path] = set()
        waiting = [self.path]
        while waiting:
            for folder, names, files in os.walk(waiting.pop(0), onerror=_refuse_unreadable):
                names[:] = sorted(name for name in names if _visible([name]))
                here = Path(folder)
                if (real := here.resolve()) in seen:
                    names.clear()
                    continue
                seen.add(real)
                found += [here / name for name in (*names, *files) if _visible([name])]
                waiting += [here / name for name in names if (here / name).is_symlink()]
        return sorted(found)

    def peek(self, paths: Sequence[Path], _question: str, answer: Callable[[Path], bool]) -> list[bool]:
        return [answer(path) for path in paths]

    @contextmanager
    def held(self, _paths: Sequence[Path]) -> Iterator[None]:
        yield

    def digest(self, path: Path) -> str:
        return digest_file(path) if self._index is None else self._index.digest(path)

    def unread(self, _path: Path) -> bool:
        return False

    def is_settled(self, path: Path, seconds: float) -> bool:
        return is_settled(path, seconds)

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def add(self, whole: Path, name: str) -> None:
        publish(whole, self.path / name)


class SharedFolder:
    """A folder by URL, read through copies in a spool.

    Attributes:
        bucket: the folder.
    """

    def __init__(self, bucket: Bucket, spool: Spool, index: DigestIndex) -> None:
        self.bucket = bucket
        self._index = index
        part = blake2b(bucket.url.encode(), digest_size=8).hexdigest()
        self._spool = Spool(spool.root / part, spool.limit_bytes)

    def __str__(self) -> str:
        return self.bucket.url

    @property
    def staging(self) -> Path:
        return self._spool.root

    @cached_property
    def _stored(self) -> dict[Path, Stored]:
        return {
            self._spool.path(one.name): one
            for one in self.bucket.list()
            if _visible(tuple(one.name.split("/")))
        }

    def files(self) -> list[Path]:
        return list(self._stored)

    def others(self) -> dict[Path, str]:
        """A bucket knows objects only."""
        return {}

    def peek(self, paths: Sequence[Path], question: str, answer: Callable[[Path], bool]) -> list[bool]:
        with ThreadPoolExecutor(_LISTENERS) as pool:
            told = list(pool.map(lambda path: self._peek(path, question, answer), paths))
        fresh = {
            f"{self._key(p)}?{question}": (self._stored[p].version, str(t))
            for p, t in zip(paths, told, strict=True)
        }
        self._index.remember(fresh)
        return told

    def _peek(self, path: Path, question: str, answer: Callable[[Path], bool]) -> bool:
        stored = self._stored[path]
        known = self._index.known(f"{self._key(path)}?{question}", stored.version)
        if known is not None:
            return known == str(True)
        with TemporaryDirectory(prefix="alpha-head-") as folder:
            head = (
                self.bucket.read(stored.name, first=min(HEAD_BYTES, stored.size))
                if stored.size
                else (b"", "")
            )
            begun = Path(folder) / path.name
            begun.write_bytes(head[0] if head else b"")
            return answer(begun)

    @contextmanager
    def held(self, paths: Sequence[Path]) -> Iterator[None]:
        with ExitStack() as holds:
            for path in paths:
                stored = self._stored[path]
                holds.enter_context(
                    self._spool.held(
                        stored.name,
                        stored.version,
                        stored.size,
                        lambda target, s=stored: self.bucket.fetch(s, target),
                    )
                )
                if self._index.known(self._key(path), stored.version) is None:
                    self._index.remember({self._key(path): (stored.version, digest_file(path))})
            yield

    def digest(self, path: Path) -> str:
        version = self._stored[path].version
        return self._index.known(self._key(path), version) or f"{_UNREAD}{version}"

    def unread(self, path: Path) -> bool:
        return self.digest(path).startswith(_UNREAD)

    def is_settled(self, _path: Path, _seconds: float) -> bool:
        """An object is seen only when it is whole."""
        return True

    def has(self, name: str) -> bool:
        return self.bucket.find(name) is not None

    def add(self, whole: Path, name: str) -> None:
        self.bucket.put_file(name, whole)
        whole.unlink()
        self.__dict__.pop("_stored", None)  # the next listing knows it

    def _key(self, path: Path) -> str:
        return f"{self.bucket.url}/{self._stored[path].name}"


def open_folder(location: str, *, spool: Spool, index: DigestIndex) -> RawFolder:
    """The folder of a path, a file:// URL or an s3:// URL.

    Raises:
        ConfigError: another URL, or the environment lacks credentials.
    """
    here = local_path(location)
    if here is not None:
        return LocalFolder(here, index)
    return SharedFolder(Bucket(location), spool, index)


def _what(path: Path) -> str:
    """What lies at a path where no file does; nothing when it is gone since it was seen."""
    if path.is_dir():
        return "a folder"
    if path.is_symlink():
        return "a broken link"
    return "a pipe, socket or device" if path.exists() else ""


def _refuse_unreadable(error: OSError) -> None:
    """The walk would pass over a folder that may not be read, and its days would be missing."""
    if isinstance(error, FileNotFoundError):
        return  # gone since it was seen
    raise InputError(
        f"{error.filename} cannot be searched ({error.strerror}): give the right to read it, or move it"
    )


def _visible(parts: Sequence[str]) -> bool:
    """Whether no part is hidden; a part that begins with a dot cannot lead out of a folder either."""
    return all(part and not part.startswith(".") and "\0" not in part for part in parts)
