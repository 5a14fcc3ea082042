"""Make `.venv` as requirements.lock says, with the project in it. Does nothing when that is already so.

Runs on the system's Python, so it uses the standard library only. pip is told to skip compiling: it would
compile 170 packages one after another, of which we import a part, so that part is compiled here on two cores.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "alpha-setup"
LOG = VENV / "setup.log"
LOCK = ROOT / "requirements.lock"
# What the first run will import, in two halves of like weight.
WARM = (
    "torch, torch._dynamo, torch.optim, numba, sklearn.linear_model, databento, exchange_calendars, pytest",
    "dagster._cli, dagster._daemon.cli, dagster_webserver.cli, mlflow.store.tracking.sqlalchemy_store,"
    "mlflow.server, pandera.polars, plotly.graph_objects, plotly.io, arch, glum, typer, rich.progress",
)


def wanted() -> str:
    """Digest of everything the environment is made from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = (LOCK.read_text(), repr(project["project"]), repr(project["build-system"]), str(ROOT))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def runs(python: Path) -> bool:
    """Whether the environment's interpreter still works (its base may have been upgraded away)."""
    try:
        return subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def create() -> None:
    """Make an empty environment with this interpreter."""
    print(f"Creating .venv with Python {'.'.join(map(str, sys.version_info[:3]))}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)


class Progress:
    """One line that moves on a terminal; a line every ten seconds elsewhere."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last = -10.0

    def show(self, text: str) -> None:
        seconds = time.monotonic() - self._began
        if sys.stdout.isatty():
            print(f"\r\033[K  {text} ({seconds:.0f} s)", end="", flush=True)
        elif seconds - self._last >= 10:
            print(f"  {text} ({seconds:.0f} s)", flush=True)
            self._last = seconds

    def close(self) -> None:
        seconds = time.monotonic() - self._began
        print("\r\033[K" if sys.stdout.isatty() else "", f" done in {seconds:.0f} s", flush=True)


def pip(arguments: Sequence[str], progress: Progress, total: int) -> None:
    """Run pip, its words going to the log, ours to the screen.

    Raises:
        SystemExit: pip failed; the reason it gave is shown.
    """
    options = ("--no-input", "--disable-pip-version-check", "--no-compile", "--progress-bar", "off")
    command = [PYTHON, "-m", "pip", "install", *options, *arguments]
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        while process.poll() is None:
            progress.show(state(total))
            time.sleep(0.25)
    if process.returncode != 0:
        reasons = [line for line in LOG.read_text(errors="replace").splitlines() if line.startswith("ERROR")]
        sys.exit(f"\npip could not install the packages: {' '.join(reasons[-3:])} (all of it: {LOG})")


def state(total: int) -> str:
    """How far pip is, from its log and from what lies in the environment."""
    text = LOG.read_text(errors="replace")
    if "Installing collected packages" in text:
        installed = len(list(VENV.glob("lib/python*/site-packages/*.dist-info")))
        return f"installing {min(installed, total)} of {total} packages"
    collected = len(re.findall(r"^(?:Collecting|Processing) ", text, re.MULTILINE))
    return f"collecting {min(collected, total)} of {total} packages"


def compile_modules(progress: Progress) -> None:
    """Import what the first run will import, so that its bytecode is there."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with LOG.open("ab") as log:
        halves = [
            subprocess.Popen([PYTHON, "-c", f"import {half}"], stdout=log, stderr=log, env=environment)
            for half in WARM
        ]
        while any(half.poll() is None for half in halves):
            progress.show("compiling")
            time.sleep(0.25)
    if any(half.returncode for half in halves):
        sys.exit(f"\nthe installed packages cannot be imported: see {LOG}")


def install() -> None:
    """Packages, the project itself, bytecode; then the stamp that says so."""
    STAMP.unlink(missing_ok=True)
    LOG.write_bytes(b"")
    progress = Progress()
    total = sum("==" in line for line in LOCK.read_text().splitlines())
    pip(["-r", str(LOCK)], progress, total)
    pip(["--no-deps", "--no-build-isolation", "-e", str(ROOT)], progress, total)
    compile_modules(progress)
    progress.close()
    STAMP.write_text(wanted())


def main() -> None:
    with (ROOT / ".venv.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # `make demo` beside `make test`: the second waits for the first
        if not runs(PYTHON):
            create()
        if not STAMP.is_file() or STAMP.read_text() != wanted():
            print(
                "Installing the packages of requirements.lock into .venv (once; a minute or two)", flush=True
            )
            install()


if __name__ == "__main__":
    main()
