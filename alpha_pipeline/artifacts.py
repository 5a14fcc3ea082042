"""The artifact store: what stages publish, where, and with which provenance.

    <store>/<stage>/<partition>/<attempt>/...   everything one successful attempt wrote, immutable
    <store>/<stage>/<partition>/current.json    points at the attempt in force and says where it came from
    <store>/<stage>/<partition>/verified.json   how its files looked when they were last known whole, see `wholeness`
    <store>/<stage>/<partition>/work-<stamp>/   what a long attempt left for the next one of the same stamp to go on

Replacing `current.json` is the only moment of publication. A process killed before it leaves the old artifact in
force, and an attempt folder that nothing points at; a publication removes such leftovers a day later. The attempt
that was in force before stays until the next publication, for readers that still hold it open by name.

Whoever writes into a partition holds its lock. So what lies there unpublished while nobody holds it is a leftover.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from alpha_core.durable import sync, write_atomic
from alpha_core.errors import AlphaError, DataError
from alpha_pipeline import wholeness
from alpha_pipeline.provenance import Stamp, digest_tree

WHOLE = "all"
"""Partition of a stage that is not divided by day."""

_POINTER = "current.json"
_POINTER_KEYS = {"attempt", "stamp", "digest", "status", "info"}
_ATTEMPT = re.compile(r"attempt-[0-9a-f]{12}")
_LEFTOVER_SECONDS = 24 * 3600
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)

MISSING, DAMAGED = "missing", "damaged"
"""Standings of a partition beside the stored statuses, see `ArtifactStore.status`."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One published result.

    Attributes:
        stage: name of the stage.
        partition: trading day, or WHOLE.
        path: folder with its files.
        stamp: what it was made from.
        digest: content digest of the folder.
        status: `ok`, or a word that tells consumers why to leave it out (`empty`, `rejected`).
        info: free facts such as time and run identity.
        damage: what was found wrong with its files since, None as long as nothing was.
    """

    stage: str
    partition: str
    path: Path
    stamp: Stamp
    digest: str
    status: str
    info: dict[str, Any]
    damage: str | None = None

    @property
    def result(self) -> dict[str, Any]:
        """The stored summary of the stage: metrics, params, checks, names of tables and figures."""
        return json.loads((self.path / "result.json").read_text())


class ArtifactStore:
    """Artifacts of one instrument below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, stage: str, partition: str = WHOLE) -> Artifact | None:
        """The artifact in force, None when the partition was never published.

        Raises:
            DataError: its pointer is not readable, or names a folder that is not there.
        """
        pointer = self.root / stage / partition / _POINTER
        raw = _read_pointer(pointer)
        if raw is None:
            return None
        path = pointer.parent / raw["attempt"]
        if not path.is_dir():
            raise DataError(f"{pointer} names {path.name}, which is gone: build {stage} again")
        return Artifact(
            stage=stage,
            partition=partition,
            path=path,
            stamp=Stamp.from_dict(raw["stamp"]),
            digest=raw["digest"],
            status=raw["status"],
            info=raw["info"],
            damage=raw.get("damage") or wholeness.damage(path, raw["digest"]),
        )

    def status(self, stage: str, partition: str = WHOLE) -> str:
        """The stored status of a partition, MISSING when it was never published, DAMAGED when it cannot be used."""
        try:
            found = self.find(stage, partition)
        except DataError:
            return DAMAGED
        if found is None:
            return MISSING
        return found.status if found.damage is None else DAMAGED

    def get(self, stage: str, partition: str = WHOLE) -> Artifact:
        """The artifact in force, to be read.

        Raises:
            DataError: there is none, or its files are not those that were published.
        """
        found = self.find(stage, partition)
        if found is None:
            where = "" if partition == WHOLE else f" of {partition}"
            raise DataError(f"{stage}{where} was never published: materialize it first (`alpha run`)")
        if found.damage is not None:
            raise DataError(f"{found.damage}: build {stage} again (`alpha build`)")
        return found

    def partitions(self, stage: str) -> list[str]:
        """Published partitions of a stage, sorted."""
        return sorted(p.parent.name for p in self.root.glob(f"{stage}/*/{_POINTER}"))

    @contextmanager
    def attempt(self, stage: str, partition: str = WHOLE) -> Iterator[Path]:
        """A fresh folder to write into; removed again when the block raises, kept for `publish` otherwise."""
        folder = self.root / stage / partition / f"attempt-{secrets.token_hex(6)}"
        folder.mkdir(parents=True)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def work(self, stage: str, stamp: Stamp, partition: str = WHOLE) -> Path:
        """Where attempts leave what the next one of the same stamp goes on from; gone once that is published."""
        return self.root / stage / partition / _work_folder(stamp)

    def publish(
        self, folder: Path, *, stamp: Stamp, status: str = "ok", info: dict[str, Any] | None = None
    ) -> Artifact:
        """Put an attempt in force: flush its files, then replace the pointer in one step.

        Args:
            folder: what `attempt` gave, complete.
            stamp: what it was made from.
            status: see Artifact.
            info: free facts, not part of the digest.
        """
        _flush(folder)
        parent = folder.parent
        before = _pointer_if_readable(parent / _POINTER)
        pointer = {
            "attempt": folder.name,
            "previous": before.get("attempt"),
            "stamp": stamp.to_dict(),
            "digest": digest_tree(folder),
            "status": status,
            "info": info or {},
        }
        write_atomic(parent / _POINTER, json.dumps(pointer, indent=1).encode())
        wholeness.remember(folder)
        _forget_old(parent, pointer, superseded=before.get("previous"))
        return self.get(parent.parent.name, parent.name)

    @contextmanager
    def locked(self, stage: str, partition: str = WHOLE, wait_s: float = -1) -> Iterator[None]:
        """Excludes other writers of a partition, in this process or another.

        Raises:
            Timeout: somebody else holds it for longer than `wait_s` seconds; a negative number waits for ever.
        """
        lock = self.root / stage / f".{partition}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=wait_s):
            yield

    def note_damage(self, artifact: Artifact, damage: str) -> bool:
        """Enter what was found wrong with an artifact's files, unless another one is in force by now.

        Returns:
            Whether it was entered.
        """
        with self.locked(artifact.stage, artifact.partition):
            pointer = artifact.path.parent / _POINTER
            raw = _read_pointer(pointer)
            if raw is None or raw["attempt"] != artifact.path.name:
                return False
            write_atomic(pointer, json.dumps(raw | {"damage": damage}, indent=1).encode())
            return True

    def leftovers(self, min_age_s: float) -> list[Path]:
        """What killed and superseded attempts left in partitions that nobody works on.

        Args:
            min_age_s: seconds since its last write, or since it was superseded, below which nothing counts.
        """
        found = []
        for partition in sorted(path for path in self.root.glob("*/*") if path.is_dir()):
            with contextlib.suppress(Timeout), self.locked(partition.parent.name, partition.name, wait_s=0):
                found += _leftovers_of(partition, min_age_s)
        temporary = (path for path in self.root.glob(".*.tmp") if path.is_file())
        return found + sorted(path for path in temporary if _age(path) >= min_age_s)


def _leftovers_of(partition: Path, min_age_s: float) -> list[Path]:
    """What a partition whose lock is held holds beside the attempt in force; nothing where its pointer is damaged."""
    pointer = partition / _POINTER
    try:
        raw = _read_pointer(pointer) or {}
    except DataError:
        return []
    replaced_s = _age(pointer) if raw else 0.0
    ages = {
        folder: min(_age(folder), replaced_s) if folder.name == raw.get("previous") else _age(folder)
        for folder in _unpublished(partition)
        if folder.name != raw.get("attempt")
    }
    ages |= {path: _age(path) for path in partition.glob(".*.tmp")}
    return sorted(path for path, age in ages.items() if age >= min_age_s)


def _work_folder(stamp: Stamp) -> str:
    return f"work-{stamp.version[:12]}"


def _unpublished(partition: Path) -> list[Path]:
    """All attempts and work of a partition; the attempts in force are among them."""
    return [*partition.glob("attempt-*"), *partition.glob("work-*")]


def _age(path: Path) -> float:
    """Seconds since a file, or a folder and all in it, was last written."""
    return time.time() - _last_write(path)


def _last_write(folder: Path) -> float:
    """When a folder or anything in it was last written, in seconds since 1970; now, when it is just going."""
    times = []
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return max(times, default=time.time())


@contextmanager
def refusals_told(folder: Path) -> Iterator[None]:
    """Make one sentence of a disk that is full, or a folder that may not be written.

    Raises:
        AlphaError: the system refused to write, below `folder` as far as is known.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        raise AlphaError(
            f"{error.filename or folder} cannot be written ({os.strerror(error.errno)}): free space or mend the "
            "folder's rights, then run again"
        ) from error


def _read_pointer(pointer: Path) -> dict[str, Any] | None:
    try:
        raw = json.loads(pointer.read_bytes())
        missing = _POINTER_KEYS - raw.keys()
        names = [name for name in (raw.get("attempt"), raw.get("previous")) if name is not None]
        if missing or not all(_ATTEMPT.fullmatch(name) for name in names):
            raise ValueError(f"it lacks {sorted(missing)}" if missing else f"{names} are no attempts")
        Stamp.from_dict(raw["stamp"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{pointer} is not readable ({error}): build its stage again") from error
    return raw


def _pointer_if_readable(pointer: Path) -> dict[str, Any]:
    """What a publication replaces; a damaged pointer is replaced like none, since publishing heals it."""
    try:
        return _read_pointer(pointer) or {}
    except DataError:
        return {}


def _forget_old(parent: Path, pointer: dict[str, Any], superseded: str | None) -> None:
    """Remove the attempt before last, the work that led here, and what killed attempts left a day or more ago."""
    if superseded:
        shutil.rmtree(parent / superseded, ignore_errors=True)
    stamp = Stamp.from_dict(pointer["stamp"])
    shutil.rmtree(parent / _work_folder(stamp), ignore_errors=True)
    for folder in _unpublished(parent):
        age = time.time() - folder.stat().st_mtime
        if folder.name not in (pointer["attempt"], pointer["previous"]) and age > _LEFTOVER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _flush(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            sync(path)
    sync(folder)
