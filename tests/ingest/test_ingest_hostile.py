"""Bytes that mean harm, or have come to it: one sentence, little time, little memory."""

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import databento_dbn as dbn
import numpy as np
import pytest
import zstandard
from dbn_builder import T0, Msg, header
from fuzz import fuzz, sample_cache

from alpha_core.errors import InputError
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.ingest.records import MBP10_DTYPE
from alpha_pipeline.ingest.source import open_raw
from alpha_pipeline.ingest.stream import FREE_BYTES, MAX_RATIO, ByteStream
from alpha_pipeline.instrument import InstrumentSpec

HERE = Path(__file__).resolve().parent


def test_mutated_files_are_read_or_refused(tmp_path):
    told = fuzz(tmp_path, sample_cache(tmp_path), seconds=4.0, seed=20_241_201)
    assert told["inputs"] > 300
    assert all(
        told["seen"].get(f"{kind} {answer}")
        for kind in ("dbn", "fxcache", "log")
        for answer in ("read", "refused")
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_mutated_files_for_twenty_processor_minutes():
    command = [sys.executable, str(HERE / "fuzz.py"), "1200", "7"]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    print(json.loads(done.stdout.splitlines()[-1]))


def bomb(path, unit: bytes, size: int, head: bytes = b"") -> Path:
    """A file whose stream is `unit` again and again; compressed it is tiny."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    block = unit * (1 << 20 // max(1, len(unit)).bit_length())
    with path.open("wb") as file:
        file.write(compressor.compress(head))
        for _ in range(size // len(block) + 1):
            file.write(compressor.compress(block))
        file.write(compressor.flush())
    return path


def refused(path, spec, tmp_path) -> str:
    began = time.process_time()
    with pytest.raises(InputError) as error:
        ingest_day([path], spec, tmp_path / "day")
    assert time.process_time() - began < 20
    assert not list((tmp_path / "day").glob("*")) if (tmp_path / "day").exists() else True
    return str(error.value)


@pytest.mark.parametrize(
    ("unit", "sentence"),
    [
        (b"\0" * 64, "a record of 0 bytes, shorter than its own header"),
        (
            bytes(Msg(ts=T0)),
            f"expands to more than .* bytes from .*, must be at most {MAX_RATIO} times as many",
        ),
        (bytes(dbn.SystemMsg(ts_event=T0, msg="x")), f"must be at most {MAX_RATIO} times as many"),
    ],
    ids=["zeros", "one record", "one message"],
)
def test_decompression_bomb_is_refused(tmp_path, spec, unit, sentence):
    path = bomb(tmp_path / "x.dbn.zst", unit, 4 * FREE_BYTES, header())
    assert path.stat().st_size < FREE_BYTES / 500
    assert re.search(sentence, refused(path, spec, tmp_path))


def test_decompression_bomb_inside_the_header_is_refused(tmp_path, spec):
    """Metadata that claim four gigabytes, and symbols that never end."""
    claims = bytearray(header())
    claims[4:8] = (2**32 - 1).to_bytes(4, "little")
    path = bomb(tmp_path / "x.dbn.zst", b"\0" * 64, 3 * FREE_BYTES, bytes(claims))
    assert "a DBN header that claims 4294967295 bytes" in refused(path, spec, tmp_path)


@pytest.mark.parametrize("place", range(100, 120, 4))
def test_counts_in_the_header_that_claim_billions_are_refused(tmp_path, spec, place):
    """The library makes room for what is claimed; nothing here may claim more than a header may hold."""
    head = bytearray(header())
    head[place : place + 4] = (2**32 - 1).to_bytes(4, "little")
    path = tmp_path / "x.dbn.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(bytes(head) + bytes(Msg())))
    with contextlib.suppress(InputError):
        ingest_day([path], spec, tmp_path / "day")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3 << 20


def test_frame_that_declares_a_huge_size_or_window_is_refused(tmp_path, spec):
    """The bytes of a zstd frame's header: descriptor, window of 2 GiB, content size of 2**62."""
    huge_size = b"\x28\xb5\x2f\xfd" + b"\xe0" + (2**62).to_bytes(8, "little") + b"\x01\x00\x00"
    huge_window = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([21 << 3]) + b"\x01\x00\x00"
    for content in (huge_size, huge_window):
        path = tmp_path / "x.dbn.zst"
        path.write_bytes(content)
        assert "fetch" in refused(path, spec, tmp_path)


def test_many_tiny_frames_take_linear_time(tmp_path):
    one = zstandard.ZstdCompressor().compress(b"")
    path = tmp_path / "x.dbn.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(header() + bytes(Msg())) + one * 200_000)
    began = time.process_time()
    with open_raw(path, InstrumentSpec()) as file:
        assert sum(len(chunk) for chunk in file.chunks(64)) == 1
    assert time.process_time() - began < 10


def test_well_compressed_honest_file_is_no_bomb(tmp_path):
    """A quiet day: the same book again and again under ever new times still shrinks far less than the bound."""
    quiet = np.repeat(np.frombuffer(bytes(Msg()), dtype=MBP10_DTYPE), 200_000)
    quiet["sequence"] = np.arange(len(quiet))
    quiet["ts_event"] = quiet["ts_recv"] = T0 + np.arange(len(quiet)) * 10**6
    records = quiet.tobytes()
    path = tmp_path / "x.dbn.zst"
    path.write_bytes(zstandard.ZstdCompressor(level=12).compress(header() + records))
    assert len(records) > FREE_BYTES
    with ByteStream(path) as stream:
        target = memoryview(bytearray(1 << 22))
        while stream.fill(target):
            pass
    assert stream.offset / path.stat().st_size < MAX_RATIO / 5


SHORT_OF_MEMORY = """
import resource, sys
from pathlib import Path
import zstandard
from alpha_core.errors import InputError
from alpha_pipeline.ingest.stream import ByteStream

path = Path(sys.argv[1])
target = memoryview(bytearray(1 << 16))
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
told = set()
for more in range(4, 420, 8):
    resource.setrlimit(resource.RLIMIT_AS, (used + (more << 20), resource.RLIM_INFINITY))
    try:
        with ByteStream(path) as stream:
            stream.fill(target)
        told.add("cut")
    except InputError as error:
        told.add(str(error)[:str(error).find(" near byte")].rpartition(" ")[2])
print(*sorted(told))
"""


def test_cut_frame_with_a_large_window_is_one_sentence_also_where_memory_is_short(tmp_path):
    """52 mutated bytes asked for a window of 128 MiB, twice: once to find the cut, once to recover what precedes it."""
    path = tmp_path / "window.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00" + bytes([17 << 3]) + b"\x00\x10")
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["cut", "damaged"]), done.stderr
