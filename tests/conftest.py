"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real market files, which the project does not carry; tests that need it skip without it."""
    folder = Path(os.environ.get("ALPHA_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real market data absent: no folder {folder}, set ALPHA_REAL_DATA")
    return folder


@pytest.fixture(scope="session")
def vectors() -> Path:
    """Folder of reference numbers."""
    return ROOT / "tests" / "vectors"
