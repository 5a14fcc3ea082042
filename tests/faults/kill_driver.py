"""Kills children at random instants while they publish, and looks at what is left. Run as a process of its own, which
forks: so it must never have started a thread itself, and does all real work in children.

    python kill_driver.py stage|cache FOLDER KILLS SEED

Prints how often the old and the new content was found, as JSON. A torn or missing publication is an error.
"""

import json
import os
import random
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

from alpha_pipeline.cached_days import collect_garbage
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.fxcache import collect_garbage as collect_cache_garbage
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.ingest.tables import SNAPSHOTS, TRADES
from alpha_pipeline.paths import Workspace
from alpha_pipeline.provenance import digest_tree
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import execute

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


if __name__ == "__main__":
    what, where, count, start = sys.argv[1:]
    run = {"stage": stage_rounds, "cache": cache_rounds}[what]
    print(json.dumps(run(Path(where), int(count), int(start))))
