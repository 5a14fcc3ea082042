"""The catalogue is complete, its page is current, and compiled code cannot go stale unseen."""

import ast
from pathlib import Path

import pytest

from alpha_core.shapes import FEATURES
from alpha_pipeline.features import catalogue
from alpha_pipeline.features.catalogue import CATALOGUE, FEATURE_NAMES

ROOT = Path(catalogue.__file__).resolve().parents[2]
FLOWS = [*(f"ofi_{k}" for k in range(1, 6)), "ofi_6_10", "signed_volume", "trade_count_imbalance"]
EXPECTED = [
    *("spread", "microprice_minus_mid", *(f"queue_imbalance_{k}" for k in range(1, 6)), "total_imbalance"),
    *("log1p_depth", "book_aggression", "mean_order_size_imbalance"),
    *FLOWS,
    *(f"delta_{name}" for name in FLOWS),
    *("mid_change", "mid_change_10", "log_volatility_ema", "log_intensity_ema", "log1p_duration"),
    *(f"time_{wave}_{period}" for period in ("60s", "6s", "600ms", "60ms") for wave in ("sin", "cos")),
]


def test_names_and_order():
    assert list(FEATURE_NAMES) == EXPECTED and len(EXPECTED) == FEATURES
    assert {feature.group for feature in CATALOGUE} == set(catalogue.GROUPS)


def test_page_is_current():
    page = (ROOT / "docs" / "features.md").read_text()
    assert page == catalogue.render(), "run python -m alpha_pipeline.features.catalogue > docs/features.md"
    assert all(f"| `{name}` |" in page for name in FEATURE_NAMES)


def compiled(tree):
    """Functions under @njit."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [f for f in functions if any("njit" in ast.unparse(d) for d in f.decorator_list)]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "alpha_pipeline" / "features").glob("*.py")), ids=lambda p: p.stem
)
def test_stale_cache_compiled_functions_call_only_their_own_file(path):
    """numba recompiles a cached function when its own file changes, not when a file it imports from does."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for function in compiled(tree):
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        calls = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert not calls & imported, f"{function.name} calls {calls & imported}"
