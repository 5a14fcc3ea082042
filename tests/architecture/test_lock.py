"""The lock file pins everything, by name and version alone."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LINES = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
PINS = dict(line.split("==") for line in LINES)


def test_each_line_is_one_name_and_one_public_version():
    assert [line for line in LINES if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line)] == []
    assert list(PINS) == sorted(PINS)
    assert len(PINS) == len(LINES)


def test_every_declared_requirement_is_pinned_within_its_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["dependencies"] + project["optional-dependencies"]["dev"]
    for requirement in map(Requirement, declared):
        assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)]), requirement


def test_torch_is_one_release_and_brings_its_own_companions():
    assert PINS["torch"] == "2.13.0"
    assert [name for name in PINS if name.startswith(("nvidia-", "cuda-"))] == []
    assert PINS["triton"].startswith("3.8."), "the line that this torch's accelerator build asks for"
