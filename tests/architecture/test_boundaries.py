"""Rules on calls and imports of both packages that import-linter cannot express."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CARRIERS = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def trees() -> dict[str, ast.Module]:
    files = [path for folder in ("alpha_core", "alpha_pipeline") for path in (ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(files)}


def imports(tree: ast.AST) -> set[str]:
    """Top-level packages a tree imports, at any depth."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def carriers_of_code(tree: ast.AST) -> Iterator[str]:
    """Readers and writers of formats that can hide a program in a file."""
    yield from sorted(imports(tree) & CARRIERS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "torch.save"):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield "allow_pickle"


def test_no_format_that_can_carry_code():
    assert len(trees()) > 50
    assert [(name, word) for name, tree in trees().items() for word in carriers_of_code(tree)] == []


def test_annotations_are_not_postponed_where_dagster_reads_them():
    assert [name for name, tree in trees().items() if {"__future__", "dagster"} <= imports(tree)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pickle", ["pickle"]),
        ("def f():\n    from joblib import load", ["joblib"]),
        ("w = torch.load('x')", ["torch.load"]),
        ("np.load(f, allow_pickle=True)", ["allow_pickle"]),
        ("import numpy as np\nnp.load(f)", []),
    ],
)
def test_the_rule_finds_what_it_should(text, found):
    assert list(carriers_of_code(ast.parse(text))) == found
