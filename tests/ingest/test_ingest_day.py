"""A day as a whole: order, accounting, independence of chunks, and publication all at once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from dbn_builder import LAST, T0, TICK, Msg, header, ladder, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingested_day import load

from alpha_core.errors import ConfigError, InputError
from alpha_pipeline.ingest import (
    REPORT,
    SNAPSHOTS,
    TRADES,
    IngestConfig,
    QualityThresholds,
    events,
    ingest_day,
    open_table,
    read_report,
)

SMALL = IngestConfig(chunk_records=16)


def random_records(seed: int, count: int) -> list[Msg]:
    """Three instruments, events of several records, trades, clears, off-tick books."""
    rng = np.random.default_rng(seed)
    actions = rng.choice(list("AACCMMTTRN"), count)
    records = []
    for k in range(count):
        bid = int(rng.integers(19_990, 20_010)) * TICK + int(rng.random() < 0.05)
        records.append(
            Msg(
                ts=T0 + k * int(rng.integers(1, 3)) * 10**6,
                action=str(actions[k]),
                side=str(rng.choice(list("ABN"))),
                price=20_000 * TICK,
                size=int(rng.integers(1, 9)),
                flags=LAST if rng.random() < 0.6 else 0,
                sequence=k,
                instrument_id=int(rng.choice([1, 1, 1, 2])),
                bids=ladder(bid, -TICK, int(rng.integers(0, 11))),
            )
        )
    return sorted(records, key=lambda record: record.ts)


@pytest.mark.parametrize("seed", range(3))
def test_result_does_not_depend_on_the_chunk_size(tmp_path, spec, seed, monkeypatch):
    path = write(tmp_path / "x.dbn.zst", random_records(seed, 400), head=header({"TEST": 1, "OTHER": 2}))
    monkeypatch.setattr(events, "BATCH_ROWS", 32)
    days = []
    for size in (16, 33, 8192):
        out = tmp_path / str(size)
        days.append(load(out, ingest_day([path], spec, out, config=IngestConfig(chunk_records=size))))
    first = days[0]
    assert first.trades.height > 10
    assert first.report.skipped.keys() >= {"off_tick", "other_instrument"}
    for other in days[1:]:
        assert other.report == first.report
        assert other.snapshots.equals(first.snapshots)
        assert other.trades.equals(first.trades)
    for name in (SNAPSHOTS, TRADES):
        assert len({(tmp_path / str(size) / name).read_bytes() for size in (16, 33, 8192)}) == 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), count=st.integers(0, 60))
def test_every_record_is_accounted_for(tmp_path, spec, seed, count):
    head = header({"TEST": 1, "OTHER": 2})
    on_tick = Msg(ts=T0 + 10**12)  # a day without any is refused
    path = write(tmp_path / "x.dbn.zst", [*random_records(seed, count), on_tick], head=head)
    report = ingest_day([path], spec, tmp_path / "day", config=SMALL)
    left_out = sum(report.skipped.values()) + sum(report.skipped_by_type.values())
    assert report.records_read == count + 1 == report.records_kept + left_out
    assert sum(report.instruments.values()) == count + 1


def test_same_input_gives_the_same_bytes(tmp_path, spec):
    path = write(tmp_path / "x.dbn.zst", random_records(1, 200), head=header({"TEST": 1, "OTHER": 2}))
    outs = [tmp_path / "a", tmp_path / "b"]
    for out in outs:
        ingest_day([path], spec, out)
    for name in (SNAPSHOTS, TRADES, REPORT):
        assert (outs[0] / name).read_bytes() == (outs[1] / name).read_bytes()


def test_backward_receive_times_are_counted_and_sorted_stably(ingest):
    times = [10, 20, 20, 15, 20, 5, 30]
    records = [Msg(ts=T0 + t, sequence=k) for k, t in enumerate(times)]
    day = ingest(records, config=SMALL)
    assert day.snapshots["sequence"].to_list() == [5, 0, 3, 1, 2, 4, 6]
    assert day.report.ts_recv_backward == 2
    assert day.report.largest_backward_ns == 15
    assert day.report.reordered
    assert day.report.records_kept == 7


def test_backward_event_times_alone_do_not_reorder(ingest):
    """Channels lag one another: receive time is the order, event time is a fact."""
    day = ingest([Msg(ts=T0 + k, ts_event=T0 - k, sequence=k) for k in range(4)])
    assert day.snapshots["sequence"].to_list() == [0, 1, 2, 3]
    assert (day.report.ts_event_backward, day.report.reordered) == (3, False)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_several_files_of_a_day_are_one_day_in_time_order(tmp_path, spec, order):
    parts = [
        write(
            tmp_path / f"{part}.dbn.zst",
            [Msg(ts=T0 + 2 * k + part, sequence=2 * k + part) for k in range(50)],
        )
        for part in (0, 1)
    ]
    out = tmp_path / "day"
    day = load(out, ingest_day([parts[k] for k in order], spec, out, config=SMALL))
    assert day.snapshots["sequence"].to_list() == list(range(100))
    assert [source.name for source in day.report.sources] == [f"{k}.dbn.zst" for k in order]
    assert sorted(p.name for p in out.iterdir()) == sorted([SNAPSHOTS, TRADES, REPORT])


def test_report_stored_beside_the_data_is_the_returned_one(tmp_path, ingest):
    day = ingest([Msg(ts=T0 + k) for k in range(3)])
    stored = json.loads((tmp_path / "day" / REPORT).read_text())
    assert read_report(tmp_path / "day") == day.report
    assert stored["last_ts_recv"] == T0 + 2
    (source,) = stored["sources"]
    raw = (tmp_path / "raw" / source["name"]).read_bytes()
    import hashlib

    assert source["sha256"] == hashlib.sha256(raw).hexdigest()
    assert day.report.source_digests == {source["name"]: source["sha256"]}
    assert source["bytes"] == len(raw)


def test_report_of_before_counts_existed_is_still_read(tmp_path, ingest):
    day = ingest([Msg()])
    stored = json.loads((tmp_path / "day" / REPORT).read_text())
    for source in stored["sources"]:
        assert source.pop("counts") == {}
    (tmp_path / "day" / REPORT).write_text(json.dumps(stored))
    assert read_report(tmp_path / "day") == day.report


def test_tables_are_mapped_and_readable_by_polars(tmp_path, ingest):
    ingest([Msg(ts=T0 + k) for k in range(3)])
    frame = pl.read_ipc(tmp_path / "day" / SNAPSHOTS)
    assert frame.equals(pl.from_arrow(open_table(tmp_path / "day" / SNAPSHOTS)))


def test_unreadable_tables_and_reports_say_so(tmp_path):
    (tmp_path / SNAPSHOTS).write_bytes(b"no arrow")
    (tmp_path / REPORT).write_text("{}")
    with pytest.raises(InputError, match="not a readable Arrow file"):
        open_table(tmp_path / SNAPSHOTS)
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="not a readable ingest report"):
            read_report(folder)


INGEST_FOR_EVER = """
import sys
from pathlib import Path
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.instrument import InstrumentSpec
spec = InstrumentSpec(name="test", symbols=("TEST",), tick_size="0.25")
print("ready", flush=True)
while True:
    for name in sys.argv[2:]:
        ingest_day([Path(name)], spec, Path(sys.argv[1]))
"""


def test_killed_ingestion_leaves_a_whole_day_or_none(tmp_path, spec):
    """With a report, tables and report are of the same file; without one, the day is not there."""
    paths = [
        write(tmp_path / f"{count}.dbn.zst", [Msg(ts=T0 + k) for k in range(count)]) for count in (300, 2000)
    ]
    out = tmp_path / "day"
    for delay in (0.0, 0.007, 0.019):
        command = [sys.executable, "-c", INGEST_FOR_EVER, str(out), *map(str, paths)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.05 + delay)
            os.kill(process.pid, signal.SIGKILL)
        if (out / REPORT).exists():
            report = read_report(out)
            assert open_table(out / SNAPSHOTS).num_rows == report.snapshots
    report = ingest_day(paths[:1], spec, out)
    assert (report.snapshots, open_table(out / SNAPSHOTS).num_rows) == (300, 300)


def test_failure_while_writing_leaves_the_old_day(tmp_path, spec, monkeypatch):
    out = tmp_path / "day"
    ingest_day([write(tmp_path / "a.dbn.zst", [Msg()])], spec, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        ingest_day([write(tmp_path / "b.dbn.zst", [Msg(), Msg(ts=T0 + 1)])], spec, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_rename_stays_inside_the_folder_of_the_day(tmp_path, spec, monkeypatch):
    """Temporary files lie beside their targets, so that TMPDIR on another file system does not matter."""
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    seen: list[Path] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append(self)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    ingest_day([write(tmp_path / "a.dbn.zst", [Msg()])], spec, tmp_path / "day")
    assert {path.parent for path in seen} == {tmp_path / "day"}
    assert len(seen) == 3


def test_bad_settings_are_listed_at_once():
    with pytest.raises(
        ConfigError, match=r"chunk_records was 1, .*; max_event_records was 0, .*; segment_gap"
    ):
        IngestConfig(chunk_records=1, max_event_records=0, segment_gap_seconds=0.0)
    with pytest.raises(
        ConfigError, match=r"max_crossed_fraction was 2, .*min_rows was -1, .*max_gap_seconds was"
    ):
        QualityThresholds(max_crossed_fraction=2, min_rows=-1, max_gap_seconds=float("nan"))
