"""How a claim is measured: A and B in turn, medians and ratios of one run, with what it ran on."""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "pyarrow", "numba", "polars", "databento", "databento-dbn", "torch")


@dataclass(frozen=True)
class Row:
    """One line of the document.

    Attributes:
        what: the claim.
        figure: what was seen.
        bar: what was to be reached, "" where there is none.
    """

    what: str
    figure: str
    bar: str = ""


def interleaved(
    work: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each piece of work by `clock`, taken in turn so that a drifting machine meets all alike.

    Wall time where several threads share the work; `time.process_time` where the claim is about one core.
    """
    seen: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            began = clock()
            run()
            seen[name].append(clock() - began)
    return seen


def medians(seen: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in seen.items()}


def ratio(seen: Mapping[str, list[float]], above: str, below: str) -> float:
    """Median over rounds of above / below."""
    return statistics.median(a / b for a, b in zip(seen[above], seen[below], strict=True))


def peak_mib(code: str, *arguments: str) -> float:
    """Largest resident memory in MiB of a process of its own that runs `code`.

    The kernel's high-water mark of its address space; what getrusage tells also counts the parent it was forked from.
    """
    tail = """
from pathlib import Path
print(next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")).split()[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code + tail, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return float(done.stdout.splitlines()[-1]) / 1024


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on disk that vanishes."""
    with tempfile.TemporaryDirectory(prefix="alpha-bench-") as name:
        yield Path(name)


@contextmanager
def memory_scratch() -> Iterator[Path]:
    """A folder in a memory file system where there is one, so that a disk's speed does not enter."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="alpha-bench-", dir=shared if shared.is_dir() else None) as name:
        yield Path(name)


def machine() -> str:
    """Cores, memory, processor and versions; no name, no path."""
    model = platform.processor() or platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{date.today()}, {os.cpu_count()} cores ({model}), {memory:.0f} GiB, Python "
        f"{platform.python_version()}, {packages}"
    )


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def green(*tests: str) -> None:
    """Refuse to measure what does not work."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow and not faults", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"not measured: its tests fail\n{done.stdout[-1500:]}")


def show(rows: list[Row]) -> None:
    """One JSON line for machines."""
    print(json.dumps([asdict(row) for row in rows]))
