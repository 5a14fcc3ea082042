"""DBN file to tables, against the official client's `to_parquet` and against bare decompression of the same file."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
from measure import ROOT, Row, green, interleaved, medians, memory_scratch, peak_mib, ratio, scratch, show

from alpha_pipeline.ingest import SNAPSHOTS, TRADES, ingest_day
from alpha_pipeline.ingest.records import RECORD_BYTES
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.simulator import SimulatorConfig, simulate_days

EVENTS = 800_000
RECORDS = 1_000_000
ROUNDS = 5
LAST = 0x80
DAY_NS = 86_400 * 10**9
REAL = {
    "BTCUSDT-2024-08-09": InstrumentSpec(name="btcusdt", symbols=("BTCUSDT",), tick_size="0.01"),
    "NEXOUSDT-2024-07-24": InstrumentSpec(name="nexousdt", symbols=("NEXOUSDT",), tick_size="0.0001"),
    "ESH4-2023-12-25": InstrumentSpec(name="es", symbols=("ES",), tick_size="0.25", calendar="CMES"),
}
TESTS = ("tests/ingest/test_ingest_properties.py", "tests/ingest/test_ingest_day.py")
INGEST = """
import sys
from pathlib import Path
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.instrument import InstrumentSpec
report = ingest_day([Path(sys.argv[1])], InstrumentSpec(), Path(sys.argv[2]))
assert report.snapshots == int(sys.argv[3]), report.snapshots
"""


def official(path: Path, out: Path) -> None:
    import databento

    databento.DBNStore.from_file(path).to_parquet(out)
    out.unlink()


def bare(path: Path) -> int:
    """Decompress and throw away; the number of bytes."""
    target = memoryview(bytearray(1 << 22))
    size = 0
    with pa.OSFile(str(path), "rb") as file:
        stream = pa.CompressedInputStream(file, "zstd")
        while count := stream.readinto(target):
            size += count
    return size


def written(size: int, path: Path) -> None:
    """Write so many bytes, nothing else, and flush them."""
    block = bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(size >> 20):
            file.write(block)
        os.fsync(file.fileno())
    path.unlink()


def speed(path: Path, spec: InstrumentSpec, folder: Path, where: str) -> list[Row]:
    day = folder / "day"
    ingest_day([path], spec, day)
    size = sum((day / name).stat().st_size for name in (SNAPSHOTS, TRADES))
    seen = interleaved(
        {
            "clean": lambda: shutil.rmtree(day),
            "ours": lambda: ingest_day([path], spec, day),
            "official": lambda: official(path, folder / "day.parquet"),
            "bare": lambda: bare(path),
            "written": lambda: written(size, folder / "bytes"),
        },
        ROUNDS,
    )
    shutil.rmtree(day)
    rate = bare(path) / 1e6 / medians(seen)["ours"]
    return [
        Row(
            f"ingest against the official `to_parquet`, {where}",
            f"{ratio(seen, 'official', 'ours'):.1f} x ({rate:.0f} MB/s of records)",
            "4 x",
        ),
        Row(
            f"ingest against bare zstd decompression, {where}",
            f"{100 * ratio(seen, 'bare', 'ours'):.0f} % (writing the tables' bytes and nothing else: "
            f"{100 * ratio(seen, 'bare', 'written'):.0f} %)",
            "80 %",
        ),
    ]


def simulated(folder: Path, events: int) -> Path:
    (path,) = simulate_days(SimulatorConfig(days=1, events_per_day=events), InstrumentSpec(), folder / "raw")
    return path


def enlarged(small: Path, least: int, folder: Path) -> tuple[Path, int]:
    """The records of a file again and again until they are `least`, each time in a zstd frame of its own.

    Times move on within the day; the vendor's usual level of compression.

    Returns:
        The file, and its event ends.
    """
    import numpy as np
    import zstandard

    from alpha_pipeline.ingest.dbn_bodies import header_bytes
    from alpha_pipeline.ingest.dbn_file import DbnFile

    with DbnFile(small) as file:
        records = np.concatenate([chunk.copy() for chunk in file.chunks(1 << 16)])
    repeats = least // len(records) + 1
    midnight = int(records["ts_recv"][0]) // DAY_NS * DAY_NS
    since = records["ts_recv"].astype(np.int64) - midnight
    late = (records["ts_recv"] - records["ts_event"]).astype(np.int64)
    path = folder / small.name
    with path.open("wb") as out:
        out.write(zstandard.ZstdCompressor(level=3).compress(header_bytes(small)))
        for k in range(repeats):
            moved = records.copy()
            moved["ts_recv"] = midnight + k * (DAY_NS // repeats) + since // repeats
            moved["ts_event"] = moved["ts_recv"] - late.astype(np.uint64)
            out.write(zstandard.ZstdCompressor(level=3).compress(moved.tobytes()))
    return path, int(np.count_nonzero(records["flags"] & LAST)) * repeats


def four_gibibytes(folder: Path) -> list[Row]:
    least = (4 << 30) // RECORD_BYTES + 1
    path, ends = enlarged(simulated(folder, 200_000), least, folder)
    peak = peak_mib(INGEST, str(path), str(folder / "day"), str(ends))
    return [
        Row(
            f"peak memory of ingesting 4 GiB of records ({ends} snapshots)",
            f"{peak:.0f} MiB",
            "1024 MiB",
        )
    ]


def real(folder: Path, where: str) -> list[Row]:
    """Days of real markets, where there are any."""
    rows = []
    data = Path(os.environ.get("ALPHA_REAL_DATA", ROOT.parent / "shared" / "data")) / "mbp10-derived"
    for name, spec in REAL.items():
        if (small := data / f"{name}.mbp-10.dbn.zst").exists():
            path, _ = enlarged(small, RECORDS, folder)
            rows += speed(path, spec, folder, f"{name} repeated, {where}")
            path.unlink()
    return rows


def run() -> list[Row]:
    rows = []
    for place, where in ((memory_scratch, "in a memory file system"), (scratch, "on disk, flushed")):
        with place() as folder:
            rows += speed(simulated(folder, EVENTS), InstrumentSpec(), folder, where)
            rows += real(folder, where)
    with scratch() as folder:
        rows += four_gibibytes(folder)
    return rows


if __name__ == "__main__":
    green(*TESTS)
    show(run())
