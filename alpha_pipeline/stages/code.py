"""The version of a stage's code: a digest of everything it imports of ours, so that no edit goes unnoticed.

Comments, docstrings and formatting do not count. Left out is what cannot change a result: how settings are read
(their values are part of the stamp themselves), where artifacts and raw files lie and how their digests are remembered
(the digests are part of the stamp), how pages and progress are shown.
"""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from alpha_pipeline.fxcache.stamp import code_digest

_OURS = ("alpha_core", "alpha_pipeline")
_FRAME = (
    "alpha_pipeline.artifacts",
    "alpha_pipeline.bucket",
    "alpha_pipeline.config",
    "alpha_pipeline.digests",
    "alpha_pipeline.ingest.folder",
    "alpha_pipeline.ingest.spool",
    "alpha_pipeline.paths",
    "alpha_pipeline.plan",
    "alpha_pipeline.provenance",
    "alpha_pipeline.report.figures",
    "alpha_pipeline.report.market_data",
    "alpha_pipeline.report.style",
    "alpha_pipeline.results",
    "alpha_pipeline.schemas",
    "alpha_pipeline.stages",
    "alpha_pipeline.stages.base",
    "alpha_pipeline.stages.checks",
    "alpha_pipeline.stages.code",
    "alpha_pipeline.threads",
    "alpha_pipeline.wholeness",
    "alpha_pipeline.workers",
)


@cache
def code_of(module: str) -> str:
    """Digest of a module and of all our modules it imports, at its top or inside functions; 12 hex digits."""
    return code_digest({name: _source(name) for name in sorted(_closure(module))})[:12]


def _closure(module: str) -> set[str]:
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in found and name not in _FRAME:
            found.add(name)
            waiting.extend(_imports(name))
    return found


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Our modules that a module names in import statements."""
    names: list[str] = []
    for node in ast.walk(ast.parse(_source(module))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in names if name.split(".")[0] in _OURS and _file(name) is not None)


@cache
def _file(module: str) -> Path | None:
    """Where a module's code lies, without importing anything: `find_spec` imports the packages above a name."""
    package, *rest = module.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin).parent.joinpath(*rest)
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


@cache
def _source(module: str) -> str:
    path = _file(module)
    return "" if path is None else path.read_text()
