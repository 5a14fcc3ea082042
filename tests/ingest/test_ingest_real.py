"""Real files against the numbers stated for them and against the official decoder, field by field."""

from pathlib import Path

import databento
import numpy as np
import polars as pl
import pytest
from ingested_day import Day, facts, load

from alpha_core.errors import InputError
from alpha_pipeline.ingest import QualityThresholds, ingest_day
from alpha_pipeline.ingest.databento import DbnFile
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.quality import assess_day
from alpha_pipeline.ingest.source import discover
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.schemas import validate

pytestmark = pytest.mark.real_data

NEXO = InstrumentSpec(
    name="nexousdt", symbols=("NEXOUSDT",), tick_size="0.001", multiplier=1.0, currency="USDT"
)
BTC = InstrumentSpec(name="btcusdt", symbols=("BTCUSDT",), tick_size="0.01", multiplier=1.0, currency="USDT")
ES = InstrumentSpec(name="es", symbols=("ESH4",), tick_size="0.25", calendar="CMES")

EXPECTED = {
    ("nexousdt", "2024-07-23"): (NEXO, 22_288, 4_681, 1_173),
    ("nexousdt", "2024-07-24"): (NEXO, 60_208, 12_215, 2_307),
    ("nexousdt", "2024-07-25"): (NEXO, 7_876, 1_921, 343),
    ("btcusdt", "2024-08-08"): (BTC, 12_905, 9_756, None),
    ("btcusdt", "2024-08-09"): (BTC, 13_100, 10_147, None),
    ("es", "2023-12-25"): (ES, 43_717, 2_973, 1_829),
}
FLAG_LAST = 0x80
UNDEFINED = 2**63 - 1


@pytest.fixture(scope="module")
def days(real_data, tmp_path_factory) -> dict[tuple[str, str], tuple[Day, np.ndarray]]:
    """Every real MBP-10 day as we and as the official decoder read it."""
    result = {}
    for (name, day), (spec, *_) in EXPECTED.items():
        paths = discover(LocalFolder(real_data / "mbp10-derived"), spec)[day]
        out = tmp_path_factory.mktemp(name) / day
        official = databento.DBNStore.from_file(paths[0]).to_ndarray()
        result[name, day] = (load(out, ingest_day(paths, spec, out)), official)
    return result


def mid_changes(records: np.ndarray) -> int:
    return int(np.count_nonzero(np.diff(records["bid_px_00"] + records["ask_px_00"])))


@pytest.mark.parametrize("key", EXPECTED, ids="-".join)
def test_counts_are_the_stated_ones(days, key):
    _, records, trades, changes = EXPECTED[key]
    day, official = days[key]
    assert day.report.records_read == day.report.records_kept == len(official) == records
    assert day.report.trades == day.trades.height == trades
    assert day.report.snapshots == day.snapshots.height == np.count_nonzero(official["flags"] & FLAG_LAST)
    assert day.report.skipped == {"unfinished_event": 0} or not any(day.report.skipped.values())
    if changes is not None:
        assert mid_changes(official) == changes


@pytest.mark.parametrize("key", [key for key in EXPECTED if key[0] == "nexousdt"], ids="-".join)
def test_mid_changes_of_the_table(days, key):
    frame = days[key][0].snapshots
    assert (frame["bid_px_00"] + frame["ask_px_00"]).diff().drop_nulls().ne(0).sum() == EXPECTED[key][3]


@pytest.mark.parametrize("key", EXPECTED, ids="-".join)
def test_every_field_of_every_row_equals_the_official_decoder(days, key):
    tick = EXPECTED[key][0].tick_nanos
    day, official = days[key]
    rows = official[(official["flags"] & FLAG_LAST) != 0]
    for name in ("ts_event", "ts_recv"):
        assert np.array_equal(day.snapshots[name].to_physical().to_numpy(), rows[name].astype(np.int64))
    for name in ("sequence", "instrument_id", "size", "flags"):
        assert np.array_equal(day.snapshots[name].to_numpy(), rows[name])
    for name in ("action", "side"):
        assert day.snapshots[name].cast(pl.String).to_list() == rows[name].astype(str).tolist()
    levels = [
        (f"{side}_{kind}_{k:02d}", kind)
        for side in ("bid", "ask")
        for kind in ("px", "sz", "ct")
        for k in range(10)
    ]
    for name, kind in [("price", "px"), *levels]:
        ours = day.snapshots[name]
        if kind == "px":
            nanos = (ours * tick).fill_null(UNDEFINED)
            assert np.array_equal(nanos.to_numpy(), rows[name])
            assert ours.null_count() == np.count_nonzero(rows[name] == UNDEFINED)
        else:
            assert np.array_equal(ours.to_numpy(), rows[name])


@pytest.mark.parametrize("key", EXPECTED, ids="-".join)
def test_every_trade_equals_the_official_decoder(days, key):
    tick = EXPECTED[key][0].tick_nanos
    day, official = days[key]
    at = np.flatnonzero(official["action"] == b"T")
    theirs, tape = official[at], day.trades
    for ours, name in (("price", "price"), ("bid_px", "bid_px_00"), ("ask_px", "ask_px_00")):
        assert np.array_equal((tape[ours] * tick).to_numpy(), theirs[name])
    assert np.array_equal(tape["size"].to_numpy(), theirs["size"])
    signs = {b"B": 1, b"A": -1, b"N": 0}
    assert tape["aggressor"].to_list() == [signs[side] for side in theirs["side"].tolist()]
    ends = np.flatnonzero(official["flags"] & FLAG_LAST)
    assert np.array_equal(tape["snapshot_row"].to_numpy(), np.searchsorted(ends, at))


def test_christmas_night_opens_crossed_and_ends_at_the_stated_touch(days):
    day, official = days["es", "2023-12-25"]
    spread = official["ask_px_00"] - official["bid_px_00"]
    assert (np.count_nonzero(spread < 0), np.count_nonzero(spread == 0)) == (195, 291)
    at_ends = spread[(official["flags"] & FLAG_LAST) != 0]
    assert (np.count_nonzero(at_ends < 0), np.count_nonzero(at_ends == 0)) == (143, 0)
    assert (day.report.closed, day.report.crossed, day.report.locked) == (145, 1, 0), "142 before the open"
    last = day.snapshots.row(-1, named=True)
    assert (last["bid_px_00"] * 0.25, last["ask_px_00"] * 0.25) == (4810.00, 4810.25)
    assert day.report.instrument_ids == (17_077,)
    assert day.report.session_dates == ("2023-12-26",)
    # the auction's last crossed book is received 69 us after the open: once trading, no other is
    session = day.snapshots.filter(pl.col("segment") == 2)["book_state"]
    assert session.to_list()[:1] == [3]
    assert session[1:].max() == 0


def test_bitcoin_ends_at_the_stated_touch(days):
    last = days["btcusdt", "2024-08-09"][0].snapshots.row(-1, named=True)
    assert (last["bid_px_00"], last["ask_px_00"]) == (6_160_201, 6_160_202)
    assert last["instrument_id"] == 1002


@pytest.mark.parametrize("key", EXPECTED, ids="-".join)
def test_real_days_are_never_crossed_in_session_and_good(days, key):
    day = days[key][0]
    assert all(
        check.passed for check in validate("snapshots", day.snapshots) + validate("trades", day.trades)
    )
    quality = assess_day(facts(day, key[1], EXPECTED[key][0].calendar), QualityThresholds())
    assert [check.description for check in quality.checks if not check.passed] == []
    if key[0] != "es":
        assert (day.report.crossed, day.report.locked, day.report.ts_recv_backward) == (0, 0, 0)


def vendor_files() -> list[str]:
    """Names of the vendor's small files, stated here so that an absent folder skips rather than passes."""
    kinds = ["definition", "mbo", "mbp-1", "mbp-10", "statistics", "status", "tbbo", "trades"]
    return [f"test_data.{kind}" for kind in kinds]


@pytest.mark.parametrize("stem", vendor_files())
def test_vendor_files_are_refused_or_read_never_misread(real_data, tmp_path, stem):
    spec = InstrumentSpec(name="es", symbols=("ES",), tick_size="0.25", calendar="CMES")
    paths = sorted((real_data / "dbn-vendor").glob(f"{stem}.*"))
    assert paths
    for path in paths:
        if path.suffix != ".dbz" and stem == "test_data.mbp-10":
            check_vendor_mbp10(path, spec, tmp_path)
        elif path.suffix != ".dbz" and stem == "test_data.mbo":
            check_vendor_mbo(path, spec, tmp_path)
        else:
            with pytest.raises(InputError, match=r"is not a DBN file|holds schema") as caught:
                ingest_day([path], spec, tmp_path / "day")
            assert str(path) in str(caught.value)
            assert not (tmp_path / "day").exists()


def check_vendor_mbp10(path: Path, spec: InstrumentSpec, tmp_path: Path) -> None:
    official = databento.DBNStore.from_file(path).to_ndarray()
    with DbnFile(path) as file:
        (chunk,) = [chunk.copy() for chunk in file.chunks(16)]
    assert chunk.tobytes() == np.ascontiguousarray(official).tobytes()
    out = tmp_path / path.name
    day = load(out, ingest_day([path], spec, out))
    assert day.snapshots["ts_recv"].to_physical().to_list() == official["ts_recv"].tolist()
    assert (day.report.symbol, day.report.snapshots) == ("ESH1", 2)


def check_vendor_mbo(path: Path, spec: InstrumentSpec, tmp_path: Path) -> None:
    """Two cancels of orders that the file does not hold: every field is read, no book comes of them."""
    official = databento.DBNStore.from_file(path).to_ndarray()
    with DbnFile(path) as file:
        (chunk,) = [chunk.copy() for chunk in file.records(16)]
    assert chunk.dtype.names == official.dtype.names
    assert chunk.tobytes() == np.ascontiguousarray(official).tobytes()
    report = ingest_day([path], spec, tmp_path / path.name)
    assert (report.symbol, report.status, report.records_read) == ("ESH1", "empty", 2)
    assert report.sources[0].counts["unknown_orders_cancelled"] == 2


def test_real_files_of_other_schemas_are_refused(real_data, tmp_path):
    spec = InstrumentSpec(name="es", symbols=("ES",), tick_size="0.25", calendar="CMES")
    for path in sorted((real_data / "mbp1").glob("*.zst")):
        with pytest.raises(InputError, match=r"holds schema (mbp-1|trades) by its header"):
            ingest_day([path], spec, tmp_path / "day")


def test_vendor_fragments_and_multi_frame_without_header_are_refused(real_data, tmp_path):
    for path in sorted((real_data / "dbn-vendor").glob("*.frag*")):
        with pytest.raises(InputError, match="is not a DBN file"):
            ingest_day([path], ES, tmp_path / "day")
