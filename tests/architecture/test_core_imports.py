"""The engine runs on a bare machine: its imports are walked, and it is imported with the rest absent."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CORE = ROOT / "alpha_core"
ALLOWED = {"alpha_core", "torch", "numpy"}
LAYERS = (
    {"training"},
    {"rl", "market"},
    {"nn", "control"},
    {"metrics"},
    {"cuda"},
    {"shapes", "errors", "rng"},
)
"""Upper to lower; a module imports its own part and lower ones; `rl` and `market` not one another."""


def modules() -> list[Path]:
    return sorted(CORE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module imported, whether inside a function) of every import statement at any level."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, lazy) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: relative import at line {child.lineno}"
                # The imported names may be modules themselves: `from alpha_core.rl import munchausen`.
                found.extend((f"{child.module}.{alias.name}", lazy) for alias in child.names)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            visit(child, lazy or inside)

    visit(ast.parse(path.read_text()), False)
    return found


def problems_of(path: Path) -> list[str]:
    """Imports of one file that a bare machine could not serve."""
    under_cuda = path.is_relative_to(CORE / "cuda")
    found = []
    for name, lazy in imports(path):
        top = name.split(".")[0]
        if top in ALLOWED or top in sys.stdlib_module_names:
            continue
        kernels = path.name.startswith("kernels")
        if top == "triton" and under_cuda and (lazy or kernels):
            continue
        found.append(f"{path.relative_to(ROOT)} imports {name}")
    return found


def test_core_imports_only_the_standard_library_torch_and_numpy():
    assert len(modules()) > 20
    assert [problem for path in modules() for problem in problems_of(path)] == []


@pytest.mark.parametrize(
    ("place", "text", "allowed"),
    [
        ("alpha_core/training/x.py", "import safetensors", False),
        ("alpha_core/training/x.py", "def f():\n    import polars.io", False),
        (
            "alpha_core/training/x.py",
            "try:\n    from dagster import asset\nexcept ImportError:\n    pass",
            False,
        ),
        ("alpha_core/training/x.py", "def f():\n    import triton", False),
        ("alpha_core/cuda/x.py", "def f():\n    import triton", True),
        ("alpha_core/cuda/x.py", "import triton", False),
        ("alpha_core/cuda/ssd/kernels.py", "import triton.language as tl", True),
        ("alpha_core/x.py", "import json, torch.nn, numpy as np", True),
    ],
)
def test_the_walk_itself_finds_what_it_must(tmp_path, monkeypatch, place, text, allowed):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "CORE", tmp_path / "alpha_core")
    assert (problems_of(path) == []) is allowed


def layer_of(name: str) -> int | None:
    parts = name.split(".")
    return next((i for i, layer in enumerate(LAYERS) if len(parts) > 1 and parts[1] in layer), None)


def test_layers_import_downwards_only():
    wrong = []
    for path in modules():
        own = module_name(path)
        level = layer_of(own)
        for name, _ in imports(path):
            other = layer_of(name) if name.startswith("alpha_core.") else None
            if level is None or other is None or own.split(".")[1] == name.split(".")[1]:
                continue
            shared = LAYERS[level] == LAYERS[-1] and other == level
            if other <= level and not shared:
                wrong.append(f"{own} imports {name}")
    assert wrong == []


def test_kernels_are_reached_only_through_functions():
    """A module that may import triton at its top is never imported at another module's top."""
    wrong = [
        f"{module_name(path)} imports {name}"
        for path in modules()
        for name, lazy in imports(path)
        if not lazy and ".kernels" in name and not path.name.startswith("kernels")
    ]
    assert wrong == []


BARE = """
import importlib, sys

class Absent:
    BLOCKED = {blocked!r}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.BLOCKED:
            raise ModuleNotFoundError(f"{{name}} is not installed on a bare machine", name=name)

sys.meta_path.insert(0, Absent())
for name in {names!r}:
    importlib.import_module(name)
loaded = Absent.BLOCKED & {{name.split(".")[0] for name in sys.modules}}
assert not loaded, loaded
print("all imported")
"""

BLOCKED = {
    "dagster",
    "polars",
    "pandas",
    "pandera",
    "pyarrow",
    "pydantic",
    "mlflow",
    "numba",
    "scipy",
    "sklearn",
    "safetensors",
    "databento",
    "arch",
    "glum",
    "triton",
    "alpha_pipeline",
}


def test_every_module_imports_in_a_fresh_interpreter_without_the_rest():
    names = [module_name(path) for path in modules() if not path.name.startswith("kernels")]
    script = BARE.format(blocked=BLOCKED, names=names)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "all imported"
