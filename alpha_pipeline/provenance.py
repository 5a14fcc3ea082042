"""Where an artifact came from, and whether it is still what today's code and inputs would make.

A stamp is what a result depends on: the version of the code, the digest of the configuration it reads and the
digests of its inputs. Stored and required stamps are compared in one place, and all differences are listed.
"""

import dataclasses
import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from alpha_pipeline.paths import PROJECT

_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stamp:
    """What a result depends on.

    Attributes:
        code: version of the stage's logic.
        config: digest of the part of the configuration that the stage reads.
        inputs: name of each input, as `stage/partition` or a file's name, to its content digest.
    """

    code: str
    config: str
    inputs: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "config": self.config, "inputs": dict(sorted(self.inputs.items()))}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> "Stamp":
        return cls(code=raw["code"], config=raw["config"], inputs=raw["inputs"])

    @property
    def version(self) -> str:
        """Short digest of the whole stamp, shown to people and carried as a tag."""
        return digest_json(self.to_dict())


def differences(stored: Stamp | None, required: Stamp) -> list[str]:
    """Every reason why the stored result is not what is required today; empty when it is.

    Args:
        stored: stamp of the published result, None when there is none.
        required: stamp that a rebuild would carry.
    """
    if stored is None:
        return ["never built"]
    reasons = []
    if stored.code != required.code:
        reasons.append(f"code version {stored.code} is now {required.code}")
    if stored.config != required.config:
        reasons.append("its configuration changed")
    for name in sorted(set(stored.inputs) | set(required.inputs)):
        was, now = stored.inputs.get(name), required.inputs.get(name)
        if was is None:
            reasons.append(f"input {name} is new")
        elif now is None:
            reasons.append(f"input {name} is gone")
        elif was != now:
            reasons.append(f"input {name} changed")
    return reasons


def digest_json(value: Any) -> str:
    """Digest of a JSON-like value, dataclasses included, independent of key order."""
    return hashlib.blake2b(canonical_json(value).encode(), digest_size=16).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys; dataclasses become objects. Raises TypeError for what JSON has no form for."""

    def encode(item: Any) -> Any:
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return dataclasses.asdict(item)
        raise TypeError(f"{type(item).__name__} has no JSON form")

    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=encode, allow_nan=False)


def digest_file(path: Path) -> str:
    """Content digest of one file; times and names do not enter."""
    with path.open("rb") as stream:
        return digest_pieces(iter(lambda: stream.read(_CHUNK), b""))


def digest_pieces(pieces: Iterable[bytes]) -> str:
    """Content digest of bytes that come piece by piece, however they are cut."""
    state = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        state.update(piece)
    return state.hexdigest()


def digest_tree(folder: Path) -> str:
    """Content digest of all files below a folder, by relative path and bytes; hidden files (locks) do not count."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
    return digest_json([[p.relative_to(folder).as_posix(), digest_file(p)] for p in files])


@cache
def git_revision() -> str:
    """The revision of the code that runs, with `-dirty` when files differ from it; `unknown` outside a checkout."""
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"
