"""Publishes a cache file atomically: whoever opens the path sees the old file or the new one, whole.

A file is written beside its target (a rename does not cross filesystems), flushed to disk, renamed over the
target, and the rename itself is flushed. A reader that has mapped the old file keeps its inode. Writers of
one day take turns.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from filelock import FileLock, Timeout

from alpha_core.durable import sync
from alpha_core.errors import AlphaError

LOCK_WAIT_S = 600.0


@contextmanager
def day_lock(path: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Excludes other writers of `path`, in this process or another.

    Args:
        path: the cache file; its folder is created.
        wait_s: seconds to wait for another writer.

    Raises:
        AlphaError: another writer holds the day for longer than that, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=wait_s)
        lock.acquire()
    except Timeout as error:
        raise AlphaError(
            f"{path} is being written by another process, not free within {wait_s:g} s; run again later"
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        yield
    finally:
        lock.release()


def publish(path: Path, batch: pa.RecordBatch, wrap: Callable[[BinaryIO], Any] = lambda file: file) -> None:
    """Replaces `path` by a file that holds `batch`; the caller holds `day_lock(path)`.

    Args:
        path: the cache file.
        batch: its content.
        wrap: makes of the open file what Arrow writes to, see `ColumnSpool.splice`.

    Raises:
        AlphaError: the disk is full or the folder is read-only; the old file, if any, is untouched.
    """
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as file:
            options = pa.ipc.IpcWriteOptions(compression=None)
            with pa.ipc.new_file(wrap(file), batch.schema, options=options) as writer:
                writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> AlphaError:
    """The error for a cache file that its disk or folder does not take."""
    return AlphaError(
        f"{path} cannot be written ({error.strerror or error}); free space or mend the folder's rights"
    )
