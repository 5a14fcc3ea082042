"""Tables to features, labels and tape; opening a cached day; memory of building a long one."""

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from measure import Row, green, interleaved, medians, memory_scratch, peak_mib, scratch, show

from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.features.stream import stream_day
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.ingest import SNAPSHOTS, TRADES, ingest_day
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.simulator import SimulatorConfig, simulate_days

EVENTS = 500_000
ROUNDS = 5
LONG_DAY = 11_700_000
"""Snapshots of a file of 4 GiB."""

TESTS = ("tests/features", "tests/fxcache/test_format.py")
BUILD = """
import sys
from pathlib import Path
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fxcache.build import build_day
folder = Path(sys.argv[1])
info = build_day(folder / "snapshots.arrow", folder / "trades.arrow", day="2024-01-02", instrument="demo",
                 features=FeatureConfig(), source_digests={}, out=folder / "x.fxcache")
assert info.rows == int(sys.argv[2]), info.rows
"""


class Nowhere:
    """Takes columns and forgets them."""

    def append(self, name: str, values: object) -> None:
        """Nothing."""


def tables(folder: Path, events: int) -> Path:
    (path,) = simulate_days(SimulatorConfig(days=1, events_per_day=events), InstrumentSpec(), folder / "raw")
    ingest_day([path], InstrumentSpec(), folder / "day")
    return folder / "day"


def compute(day: Path, stride: int) -> None:
    config = FeatureConfig(sampler=SamplerConfig(n=stride))
    stream_day(day / SNAPSHOTS, day / TRADES, config, Nowhere())


def rates(folder: Path) -> list[Row]:
    day = tables(folder, EVENTS)
    compute(day, 1)
    seen = interleaved(
        {"every": lambda: compute(day, 1), "tenth": lambda: compute(day, 10)}, ROUNDS, time.process_time
    )
    middle = medians(seen)
    return [
        Row(
            "features, labels and tape, one row a snapshot, reading included, of one core",
            f"{EVENTS / middle['every'] / 1e6:.2f} M snapshots/s",
            "1.5 M/s",
        ),
        Row("the same, one row in ten snapshots", f"{EVENTS / middle['tenth'] / 1e6:.2f} M snapshots/s"),
    ]


def opening(folder: Path) -> list[Row]:
    day = tables(folder, 200_000)
    info = build_day(
        day / SNAPSHOTS,
        day / TRADES,
        day="2024-01-02",
        instrument="demo",
        features=FeatureConfig(),
        source_digests={},
        out=folder / "2024-01-02.fxcache",
    )
    times = []
    for _ in range(50):
        began = time.perf_counter()
        opened = open_day(info.path)
        times.append(time.perf_counter() - began)
        first, size = opened.mapped_range
        assert first <= opened.features.ctypes.data < first + size
    middle = sorted(times)[25]
    return [
        Row(
            f"opening a cached day of {info.size_bytes / 1e6:.0f} MB, no copies",
            f"{1e3 * middle:.2f} ms",
            "5 ms",
        )
    ]


def long_day(folder: Path) -> list[Row]:
    """Tables of a file of 4 GiB: one day's again and again, in ever new segments."""
    day = tables(folder, 390_000)
    repeats = LONG_DAY // 390_000
    long = folder / "long"
    long.mkdir()
    for name, column, step in ((SNAPSHOTS, "segment", 1), (TRADES, "snapshot_row", 390_000)):
        with pa.OSFile(str(day / name), "rb") as source:
            reader = pa.ipc.open_file(source)
            place = reader.schema.get_field_index(column)
            with pa.ipc.new_file(str(long / name), reader.schema) as writer:
                for k in range(repeats):
                    for index in range(reader.num_record_batches):
                        batch = reader.get_batch(index)
                        moved = pc.add(batch[column], pa.scalar(k * step, batch[column].type))
                        writer.write_batch(batch.set_column(place, reader.schema.field(place), moved))
    shutil.rmtree(day)
    rows = repeats * 390_000
    peak = peak_mib(BUILD, str(long), str(rows))
    return [Row(f"peak memory of caching {rows} snapshots, a row each", f"{peak:.0f} MiB", "1024 MiB")]


def run() -> list[Row]:
    with memory_scratch() as folder:
        rows = rates(folder) + opening(folder)
    with scratch() as folder:
        return rows + long_day(folder)


if __name__ == "__main__":
    green(*TESTS)
    show(run())
