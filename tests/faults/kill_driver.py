"""Kills children at random instants while they publish, and looks at what is left. Run as a process of its own, which
forks: so it must never have started a thread itself, and does all real work in children.

    python kill_driver.py stage|cache|training FOLDER KILLS SEED

Prints how often the old and the new content was found, or how often training went on, as JSON. A torn or missing
publication is an error, and so is a training whose result differs from that of an undisturbed one.
"""

import json
import os
import random
import shutil
import signal
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tiny_market
from tiny_market import NAME, day, file_of

from alpha_core.training.checkpoint import DOCUMENT
from alpha_core.training.perception import Resume, save_perception
from alpha_pipeline.cached_days import collect_garbage
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.fxcache import collect_garbage as collect_cache_garbage
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.ingest.tables import SNAPSHOTS, TRADES
from alpha_pipeline.paths import Workspace
from alpha_pipeline.provenance import digest_tree
from alpha_pipeline.research.fitting import fit_alpha
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import execute
from alpha_pipeline.stages.models import in_sample

DAY = day(0)


def child(work: Callable[[], object]) -> int:
    """Fork; the child works and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def finished(work: Callable[[], object]) -> float:
    """Seconds that a child takes whom nobody kills."""
    began = time.monotonic()
    _, status = os.waitpid(child(work), 0)
    assert status == 0, "the child failed"
    return time.monotonic() - began


def rounds(
    publish: Callable[[int], None], found: Callable[[], str], kills: int, seed: int
) -> dict[str, object]:
    """Publish version 0 and 1 in turn in children that are killed; after each, exactly one of both is there."""
    rng = random.Random(seed)
    known = {}
    for version in (0, 1):
        finished(lambda v=version: publish(v))
        known[found()] = version
    assert len(known) == 2, "the two versions must differ"
    lasted = statistics.median(finished(lambda v=v: publish(v)) for v in (0, 1, 0, 1, 0))
    seen: Counter[str] = Counter()
    for k in range(kills):
        before = known[found()]
        pid = child(lambda v=1 - before: publish(v))
        time.sleep(rng.uniform(0.0, 1.1 * lasted))
        os.kill(pid, signal.SIGKILL)
        killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        after = known[found()]  # KeyError: neither of the two
        seen[f"{'killed' if killed else 'finished'}, {'old' if after == before else 'new'}"] += 1
        if k % 20 == 19:
            finished(lambda v=1 - after: publish(v))  # a rerun after a kill works
            assert known[found()] == 1 - after
    return {"kills": kills, "seen": seen, "seconds": round(lasted, 3)}


def stage_rounds(folder: Path, kills: int, seed: int) -> dict[str, object]:
    """Ingestion of a day into the store."""
    workspace = Workspace(folder)
    finished(lambda: tiny_market.make_workspace(folder, days=1))
    finished(lambda: tiny_market.write_days(folder / "other", 1, events=2000))
    path = file_of(workspace.raw(NAME), 0)
    files = [path.read_bytes(), file_of(folder / "other", 0).read_bytes()]
    stage = next(s for s in STAGES if s.name == "mbp10_snapshots")

    def publish(version: int) -> None:
        path.write_bytes(files[version])
        execute(stage, tiny_market.scope(workspace), DAY, {})

    def found() -> str:
        artifact = tiny_market.scope(workspace).store.get(stage.name, DAY)
        assert digest_tree(artifact.path) == artifact.digest, "torn"
        return artifact.digest

    told = rounds(publish, found, kills, seed)
    collect_garbage(tiny_market.scope(workspace), min_age_s=0.0)
    left = list((tiny_market.scope(workspace).store.root / stage.name / DAY).glob("attempt-*"))
    return told | {"leftovers": len(left) - 1}


def cache_rounds(folder: Path, kills: int, seed: int) -> dict[str, object]:
    """Building of one day's cache file."""
    workspace = Workspace(folder)
    finished(lambda: tiny_market.make_workspace(folder, days=1))
    finished(lambda: tiny_market.build_day(workspace, DAY, ["mbp10_snapshots"]))
    source = tiny_market.scope(workspace).store.get("mbp10_snapshots", DAY).path
    out = folder / "cache" / f"{DAY}.fxcache"

    def publish(version: int) -> None:
        build_day(
            source / SNAPSHOTS,
            source / TRADES,
            day=DAY,
            instrument=NAME,
            features=FeatureConfig(sampler=SamplerConfig(n=1 + version)),
            source_digests={},
            out=out,
        )

    def found() -> str:
        return open_day(out, verify="full").info.header.builder_digest

    told = rounds(publish, found, kills, seed)
    collect_cache_garbage(out.parent, min_age_s=0.0)
    left = [p for p in out.parent.iterdir() if p != out and p.suffix != ".lock"]
    return told | {"leftovers": len(left)}


TRAINING = """
[perception]
hidden = 8
state = 4
heads = 1
length = 8
streams = 8
epochs = 3
"""


def training_rounds(folder: Path, kills: int, seed: int) -> dict[str, object]:
    """Training of the perception: killed again and again, it must end with the bits of an undisturbed run."""
    workspace = Workspace(folder)
    head, _, tail = tiny_market.CONFIG.partition("[perception]")
    config = head + TRAINING + tail[tail.index("[") :]
    finished(lambda: tiny_market.make_workspace(folder, days=4, config=config))
    for key in map(day, range(4)):
        finished(lambda key=key: tiny_market.build_day(workspace, key))
    whole, out, state, log = (folder / name for name in ("whole", "out", "state", "log"))
    finished(lambda: train(workspace, whole, folder / "never", log))
    expected, rng, ended = digest_tree(whole), random.Random(seed), 0
    for _ in range(kills):
        pid = child(lambda: train(workspace, out, state, log))
        after_saves(state / DOCUMENT, rng.randint(0, 15), pid)
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
        if not os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            assert digest_tree(out) == expected, "another result"
            shutil.rmtree(state)
            ended += 1
    finished(lambda: train(workspace, out, state, log))
    assert digest_tree(out) == expected, "another result"
    told = log.read_text().splitlines()
    went_on = Counter(" ".join(line.split()[:3]) for line in told)
    return {"kills": kills - ended, "ended": ended + 1, "told": went_on}


def after_saves(document: Path, saves: int, pid: int) -> None:
    """Wait until a file was replaced so many times, or its writer has ended."""
    seen, last = 0, document.stat().st_mtime_ns if document.exists() else 0
    while seen <= saves and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.001)
        now = document.stat().st_mtime_ns if document.exists() else 0
        seen, last = seen + (now != last), now


def train(workspace: Workspace, out: Path, state: Path, log: Path) -> None:
    """Fit and keep a perception as its stage does, saving after every second update."""
    scope = tiny_market.scope(workspace)
    sample = in_sample(scope)

    def report(text: str) -> None:
        with log.open("a") as stream:
            stream.write(text + "\n")

    resume = Resume(folder=state, report=report, every=2)
    fit = fit_alpha(sample.rows, sample.train, sample.validation, scope.config, on_epoch=None, resume=resume)
    save_perception(fit, out)


if __name__ == "__main__":
    what, where, count, start = sys.argv[1:]
    run = {"stage": stage_rounds, "cache": cache_rounds, "training": training_rounds}[what]
    print(json.dumps(run(Path(where), int(count), int(start))))
