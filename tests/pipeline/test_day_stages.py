"""The stages of a day read its tables in slices: same figures as from the whole tables, same memory for any day."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import tiny_market
from tiny_market import day

from alpha_core.errors import InputError
from alpha_pipeline.ingest.report import read_report
from alpha_pipeline.ingest.tables import (
    REPORT,
    SNAPSHOT_SCHEMA,
    SNAPSHOTS,
    TRADE_SCHEMA,
    TRADES,
    open_table,
    read_slices,
)
from alpha_pipeline.paths import PROJECT, Workspace
from alpha_pipeline.provenance import Stamp, canonical_json
from alpha_pipeline.stages import data_quality, mbp10_snapshots, trades
from alpha_pipeline.stages.base import StageContext

HALF_MILLION = 500_000
LIMIT_MIB = 1024
DAY_NS = 86_400 * 10**9


def random_tape(seed: int, rows: int) -> pl.DataFrame:
    """Trades over a day, some without size, price touch or aggressor."""
    rng = np.random.default_rng(seed)
    start = int(np.datetime64("2024-01-02", "ns").astype(np.int64))
    ts = pl.Series(start + np.sort(rng.integers(0, DAY_NS, rows))).cast(pl.Datetime("ns", "UTC"))
    columns = {
        "ts_event": ts,
        "ts_recv": ts,
        "price": pl.Series(rng.integers(90, 110, rows)),
        "size": pl.Series(rng.integers(0, 2**31, rows), dtype=pl.UInt32),
        "aggressor": pl.Series(rng.integers(-1, 2, rows), dtype=pl.Int8),
        "bid_px": pl.Series([None if k % 9 == 0 else 99 for k in range(rows)], dtype=pl.Int64),
        "ask_px": pl.Series([101] * rows, dtype=pl.Int64),
        "sequence": pl.Series(range(rows), dtype=pl.UInt32),
        "snapshot_row": pl.Series(range(rows), dtype=pl.Int64),
    }
    return pl.DataFrame(columns)


def write_tape(tape: pl.DataFrame, path: Path, batches: list[int]) -> None:
    table = tape.to_arrow().cast(TRADE_SCHEMA)
    with pa.ipc.new_file(str(path), TRADE_SCHEMA) as writer:
        low = 0
        for rows in batches:
            writer.write_table(table.slice(low, rows).combine_chunks())
            low += rows
        assert low == tape.height


def published(workspace: Workspace, folder: Path) -> StageContext:
    """A context in which `folder` is what ingestion published of the first day, and a new folder to write into."""
    scope = tiny_market.scope(workspace)
    with scope.store.attempt("mbp10_snapshots", day(0)) as out:
        for path in folder.iterdir():
            os.link(path, out / path.name)
        (out / "result.json").write_text("{}")
        scope.store.publish(out, stamp=Stamp(code="", config="", inputs={}))
    into = folder.with_name("out")
    into.mkdir()
    return StageContext(scope=scope, partition=day(0), out=into, work=into / "work")


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    tiny_market.configure(Workspace(tmp_path), tiny_market.CONFIG)
    return Workspace(tmp_path)


@pytest.mark.parametrize("batches", [[500], [1, 498, 1], [120, 0, 130, 250], [7] * 71 + [3]])
def test_trades_are_copied_and_summed_as_the_whole_tape_says(workspace, tmp_path, monkeypatch, batches):
    tape = random_tape(len(batches), 500)
    (tmp_path / "ingested").mkdir()
    write_tape(tape, tmp_path / "ingested" / TRADES, batches)
    context = published(workspace, tmp_path / "ingested")
    monkeypatch.setattr(trades, "read_slices", partial(read_slices, rows=100))
    result = trades.run(context)
    assert pl.DataFrame(pl.from_arrow(open_table(context.out / TRADES))).equals(tape)
    size = tape["size"].cast(pl.Int64)
    assert result.metrics == {
        "rows": 500.0,
        "volume_lots": float(size.sum()),
        "signed_volume_lots": float((size * tape["aggressor"]).sum()),
        "unknown_aggressor": float((tape["aggressor"] == 0).sum()),
        "without_size": float((tape["size"] == 0).sum()),
    }
    by_hour = result.tables["volume_by_hour"]
    assert by_hour["hour"].is_sorted()
    for hour, *sums in by_hour.select("hour", "trades", "volume").iter_rows():
        part = tape.filter(pl.col("ts_recv").dt.truncate("1h") == hour)
        assert sums == [part.height, part["size"].cast(pl.Int64).sum()]
    assert [check.passed for check in result.checks] == [True]


def test_tape_without_trades_is_an_empty_table(workspace, tmp_path):
    (tmp_path / "ingested").mkdir()
    write_tape(random_tape(1, 0), tmp_path / "ingested" / TRADES, [])
    context = published(workspace, tmp_path / "ingested")
    result = trades.run(context)
    assert open_table(context.out / TRADES).num_rows == 0
    assert result.metrics["rows"] == 0
    assert result.figures == {}
    assert all(check.passed for check in result.checks)


def test_slices_read_only_the_columns_that_are_asked_for(tmp_path):
    tape = random_tape(2, 50)
    write_tape(tape, tmp_path / TRADES, [20, 30])
    parts = list(read_slices(tmp_path / TRADES, 10, columns=["size", "price"]))
    assert [part.height for part in parts] == [20, 30]
    assert pl.concat(parts).equals(tape.select("price", "size"))
    with pytest.raises(InputError, match=r"not a readable Arrow file .*colour.*: ingest the day again"):
        list(read_slices(tmp_path / TRADES, columns=["colour"]))


def long_day(folder: Path, rows: int) -> None:
    """An ingested day of many snapshots: a short one again and again, spread over the UTC date."""
    market = tiny_market.make_workspace(folder.with_name("short"), days=1)
    short = tiny_market.build_day(market, day(0), ["mbp10_snapshots"])["mbp10_snapshots"].path
    folder.mkdir()
    snapshots, tape = open_table(short / SNAPSHOTS), open_table(short / TRADES)
    rounds = rows // snapshots.num_rows
    start = int(np.datetime64(day(0), "ns").astype(np.int64))
    step = DAY_NS // (rounds * snapshots.num_rows)
    for name, table, schema in ((SNAPSHOTS, snapshots, SNAPSHOT_SCHEMA), (TRADES, tape, TRADE_SCHEMA)):
        row = np.arange(table.num_rows) if name == SNAPSHOTS else table["snapshot_row"].to_numpy()
        with pa.ipc.new_file(str(folder / name), schema) as writer:
            for k in range(rounds):
                at = row + k * snapshots.num_rows
                moved = {"ts_recv": pa.array(start + at * step).cast(schema.field("ts_recv").type)}
                if name == TRADES:
                    moved["snapshot_row"] = pa.array(at)
                columns = [moved.get(field.name, table[field.name]) for field in schema]
                writer.write_table(pa.table(columns, schema=schema).combine_chunks())
    report = read_report(short).to_dict() | {
        "snapshots": rounds * snapshots.num_rows,
        "trades": rounds * tape.num_rows,
    }
    (folder / REPORT).write_text(canonical_json(report))


PEAK = """
import json, sys
from pathlib import Path
sys.path.insert(0, "tests")
import tiny_market
from alpha_pipeline.stages import data_quality, mbp10_snapshots, trades
from alpha_pipeline.stages.base import StageContext, execute
from alpha_pipeline.paths import Workspace
scope = tiny_market.scope(Workspace(Path(sys.argv[1])))
key = tiny_market.day(0)
ingested = scope.store.get("mbp10_snapshots", key).path
mbp10_snapshots._by_hour(StageContext(scope=scope, partition=key, out=ingested, work=ingested))
for stage in (trades.STAGE, data_quality.STAGE):
    result, artifact = execute(stage, scope, key, {})
assert artifact.status == "ok", result.failed
status = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps([result.metrics["rows"], result.metrics["session_coverage"], peak / 1024]))
"""


def peak(root: Path, rows: int) -> tuple[float, float, float]:
    """Rows, coverage of the day and MiB at the peak of a process that runs the day's stages behind ingestion."""
    tiny_market.configure(Workspace(root / "workspace"), tiny_market.CONFIG)
    long_day(root / "ingested", rows)
    published(Workspace(root / "workspace"), root / "ingested")
    command = [sys.executable, "-c", PEAK, str(root / "workspace")]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_day(tmp_path):
    small_rows, _, small = peak(tmp_path / "small", HALF_MILLION)
    large_rows, coverage, large = peak(tmp_path / "large", 4 * HALF_MILLION)
    assert large_rows > 3.9 * small_rows > 3.9 * 0.9 * HALF_MILLION
    assert coverage == 1.0
    assert large < LIMIT_MIB
    assert large - small < 60, f"{small:.0f} MiB for {small_rows} rows, {large:.0f} MiB for {large_rows}"


def test_stages_of_a_long_day_agree_with_the_whole_table(workspace, tmp_path):
    """The small brother of the test above: figures of the stages against one look at all rows."""
    long_day(tmp_path / "ingested", 9000)
    context = published(workspace, tmp_path / "ingested")
    by_hour = mbp10_snapshots._by_hour(
        StageContext(scope=context.scope, partition=day(0), out=tmp_path / "ingested", work=tmp_path)
    )
    whole = pl.DataFrame(pl.from_arrow(open_table(tmp_path / "ingested" / SNAPSHOTS)))
    hours = whole["ts_recv"].dt.hour().value_counts(sort=False).sort("ts_recv")
    assert by_hour["snapshots"].to_list() == hours["count"].to_list() == [375] * 24
    assert by_hour["hour"].to_list() == [str(hour) for hour in range(24)]
    with context.scope.store.attempt("trades", day(0)) as out:
        trades.run(StageContext(scope=context.scope, partition=day(0), out=out, work=tmp_path))
        context.scope.store.publish(out, stamp=Stamp(code="", config="", inputs={}))
    result = data_quality.run(context)
    assert [check.description for check in result.checks if not check.passed] == []
    assert result.metrics["rows"] == whole.height == 9000
    assert result.tables["books_by_hour"]["good"].to_list() == hours["count"].to_list()
    assert result.documents["ingest_report"]["snapshots"] == 9000
