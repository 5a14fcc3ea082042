"""Whoever opens a path sees the old file or the new one, whole, whatever happens to the writer."""

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from in_memory import encode_column

from alpha_core.errors import AlphaError
from alpha_pipeline.fxcache import collect_garbage, list_days, open_day
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache.writer import day_lock, publish

WRITER = """
    import sys, itertools
    from pathlib import Path
    import numpy as np
    from test_publish import plain
    from alpha_pipeline.fxcache.writer import day_lock, publish
    batches = [plain(rows) for rows in map(int, sys.argv[2].split(","))]
    print("ready", flush=True)
    for k in range(int(sys.argv[3])):
        with day_lock(Path(sys.argv[1])):
            publish(Path(sys.argv[1]), batches[k % len(batches)])
"""


def plain(rows):
    """A valid file's batch with every value equal to the number of rows."""
    arrays = []
    for field in layout.schema():
        kind = field.type.value_type if pa.types.is_fixed_size_list(field.type) else field.type
        width = (rows, field.type.list_size) if kind is not field.type else (rows,)
        number = np.int64 if pa.types.is_timestamp(kind) else kind.to_pandas_dtype()
        arrays.append(encode_column(np.full(width, rows, number), field.type))
    bare = pa.RecordBatch.from_arrays(arrays, schema=layout.schema())
    header = layout.Header(
        day="2024-07-23",
        instrument="demo",
        status="ok",
        rows=rows,
        feature_names=("f",) * 40,
        checksums=layout.checksums(bare),
    )
    return bare.replace_schema_metadata(header.encode())


def start_writer(path, *arguments, script=WRITER, **environment):
    """A process that is at work on the path: it publishes files of the given row counts in turn, so many times."""
    here = Path(__file__).resolve().parent
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(path), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{here}:{here.parents[1]}"} | environment,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def leftovers(folder):
    return [p for p in folder.iterdir() if p.suffix == ".tmp"]


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_atomic_write_a_killed_writer_leaves_old_or_new(tmp_path, kills):
    path = tmp_path / "2024-07-23.fxcache"
    publish(path, plain(7))
    chance = random.Random(1)
    for _ in range(kills):
        process = start_writer(path, "3000,40", 10**9)
        time.sleep(chance.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        day = open_day(path, "full")
        assert day.rows in (7, 3000, 40) and (day.features == day.rows).all()
    with day_lock(path, wait_s=5):
        publish(path, plain(9))
    assert open_day(path, "full").rows == 9 and not leftovers(tmp_path)


def test_read_while_write_a_reader_sees_wholly_old_or_wholly_new(tmp_path):
    path = tmp_path / "2024-07-23.fxcache"
    publish(path, plain(5))
    held = open_day(path)
    process = start_writer(path, "4000,10", 60)
    seen, reads = set(), 0
    while process.poll() is None or reads < 20:
        day = open_day(path, "full")
        assert (day.tape == day.rows).all()
        seen.add(day.rows)
        reads += 1
    process.stdout.close()
    assert process.returncode == 0 and len(seen) > 1 and seen <= {5, 4000, 10}
    assert (held.features == 5).all(), "the replaced file stays whole for whoever has mapped it"


def test_atomic_rename_temporary_folder_on_another_filesystem(tmp_path):
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second filesystem at /dev/shm")
    path = tmp_path / "2024-07-23.fxcache"
    before = set(other.iterdir())
    process = start_writer(path, "50", 1, TMPDIR=str(other))
    process.wait()
    process.stdout.close()
    assert process.returncode == 0 and open_day(path, "full").rows == 50
    assert set(other.iterdir()) == before


def test_full_disk_keeps_the_old_file_and_says_so(tmp_path):
    path = tmp_path / "2024-07-23.fxcache"
    publish(path, plain(7))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(
            AlphaError, match=r"2024-07-23\.fxcache cannot be written \(File too large\); free space"
        ):
            publish(path, plain(3000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert open_day(path, "full").rows == 7 and not leftovers(tmp_path)


def test_full_disk_while_columns_are_spooled_keeps_the_old_file_and_says_so(build, cached):
    """At whatever write the disk is full: the first byte of a column, a bitmap's last one, the file itself."""
    before = cached.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 40, 200, 3000, 30_000, len(before) - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(AlphaError, match=r"2024-07-23\.fxcache cannot be written \(File too large\)"):
                build(cached)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert cached.read_bytes() == before and not leftovers(cached.parent), limit


SPOOLER = """
    import sys, time
    from pathlib import Path
    import numpy as np
    from alpha_pipeline.fxcache.spool import ColumnSpool
    with ColumnSpool(Path(sys.argv[1])) as spool:
        spool.append("ts", np.arange(1 << 20))
        print("ready", flush=True)
        time.sleep(60)
"""


def test_atomic_write_a_killed_builder_leaves_no_spooled_columns(tmp_path):
    process = start_writer(tmp_path / "2024-07-23.fxcache", script=SPOOLER)
    assert [p for p in tmp_path.iterdir() if p.suffix != ".tmp"] == []
    process.kill()
    process.wait()
    process.stdout.close()
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AlphaError, match="cannot be written"), day_lock(tmp_path / "file" / "x.fxcache"):
        pass


def test_a_second_writer_waits(tmp_path):
    path = tmp_path / "2024-07-23.fxcache"
    order = []

    def second():
        with day_lock(path, wait_s=10):
            order.append("second")

    with day_lock(path):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.15)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_second_writer_fails_cleanly_when_the_first_does_not_end(build, cached):
    before = cached.read_bytes()
    with (
        day_lock(cached),
        pytest.raises(AlphaError, match=r"is being written by another process, not free within 0\.05 s"),
    ):
        build(cached, lock_wait_s=0.05)
    assert cached.read_bytes() == before


def test_a_failed_build_leaves_the_old_file(build, cached, market_tables):
    before = cached.read_bytes()
    with pytest.raises(AlphaError):
        build(cached, tables=(market_tables[0].drop_columns(["segment"]), market_tables[1]))
    assert cached.read_bytes() == before and not leftovers(cached.parent)


def test_rebuild_of_one_day_touches_no_other(build, tmp_path):
    paths = [build(tmp_path / f"2024-07-{d}.fxcache", day=f"2024-07-{d}").path for d in (23, 24)]
    inodes = [p.stat().st_ino for p in paths]
    times = paths[0].stat().st_mtime_ns
    build(paths[1], day="2024-07-24")
    assert paths[0].stat().st_mtime_ns == times and paths[0].stat().st_ino == inodes[0]
    assert paths[1].stat().st_ino != inodes[1], "replaced by a new inode, never rewritten in place"


def test_listing_and_garbage(build, tmp_path):
    for d in (24, 23):
        build(tmp_path / f"2024-07-{d}.fxcache", day=f"2024-07-{d}")
    young, old = (tmp_path / f".2024-07-2{k}.fxcache.1-a.tmp" for k in (3, 4))
    young.write_bytes(b"x")
    old.write_bytes(b"x")
    os.utime(old, (1, 1))
    assert list(list_days(tmp_path)) == ["2024-07-23", "2024-07-24"]
    assert collect_garbage(tmp_path) == [old]
    assert young.exists() and not old.exists() and open_day(list_days(tmp_path)["2024-07-23"]).rows
