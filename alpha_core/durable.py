"""Files that survive a crash: what is published is on the disk, and whole."""

import os
import secrets
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until a file, or what a folder lists, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file so that any reader, and any crash, sees the old or the new content and nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        temporary.write_bytes(data)
        publish(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def publish(whole: Path, target: Path) -> None:
    """Give a finished file of the same file system its final name; a crash leaves the old or the new content."""
    sync(whole)
    whole.replace(target)
    sync(target.parent)
