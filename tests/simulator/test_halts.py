"""Halts: cleared, silent, gathered in an auction, uncrossed; and nothing about the market gives them away."""

from dataclasses import replace

import databento
import numpy as np
import polars as pl
import pytest

from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.ingest import SNAPSHOTS, TRADES, ingest_day, open_table
from alpha_pipeline.ingest.events import CROSSED, EMPTY_SIDE, GOOD, LOCKED
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.simulator import SimulatorConfig, simulate_day, simulate_days

PLAIN = SimulatorConfig(events_per_day=6_000, days=1, seed=3)
HALTED = replace(PLAIN, halts_per_day=3.0)
TICK = InstrumentSpec().tick_nanos


def day_of(config):
    return simulate_day(config, TICK, config.day(0), 0)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    folder = tmp_path_factory.mktemp("halts")
    (path,) = simulate_days(HALTED, InstrumentSpec(), folder / "raw")
    report = ingest_day([path], InstrumentSpec(), folder / "day")
    return path, report, pl.DataFrame(pl.from_arrow(open_table(folder / "day" / SNAPSHOTS))), folder


def clears(records):
    return np.flatnonzero(records["action"] == b"R")[1:]  # the first one opens the day


def test_trading_is_the_same_with_and_without_halts():
    plain, halted = day_of(PLAIN), day_of(HALTED)
    count = len(clears(halted.records))
    assert count > 0
    keep = np.ones(len(halted.records), bool)
    for start in clears(halted.records):
        reopened = start + int(np.argmax(halted.records["action"][start:] == b"T"))
        end = reopened + int(np.argmax((halted.records["flags"][reopened:] & 0x80) != 0))
        keep[start : end + 1] = False
    left = halted.records[keep]
    for name in ("action", "side", "price", "size", "flags", "levels", "ts_in_delta"):
        np.testing.assert_array_equal(left[name], plain.records[name], err_msg=name)
    assert np.count_nonzero(halted.records["flags"] & 0x80) == len(halted.truth)
    np.testing.assert_array_equal(
        halted.truth[: len(halted.truth) // 20], plain.truth[: len(halted.truth) // 20]
    )


def test_same_seed_same_bytes_and_each_day_its_own_halts():
    assert day_of(HALTED).records.tobytes() == day_of(HALTED).records.tobytes()
    counts = {len(clears(simulate_day(HALTED, TICK, HALTED.day(k), k).records)) for k in range(6)}
    assert len(counts) > 1


def test_times_and_sequence_run_on_and_every_halt_is_a_silence():
    records = day_of(HALTED).records
    assert (np.diff(records["ts_recv"].astype(np.int64)) >= 0).all()
    assert records["sequence"].tolist() == list(range(1, len(records) + 1))
    for start in clears(records):
        assert int(records["ts_recv"][start + 1]) - int(records["ts_recv"][start]) > 100 * 10**9


def test_official_decoder_reads_every_field(ingested):
    path, _, _, _ = ingested
    official = databento.DBNStore.from_file(path).to_ndarray()
    mine = day_of(HALTED).records
    for name in ("ts_recv", "ts_event", "action", "side", "price", "size", "flags", "sequence"):
        np.testing.assert_array_equal(official[name], mine[name], err_msg=name)
    for k in range(10):
        np.testing.assert_array_equal(official[f"bid_px_{k:02d}"], mine["levels"]["bid_px"][:, k])


def test_ingestion_breaks_there_and_no_book_before_the_uncrossing_is_good(ingested):
    _, report, rows, _ = ingested
    halts = len(clears(day_of(HALTED).records))
    assert report.breaks["clear"] >= halts
    assert report.segments == halts + 1
    states = rows.filter(pl.col("book_state") != GOOD)["book_state"].to_list()
    assert {EMPTY_SIDE, CROSSED} <= set(states) <= {EMPTY_SIDE, LOCKED, CROSSED}
    reopening = rows.filter((pl.col("action") == "R").cum_sum() > 1)
    assert reopening["book_state"][0] == EMPTY_SIDE


def test_cache_has_no_label_and_no_return_across_a_halt(ingested):
    _, _, rows, folder = ingested
    out = build_day(
        folder / "day" / SNAPSHOTS,
        folder / "day" / TRADES,
        day="2024-01-02",
        instrument="demo",
        features=FeatureConfig(),
        source_digests={},
        out=folder / "x.fxcache",
    )
    day = open_day(out.path)
    assert day.rows == rows.filter(pl.col("book_state") == GOOD).height
    assert np.count_nonzero(day.first) == len(clears(day_of(HALTED).records)) + 1
    assert (day.duration_ns < 100 * 10**9).all(), "no row waits for the end of a halt"


def test_mean_number_and_length_of_halts():
    config = replace(PLAIN, halts_per_day=0.5, halt_seconds=300.0, events_per_day=500)
    days = [simulate_day(config, TICK, config.day(k), k).records for k in range(200)]
    counts = np.array([len(clears(records)) for records in days])
    assert 0.35 < counts.mean() < 0.65
    spans = [int(r["ts_recv"][-1]) - int(r["ts_recv"][0]) for r in days]
    longer = np.mean([s for s, c in zip(spans, counts, strict=True) if c == 1]) - np.mean(
        [s for s, c in zip(spans, counts, strict=True) if c == 0]
    )
    assert longer / 1e9 == pytest.approx(300, rel=0.15)
