"""Ceilings that keep the code easy to read: length of files and functions, annotations on all of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("alpha_core", "alpha_pipeline", "scripts", "benchmarks")
FILE_LINES, FUNCTION_LINES, KERNEL_LINES, ASSET_LINES = 450, 60, 140, 25
Function = ast.FunctionDef | ast.AsyncFunctionDef


def files() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def decorator_names(function: Function) -> set[str]:
    """`jit` of `@triton.jit`, `asset` of `@dg.asset(...)`."""
    heads = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return {h.attr if isinstance(h, ast.Attribute) else getattr(h, "id", "") for h in heads}


def is_kernel(function: Function) -> bool:
    return bool(decorator_names(function) & {"jit", "autotune", "heuristics"})


def is_asset(path: Path, function: Function) -> bool:
    return "assets" in path.parts and any("asset" in name for name in decorator_names(function))


def length(function: Function) -> int:
    """Lines from `def` to the end, without the docstring: explaining is not what makes a function long."""
    first = function.body[0]
    end = function.end_lineno or function.lineno
    return end - function.lineno + 1 - (_lines(first) if _is_docstring(first) else 0)


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def body_length(function: Function) -> int:
    """Lines of the body alone, without signature and docstring."""
    statements = [node for node in function.body if not _is_docstring(node)]
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def unannotated(function: Function) -> list[str]:
    """Parameters without a type, and `return`; the first of a method needs none."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
    missing = [a.arg for a in named if a.annotation is None and a.arg not in ("self", "cls")]
    return missing + (["return"] if function.returns is None else [])


def problems(path: Path, text: str) -> Iterator[str]:
    """What one file does against the ceilings, in words."""
    tree, name = ast.parse(text), "/".join(path.parts[-3:])
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{name}: {lines} lines, at most {FILE_LINES}"
    for function in functions(tree):
        where, kernel = f"{name}:{function.lineno} {function.name}", is_kernel(function)
        limit = KERNEL_LINES if kernel else FUNCTION_LINES
        if length(function) > limit:
            yield f"{where}: {length(function)} lines, at most {limit}"
        if is_asset(path, function) and body_length(function) > ASSET_LINES:
            yield f"{where}: asset body of {body_length(function)} lines, at most {ASSET_LINES}"
        if not kernel and unannotated(function):
            yield f"{where}: no type for {', '.join(unannotated(function))}"


def test_no_file_or_function_grows_past_its_ceiling():
    assert len(files()) > 50
    assert [problem for path in files() for problem in problems(path, path.read_text())] == []


def function_of(lines: int, head: str = "def f() -> None:", docstring: int = 0) -> str:
    """A function of that many lines, its docstring not counted."""
    words = ['    """Text.'] + ["    text"] * (docstring - 2) + ['    """'] if docstring else []
    return "\n".join([head, *words, *["    x = 1"] * (lines - head.count("def "))])


KERNEL = "@triton.jit\ndef f(x_ptr, n: tl.constexpr):"
ASSET = "@dg.asset(key='a')\ndef f() -> None:"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n" * 450, None),
        ("x = 1\n" * 451, "451 lines, at most 450"),
        (function_of(60), None),
        (function_of(61), "61 lines, at most 60"),
        (function_of(60, docstring=30), None),
        (function_of(61, "async def f() -> None:"), "61 lines, at most 60"),
        (function_of(140, KERNEL), None),
        (function_of(141, KERNEL), "141 lines, at most 140"),
        (function_of(26, ASSET), None),
        (function_of(27, ASSET), "asset body of 26 lines, at most 25"),
        ("def f(a, *b, c, **d): pass", "no type for a, c, b, d, return"),
        ("class A:\n    def f(self) -> None: pass\n    def g(self): pass", "3 g: no type for return"),
        ("def f() -> None:\n    def inner(x): return x", "2 inner: no type for x, return"),
    ],
)
def test_the_rules_find_what_they_should(text, found):
    told = list(problems(Path("alpha_pipeline/assets/sample.py"), text))
    assert len(told) == (found is not None)
    assert not found or found in told[0]
