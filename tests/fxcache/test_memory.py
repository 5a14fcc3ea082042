"""To build a day, verify it and look through it takes the same memory whatever its length: real processes' peaks."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fx_tables import random_market, tables

HALF_MILLION = 500_000
LIMIT_MIB = 1024

BUILD = """
import json, resource, sys
from pathlib import Path
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.stages.fxcache import summary
folder = Path(sys.argv[1])
info = build_day(
    folder / "snapshots.arrow", folder / "trades.arrow", day="2024-01-02", instrument="demo",
    features=FeatureConfig(), source_digests={}, out=folder / "2024-01-02.fxcache",
)
checks = summary(open_day(info.path, "full")).checks
assert all(check.passed for check in checks), checks
print(json.dumps([info.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def repeat(folder: Path, rows: int) -> Path:
    """Tables of at least that many snapshots: one market again and again, later each time, in ever new segments."""
    events = random_market(3, 20_000, segments=1)
    lasts = pa.scalar(events[-1]["ts"] - events[0]["ts"] + 1, pa.duration("ns"))
    steps = {"segment": pa.scalar(1, pa.int32()), "snapshot_row": pa.scalar(len(events)), "ts_recv": lasts}
    folder.mkdir()
    for name, table in zip(("snapshots", "trades"), tables(events), strict=True):
        batch = table.combine_chunks().to_batches()[0]
        with pa.ipc.new_file(folder / f"{name}.arrow", batch.schema) as writer:
            for _ in range(-(-rows // len(events))):
                writer.write_batch(batch)
                for column in steps.keys() & set(batch.schema.names):
                    place = batch.schema.get_field_index(column)
                    moved = pc.add(batch[column], steps[column])
                    batch = batch.set_column(place, batch.schema.field(place), moved)
    return folder


def peak(folder: Path) -> tuple[int, float]:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    return tuple(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_day(tmp_path):
    small_rows, small = peak(repeat(tmp_path / "small", HALF_MILLION))
    large_rows, large = peak(repeat(tmp_path / "large", 4 * HALF_MILLION))
    assert large_rows == 4 * small_rows > 4 * 0.8 * HALF_MILLION
    assert large < LIMIT_MIB
    assert large - small < 60, f"{small:.0f} MiB for {small_rows} rows, {large:.0f} MiB for {large_rows}"
