"""The artifact store: what stages publish, where, and with which provenance.

    <store>/<stage>/<partition>/<attempt>/...   everything one successful attempt wrote, immutable
    <store>/<stage>/<partition>/current.json    points at the attempt in force and says where it came from

Replacing `current.json` is the only moment of publication. A process killed before it leaves the old artifact in
force, and an attempt folder that nothing points at; a publication removes such leftovers a day later. The attempt
that was in force before stays until the next publication, for readers that still hold it open by name.
"""

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alpha_core.errors import DataError
from alpha_pipeline.provenance import Stamp, digest_tree

WHOLE = "all"
"""Partition of a stage that is not divided by day."""

_POINTER = "current.json"
_LEFTOVER_SECONDS = 24 * 3600


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
    """

    stage: str
    partition: str
    path: Path
    stamp: Stamp
    digest: str
    status: str
    info: dict[str, Any]

    @property
    def result(self) -> dict[str, Any]:
        """The stored summary of the stage: metrics, params, checks, names of tables and figures."""
        return json.loads((self.path / "result.json").read_text())


class ArtifactStore:
    """Artifacts of one instrument below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, stage: str, partition: str = WHOLE) -> Artifact | None:
        """The artifact in force, None when the partition was never published."""
        pointer = self.root / stage / partition / _POINTER
        raw = _read_pointer(pointer)
        if raw is None:
            return None
        path = pointer.parent / raw["attempt"]
        if not path.is_dir():
            return None
        return Artifact(
            stage=stage,
            partition=partition,
            path=path,
            stamp=Stamp.from_dict(raw["stamp"]),
            digest=raw["digest"],
            status=raw["status"],
            info=raw["info"],
        )

    def get(self, stage: str, partition: str = WHOLE) -> Artifact:
        """The artifact in force. Raises DataError naming the stage to materialize when there is none."""
        found = self.find(stage, partition)
        if found is None:
            where = "" if partition == WHOLE else f" of {partition}"
            raise DataError(f"{stage}{where} was never published: materialize it first (`alpha run`)")
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
        before = _read_pointer(parent / _POINTER) or {}
        pointer = {
            "attempt": folder.name,
            "previous": before.get("attempt"),
            "stamp": stamp.to_dict(),
            "digest": digest_tree(folder),
            "status": status,
            "info": info or {},
        }
        write_atomically(parent / _POINTER, json.dumps(pointer, indent=1).encode())
        _forget_old(parent, pointer, superseded=before.get("previous"))
        return self.get(parent.parent.name, parent.name)

    def withdraw(self, stage: str, partition: str = WHOLE) -> None:
        """Take an artifact out of force, as if it had never been published; its files stay until collected."""
        (self.root / stage / partition / _POINTER).unlink(missing_ok=True)

    def leftovers(self, min_age_s: float) -> list[Path]:
        """Attempt folders that no pointer names as in force and that nobody wrote to for that many seconds."""
        found = []
        for folder in sorted(self.root.glob("*/*/attempt-*")):
            pointer = _read_pointer(folder.parent / _POINTER) or {}
            young = time.time() - _last_write(folder) < min_age_s
            if folder.name != pointer.get("attempt") and not young:
                found.append(folder)
        return found


def _last_write(folder: Path) -> float:
    """When a folder or anything in it was last written, in seconds since 1970."""
    times = [folder.stat().st_mtime]
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return max(times)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that any reader, and any crash, sees the old or the new content and nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def publish_file(whole: Path, target: Path) -> None:
    """Give a finished file of the same file system its final name; a crash leaves the old or the new content."""
    with whole.open("rb") as stream:
        os.fsync(stream.fileno())
    whole.replace(target)
    _fsync_folder(target.parent)


def _read_pointer(pointer: Path) -> dict[str, Any] | None:
    try:
        return json.loads(pointer.read_text())
    except FileNotFoundError:
        return None
    except json.JSONDecodeError as error:
        raise DataError(f"{pointer} is not readable ({error.msg} at byte {error.pos}): delete it") from error


def _forget_old(parent: Path, pointer: dict[str, Any], superseded: str | None) -> None:
    """Remove the attempt before last, and what killed attempts left a day or more ago."""
    if superseded:
        shutil.rmtree(parent / superseded, ignore_errors=True)
    for folder in parent.glob("attempt-*"):
        age = time.time() - folder.stat().st_mtime
        if folder.name not in (pointer["attempt"], pointer["previous"]) and age > _LEFTOVER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _flush(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
    _fsync_folder(folder)


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
