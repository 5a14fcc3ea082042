"""Provenance: what a cache file was made from, what it should have been made from, and how the two differ.

The builder digest covers the format version, the configuration, the constants of the data layout, and the
code of the feature and cache-building modules as a syntax tree: comments, docstrings and formatting do not
count, everything else does. Versions of Python and of libraries do not count.
"""

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from alpha_core import shapes
from alpha_core.errors import InputError
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache.readers import read_header

PACKAGE = Path(__file__).resolve().parent.parent
BUILDER_FILES = ("fxcache/build.py", "fxcache/format.py", "fxcache/spool.py")


def builder_digest(config: FeatureConfig) -> str:
    """Identity of everything but the sources that decides the bytes of a cache file, in hex."""
    constants = (shapes.LEVELS, shapes.FEATURES, shapes.HORIZONS, shapes.UNDEFINED_TICKS)
    parts = [layout.FXCACHE_VERSION, constants, asdict(config), _code_digest(PACKAGE)]
    return layout.digest(json.dumps(parts, sort_keys=True).encode())


@cache
def _code_digest(package: Path) -> str:
    paths = sorted((package / "features").glob("*.py")) + [package / name for name in BUILDER_FILES]
    return code_digest({str(path.relative_to(package)): path.read_text() for path in paths})


def code_digest(sources: Mapping[str, str]) -> str:
    """Digest of Python sources by name, blind to comments, docstrings and formatting."""
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(sources):
        state.update(f"file {name} {_source_digest(sources[name])}\n".encode())
    return state.hexdigest()


@cache
def _source_digest(source: str) -> str:
    """Digest of one file; a module that many stages import is walked once."""
    tokens = "\n".join(_walk(ast.parse(source)))
    return hashlib.blake2b(tokens.encode(), digest_size=16).hexdigest()


def _walk(node: Any) -> Iterator[str]:
    """The tree in prefix order, without empty fields, since Python versions differ in which ones exist."""
    if isinstance(node, list):
        for item in node:
            yield from _walk(item)
    elif isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            kept = _without_docstring(value) if name == "body" else value
            if kept not in (None, []):
                yield f".{name}"
                yield from _walk(kept)
        yield ")"
    else:
        yield repr(node)


def _without_docstring(body: Any) -> Any:
    """Statements that do something: bare strings (docstrings, attribute docs) are left out."""
    if not isinstance(body, list):
        return body
    return [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]


def required_stamp(config: FeatureConfig, source_digests: Mapping[str, str]) -> dict[str, Any]:
    """The stamp that a file must carry to be current."""
    return {
        "format_version": layout.FXCACHE_VERSION,
        "builder_digest": builder_digest(config),
        "source_digests": dict(sorted(source_digests.items())),
    }


def read_stamp(path: Path) -> dict[str, Any] | None:
    """The stamp a file carries, None when there is no file. Reads no data.

    Raises:
        InputError: the file is damaged, or is no cache file.
    """
    if not path.exists():
        return None
    version, header = read_header(path)
    return {
        "format_version": version,
        "builder_digest": header.builder_digest,
        "source_digests": dict(sorted(header.source_digests.items())),
    }


def stale_reasons(path: Path, required: Mapping[str, Any]) -> list[str]:
    """Why a file must be built: every difference between its stamp and the required one; empty when current.

    A damaged file is a reason too, since building heals it.
    """
    try:
        stored = read_stamp(path)
    except InputError as error:
        return [str(error)]
    if stored is None:
        return [f"{path} does not exist"]
    return [
        f"{key} is {stored.get(key)!r}, must be {wanted!r}"
        for key, wanted in required.items()
        if stored.get(key) != wanted
    ]
