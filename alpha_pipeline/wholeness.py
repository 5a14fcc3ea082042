"""Whether the files of a published artifact are those that were published, told without reading them each time.

Beside the pointer of a partition lies what its files looked like when their bytes were last known to be right:

    <store>/<stage>/<partition>/verified.json   attempt, and the identity of each of its files (see `digests`)

Files that look the same are taken to be the same. Others are read once: a store that was copied or touched is found
whole and remembered as it looks now, a file that was changed, cut short or lost is told. The record may be lost or
spoiled at any time, which costs one reading. What changes on a disk without being written is found by `alpha cache
verify --full` alone.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from alpha_core.durable import write_atomic
from alpha_pipeline.digests import identity
from alpha_pipeline.provenance import digest_tree

RECORD = "verified.json"

_read_here: dict[Path, Mapping[str, str]] = {}
"""What this process found whole by reading, for stores that it may not write to."""


def remember(folder: Path) -> None:
    """Note how the files of an attempt look, just after their digest was made."""
    _remember(folder, _identities(folder))


def damage(folder: Path, digest: str) -> str | None:
    """What is wrong with the files of an attempt, in a sentence; None when nothing is.

    Args:
        folder: of the attempt.
        digest: content digest that was published with it.
    """
    found = _identities(folder)
    if found in (_read_here.get(folder), known := _recorded(folder)):
        return None
    try:
        whole = digest_tree(folder) == digest
    except OSError as error:
        return f"{error.filename or folder} cannot be read ({os.strerror(error.errno or 0)})"
    if whole and found == _identities(folder):
        _remember(folder, found)
        return None
    return f"{folder} is not what was published: {_difference(known, found)}"


def _identities(folder: Path) -> dict[str, str]:
    """Identity of each file below a folder by relative path; hidden files do not count, as in its digest."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with suppress(FileNotFoundError):
                if not name.startswith(".") and path.is_file():
                    found[path.relative_to(folder).as_posix()] = identity(path)
    return found


def _recorded(folder: Path) -> Mapping[str, str] | None:
    try:
        stored = json.loads((folder.parent / RECORD).read_bytes())
        return stored["files"] if stored["attempt"] == folder.name else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(folder: Path, found: Mapping[str, str]) -> None:
    _read_here[folder] = found
    with suppress(OSError):
        record = {"attempt": folder.name, "files": found}
        write_atomic(folder.parent / RECORD, json.dumps(record, indent=0).encode())


def _difference(known: Mapping[str, str] | None, found: Mapping[str, str]) -> str:
    if known is None:
        return "its content has another digest"
    kinds = {
        "gone": sorted(known.keys() - found.keys()),
        "not part of it": sorted(found.keys() - known.keys()),
        "changed": sorted(name for name in known.keys() & found.keys() if known[name] != found[name]),
    }
    return "; ".join(f"{', '.join(names)} {kind}" for kind, names in kinds.items() if names)
