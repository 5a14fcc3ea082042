"""Write requirements.lock: every package the project needs, pinned to the version this environment has.

    python scripts/lock.py            write the lock file
    python scripts/lock.py --check    exit 1 when pyproject.toml asks for something the lock does not pin

To upgrade a package, install the new version into `.venv`, run the tests, then `make lock`.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# A CUDA build of torch pins its own companions exactly, and a CPU build has none of them.
ACCELERATOR = re.compile(r"^(nvidia-|cuda-)")
HEADER = """\
# Every package that alpha-pipeline and its tests need, pinned. Written by `make lock`: do not edit by hand.
# torch's GPU companions are not listed: the torch release pins them itself where its CUDA build is installed.
"""


def declared() -> list[Requirement]:
    """The requirements pyproject.toml states, runtime and development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["dependencies"] + project["optional-dependencies"]["dev"]]


def needed_by(name: str, extra: str) -> Iterator[Requirement]:
    """What an installed package asks for on any supported Python on Linux."""
    for line in metadata.requires(name) or []:
        requirement = Requirement(line)
        environments = (
            {"python_version": v, "python_full_version": f"{v}.0", "extra": extra} for v in PYTHONS
        )
        if requirement.marker is None or any(requirement.marker.evaluate(e) for e in environments):
            yield requirement


def closure() -> dict[str, str]:
    """Name and public version of each package reachable from pyproject.toml.

    Raises:
        SystemExit: a needed package is not installed here, so its version is unknown.
    """
    pins: dict[str, str] = {}
    waiting, done = declared(), set[tuple[str, str]]()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if ACCELERATOR.match(name):
            continue
        try:
            pins[name] = Version(metadata.version(name)).public
        except metadata.PackageNotFoundError:
            sys.exit(f"{requirement} is needed but not installed here: install it, then run this again")
        for key in {(name, extra) for extra in ("", *requirement.extras)} - done:
            done.add(key)
            waiting.extend(needed_by(*key))
    return pins


def pinned(text: str) -> dict[str, str]:
    """The name -> version pairs of a lock file's text."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return dict(line.split("==") for line in lines)


def check() -> int:
    """0 when the lock pins each requirement of pyproject.toml within its bounds, else 1 and a sentence."""
    pins = pinned(LOCK.read_text())
    bad = []
    for requirement in declared():
        version = pins.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            bad.append(f"{requirement} (pinned: {version})")
    if bad:
        print(f"requirements.lock lags behind pyproject.toml: {', '.join(bad)}; run `make lock`")
    return int(bool(bad))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only compare, write nothing")
    if parser.parse_args().check:
        return check()
    pins = closure()
    LOCK.write_text(HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins)))
    print(f"{LOCK.name}: {len(pins)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
