"""DBN file to tables, against the official client's `to_parquet` and against bare decompression of the same file."""

import shutil
from pathlib import Path

import pyarrow as pa
from measure import Row, green, interleaved, medians, memory_scratch, peak_mib, ratio, scratch, show

from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.simulator import SimulatorConfig, simulate_days

EVENTS = 800_000
ROUNDS = 5
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


def ours(path: Path, out: Path) -> None:
    ingest_day([path], InstrumentSpec(), out)
    shutil.rmtree(out)


def speed(folder: Path, where: str) -> list[Row]:
    (path,) = simulate_days(SimulatorConfig(days=1, events_per_day=EVENTS), InstrumentSpec(), folder / "raw")
    ours(path, folder / "warm")
    seen = interleaved(
        {
            "ours": lambda: ours(path, folder / "day"),
            "official": lambda: official(path, folder / "day.parquet"),
            "bare": lambda: bare(path),
        },
        ROUNDS,
    )
    middle, megabytes = medians(seen), bare(path) / 1e6
    rate = f"{megabytes / middle['ours']:.0f} MB/s of records"
    return [
        Row(
            f"ingest against the official `to_parquet`, {where}",
            f"{ratio(seen, 'official', 'ours'):.1f} x ({rate})",
            "4 x",
        ),
        Row(
            f"ingest against bare zstd decompression, {where}",
            f"{100 * ratio(seen, 'bare', 'ours'):.0f} %",
            "80 %",
        ),
    ]


def four_gibibytes(folder: Path) -> list[Row]:
    """A file of more than 4 GiB decompressed: one day of records again and again in frames, times moving on."""
    import numpy as np
    import zstandard

    from alpha_pipeline.ingest.dbn_file import DbnFile

    (small,) = simulate_days(
        SimulatorConfig(days=1, events_per_day=200_000), InstrumentSpec(), folder / "raw"
    )
    with DbnFile(small) as file:
        records = np.concatenate([chunk.copy() for chunk in file.chunks(1 << 16)])
    head = _header(small)
    span = int(records["ts_recv"][-1] - records["ts_recv"][0]) + 1
    repeats = (4 << 30) // records.nbytes + 1
    path = folder / small.name
    factor = np.float64(20 * 3600 * 10**9 / repeats / span)
    base = records["ts_recv"][0]
    steps = ((records["ts_recv"] - base).astype(np.float64) * factor).astype(np.uint64)
    with path.open("wb") as out:
        out.write(zstandard.ZstdCompressor(level=3).compress(head))
        for k in range(repeats):
            moved = records.copy()
            start = (
                base
                - base % np.uint64(86_400 * 10**9)
                + np.uint64(k) * np.uint64(20 * 3600 * 10**9 // repeats)
            )
            moved["ts_recv"] = moved["ts_event"] = start + steps
            out.write(zstandard.ZstdCompressor(level=3).compress(moved.tobytes()))
    ends = int(np.count_nonzero(records["flags"] & 0x80)) * repeats
    peak = peak_mib(INGEST, str(path), str(folder / "day"), str(ends))
    size = repeats * records.nbytes / 2**30
    return [
        Row(
            f"peak memory of ingesting {size:.1f} GiB of records ({ends} snapshots)",
            f"{peak:.0f} MiB",
            "1024 MiB",
        )
    ]


def _header(path: Path) -> bytes:
    from alpha_pipeline.ingest.dbn_header import read_header
    from alpha_pipeline.ingest.stream import ByteStream

    with ByteStream(path) as stream:
        _, rest = read_header(stream)
        length = stream.offset - len(rest)
    with ByteStream(path) as stream:
        head = memoryview(bytearray(length))
        stream.fill(head)
        return bytes(head)


def run() -> list[Row]:
    rows = []
    with memory_scratch() as folder:
        rows += speed(folder, "in a memory file system")
    with scratch() as folder:
        rows += speed(folder, "on disk, flushed")
    with scratch() as folder:
        rows += four_gibibytes(folder)
    return rows


if __name__ == "__main__":
    green(*TESTS)
    show(run())
