"""What is written is what is read, from inside the map, in no time."""

import errno
import os
import time
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from fx_tables import START, event, ladder, random_market, tables
from in_memory import encode_day, write

from alpha_core.errors import AlphaError, ConfigError, DataError, InputError
from alpha_core.market.data import TAPE_WIDTH
from alpha_core.shapes import HORIZONS
from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.features.columns import TAPE_COLUMNS
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.features.stream import compute_day
from alpha_pipeline.fxcache import FXCACHE_VERSION, day_path, open_day
from alpha_pipeline.fxcache import format as layout

SAME_SHAPE = (
    "ts",
    "ts_event",
    "segment",
    "event_index",
    "features",
    "mid2",
    "mid_open",
    "duration_ns",
    "volume",
    "notional",
    "trades",
    "signed_volume",
    "tape",
)
"""What a reader gives in the shape in which it was computed; the book comes by level."""


@pytest.fixture
def day(market_tables):
    return compute_day(*market_tables, FeatureConfig(warmup_rows=20))


def test_columns_are_those_of_the_contract():
    names = [
        "ts",
        "ts_event",
        "segment",
        "event_index",
        "features",
        "mid2",
        "last_trade",
        "raw_open",
        "mid_open",
    ]
    names += ["duration_ns", "high", "low", "volume", "notional", "trades", "signed_volume"]
    names += [*(f"label_{h}" for h in HORIZONS), "book", "tape"]
    assert layout.schema().names == names
    assert TAPE_COLUMNS == TAPE_WIDTH
    types = {f.name: str(f.type) for f in layout.schema()}
    assert types["ts"] == types["ts_event"] == "timestamp[ns, tz=UTC]"
    assert types["features"] == "fixed_size_list<item: float>[40]"
    assert types["book"] == "fixed_size_list<item: int32>[40]"
    assert types["tape"] == "fixed_size_list<item: int32>[22]"


def test_round_trip(day, cached):
    opened = open_day(cached, "full")
    for name in SAME_SHAPE:
        np.testing.assert_array_equal(getattr(opened, name), day.columns[name], err_msg=name)
    np.testing.assert_array_equal(opened.book.reshape(-1, 40), day.columns["book"])
    assert opened.book.shape == (opened.rows, 10, 4)
    np.testing.assert_array_equal(opened.labels, day.labels.change)
    np.testing.assert_array_equal(opened.label_valid, day.labels.valid)
    for name in ("last_trade", "raw_open", "high", "low"):
        values, present = getattr(opened, name)
        np.testing.assert_array_equal(
            present, day.present["last_trade" if name == "last_trade" else "raw_open"]
        )
        np.testing.assert_array_equal(values[present], day.columns[name][present])
        assert present.any() and not present.all()
    assert opened.feature_names == FEATURE_NAMES and not opened.degraded
    price, present = opened.vwap
    np.testing.assert_array_equal(present, opened.trades > 0)
    np.testing.assert_allclose((price * opened.volume)[present], opened.notional[present], rtol=1e-15)
    assert (opened.low[0] <= price)[present].all() and (price <= opened.high[0])[present].all()


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 1000])
def test_streamed_file_has_the_bytes_of_one_made_in_memory(build, tmp_path, rows):
    """Counts of rows around whole bytes of a bitmap, columns with and without nulls, and no rows at all."""
    events = random_market(11, rows, segments=1) if rows else []
    made = build(tmp_path / "2024-01-02.fxcache", tables=tables(events), day="2024-01-02")
    plain = encode_day(compute_day(*tables(events), FeatureConfig(warmup_rows=20)), made.header)
    assert made.path.read_bytes() == write(tmp_path / "plain", plain).read_bytes()
    open_day(made.path, "full")


def test_streamed_file_is_the_same_where_the_kernel_cannot_copy(build, tmp_path, monkeypatch):
    first = build(tmp_path / "2024-01-02.fxcache", day="2024-01-02").path.read_bytes()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EXDEV, "cross-device")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    assert build(tmp_path / "2024-01-02.fxcache", day="2024-01-02").path.read_bytes() == first


def test_header_says_everything(day, cached):
    info = open_day(cached).info
    assert info.to_dict() | {"path": "", "checksums": {}} == {
        "path": "",
        "version": FXCACHE_VERSION,
        "size_bytes": cached.stat().st_size,
        "degraded": [],
        "day": "2024-07-23",
        "instrument": "demo",
        "status": "ok",
        "rows": len(day.columns["ts"]),
        "feature_names": FEATURE_NAMES,
        "config": asdict(FeatureConfig(warmup_rows=20)),
        "source_digests": {"day.dbn.zst": "00ff"},
        "builder_digest": info.header.builder_digest,
        "counts": day.counts,
        "ties": {f"label_{h}": n for h, n in day.labels.ties().items()},
        "null_labels": {f"label_{h}": n for h, n in day.labels.nulls().items()},
        "checksums": {},
    }
    assert len(info.header.builder_digest) == 32
    with pa.OSFile(str(cached)) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    assert {f.name for f in batch.schema} <= set(info.header.checksums)


def test_views_lie_inside_the_map(cached):
    opened = open_day(cached)
    start, size = opened.mapped_range
    for name in (*SAME_SHAPE, "book"):
        view = getattr(opened, name)
        assert start <= view.ctypes.data and view.ctypes.data + view.nbytes <= start + size, name
        assert not view.flags.writeable and not view.flags.owndata, name
    assert opened.features.flags.c_contiguous and opened.features.dtype == np.float32


def test_opening_takes_under_5_ms(build, tmp_path):
    events = [event(ladder(100 + k % 3), START + k) for k in range(2000)]
    path = build(tmp_path / "2024-01-02.fxcache", tables=tables(events)).path
    open_day(path)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        rows = open_day(path, "fast").features.shape[0]
        times.append(time.perf_counter() - begin)
    assert rows == 2000 and min(times) < 0.005


def test_first_and_warm_rows(day, cached):
    opened = open_day(cached)
    segment = day.columns["segment"]
    starts = [0, *(np.flatnonzero(np.diff(segment)) + 1), len(segment)]
    assert np.flatnonzero(opened.first).tolist() == starts[:-1]
    for begin, end in pairwise(starts):
        assert opened.warm[begin:end].tolist() == [k >= 20 for k in range(end - begin)]


def test_empty_input_gives_a_valid_file(build, tmp_path, market_tables):
    snapshots, trades = market_tables
    info = build(
        tmp_path / "2024-12-25.fxcache", tables=(snapshots.slice(0, 0), trades.slice(0, 0)), day="2024-12-25"
    )
    opened = open_day(info.path, "full")
    assert opened.info.status == "empty" and opened.rows == 0
    assert (
        opened.features.shape == (0, 40) and opened.book.shape == (0, 10, 4) and opened.tape.shape == (0, 22)
    )
    assert opened.labels.shape == opened.label_valid.shape == (0, 5)
    assert opened.warm.shape == (0,) and opened.raw_open[0].shape == (0,)


@pytest.mark.parametrize("pieces", [(1, 1), (33, 7), (400, 1000)])
def test_same_input_gives_the_same_bytes(build, tmp_path, market_tables, pieces):
    """However the tables are cut, in memory and on disk."""
    paths = []
    for name, table, rows in zip(("snapshots", "trades"), market_tables, pieces, strict=True):
        paths.append(tmp_path / f"{name}.arrow")
        with pa.ipc.new_file(paths[-1], table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    from_files = build(tmp_path / "1.fxcache", tables=paths).path.read_bytes()
    assert from_files == build(tmp_path / "2.fxcache").path.read_bytes()


def test_released_pages_come_back(cached):
    opened = open_day(cached, "full")
    before, view = opened.features.copy(), opened.features
    opened.release()
    assert view.tobytes() == before.tobytes()


@pytest.mark.parametrize("day_key", ["../x", "2024-7-3", "2024-07-23\n", "ES.c.0", ""])
def test_symbol_in_path_only_a_date_becomes_a_file_name(build, tmp_path, day_key):
    with pytest.raises(ConfigError, match="must be a date written YYYY-MM-DD"):
        day_path(tmp_path, day_key)
    with pytest.raises(ConfigError):
        build(tmp_path / "x.fxcache", day=day_key)
    assert not list(tmp_path.iterdir())


def test_symbol_in_path_the_instrument_never_is(build, tmp_path):
    for name in ("EUR/USD", "../../x", "a b", "BRK.A"):
        info = build(tmp_path / "d.fxcache", instrument=name)
        assert open_day(info.path).info.header.instrument == name
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == ["d.fxcache"]


def test_unknown_verify_is_refused(cached):
    with pytest.raises(ConfigError, match="verify was 'quick', must be one of none, fast, full"):
        open_day(cached, "quick")


def test_files_that_are_no_cache_are_refused(tmp_path, market_tables):
    missing = tmp_path / "missing.fxcache"
    with pytest.raises(InputError, match="does not exist; run `alpha run`"):
        open_day(missing)
    for content in (b"", b"ARROW1", b"text" * 100):
        path = tmp_path / "bad.fxcache"
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a readable fxcache file"):
            open_day(path)
    other = tmp_path / "other.fxcache"
    with pa.ipc.new_file(other, market_tables[1].schema) as writer:
        writer.write_table(market_tables[1])
    with pytest.raises(InputError, match="its format is None, must be 'alpha-pipeline/fxcache'"):
        open_day(other)


def test_truncated_file_is_refused(cached):
    whole = cached.read_bytes()
    for size in (len(whole) - 1, len(whole) - 11, len(whole) // 2, 100):
        cached.write_bytes(whole[:size])
        with pytest.raises(InputError, match="is not a readable fxcache file"):
            open_day(cached, "fast")


def test_every_flipped_data_byte_is_found_by_full(cached):
    whole = cached.read_bytes()
    opened = open_day(cached)
    base = opened.mapped_range[0]
    names = ("features", "mid2", "book", "tape", "ts", "duration_ns", "segment")
    places = {name: getattr(opened, name).ctypes.data - base for name in names}
    for name, start in places.items():
        offset = start + getattr(opened, name).nbytes // 2
        flipped = bytearray(whole)
        flipped[offset] ^= 0x10
        cached.write_bytes(flipped)
        open_day(cached, "none")
        with pytest.raises(
            InputError, match=rf"the checksums of {name} do not match; run `alpha cache verify"
        ):
            open_day(cached, "full")


def test_a_flipped_byte_anywhere_is_found_or_harmless(cached):
    """Padding and the second copy of the schema carry no information; everything else is covered."""
    whole, good = cached.read_bytes(), open_day(cached, "full")
    g = np.random.default_rng(3)
    found = 0
    for offset in g.integers(0, len(whole), 300).tolist() + list(range(len(whole) - 60, len(whole))):
        flipped = bytearray(whole)
        flipped[offset] ^= 1 << int(g.integers(8))
        cached.write_bytes(flipped)
        try:
            opened = open_day(cached, "full")
        except AlphaError:
            found += 1
            continue
        assert opened.info.header == good.info.header
        assert (
            opened.features.tobytes() == good.features.tobytes()
            and opened.tape.tobytes() == good.tape.tobytes()
        )
        assert opened.label_valid.tobytes() == good.label_valid.tobytes()
    assert found > 200


def test_damaged_header_is_found_even_without_verification(cached):
    whole = cached.read_bytes()
    cached.write_bytes(whole.replace(b'"instrument": "demo"', b'"instrument": "demi"'))
    with pytest.raises(InputError, match="header does not match its checksum"):
        open_day(cached, "none")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda h: {"rows": h.rows + 1}, "rows, its header says"),
        (lambda h: {"checksums": h.checksums | {"label_30.present": ""}}, None),
        (
            lambda h: {"checksums": {k: v for k, v in h.checksums.items() if k != "tape"}},
            r"buffers \['tape'\] are",
        ),
    ],
)
def test_fast_compares_the_data_with_the_header(cached, change, reason):
    header = open_day(cached).info.header
    with pa.OSFile(str(cached)) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    wrong = batch.replace_schema_metadata(replace(header, **change(header)).encode())
    with pa.ipc.new_file(cached, wrong.schema) as writer:
        writer.write_batch(wrong)
    open_day(cached, "none")
    if reason:
        with pytest.raises(InputError, match=reason):
            open_day(cached, "fast")
    else:
        open_day(cached, "fast")
        with pytest.raises(InputError, match=r"checksums of label_30\.present do not match"):
            open_day(cached, "full")


def test_fast_wants_the_columns_of_the_version(cached):
    with pa.OSFile(str(cached)) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    fewer = batch.drop_columns(["tape"])
    with pa.ipc.new_file(cached, fewer.schema) as writer:
        writer.write_batch(fewer)
    with pytest.raises(InputError, match="its columns are not those of its version"):
        open_day(cached)


def test_blocks_are_refused_where_a_version_lacks_them(tmp_path):
    from test_versions import write_old

    path = write_old(tmp_path / "old.fxcache", 2)
    with pytest.raises(DataError, match="is fxcache version 2, which has no tape; rebuild the day"):
        _ = open_day(path).tape
