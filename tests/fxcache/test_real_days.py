"""Real files through ingest and into the cache, against counts that were taken independently."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from alpha_core.market.data import TAPE_SIDE
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fxcache import market_data, open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.instrument import InstrumentSpec

ROOT = Path(__file__).resolve().parents[2]


def build(real_data, folder, market, name):
    spec = InstrumentSpec(
        **tomllib.loads((ROOT / "instruments" / f"{market}.toml").read_text())["instrument"]
    )
    report = ingest_day([real_data / "mbp10-derived" / f"{name}.mbp-10.dbn.zst"], spec, folder)
    info = build_day(
        folder / "snapshots.arrow",
        folder / "trades.arrow",
        day=name[-10:],
        instrument=market,
        features=FeatureConfig(),
        source_digests={name: "0"},
        out=folder / "day.fxcache",
    )
    return report, open_day(info.path, "full")


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("market", "name", "snapshots", "trades", "mid_changes"),
    [
        ("nexousdt", "NEXOUSDT-2024-07-23", 22_288, 4_681, 1_173),
        ("nexousdt", "NEXOUSDT-2024-07-25", 7_876, 1_921, 343),
        ("btcusdt", "BTCUSDT-2024-08-08", 12_905, 9_756, None),
        ("es", "ESH4-2023-12-25", None, 2_973, None),
    ],
)
def test_real_day(real_data, tmp_path, market, name, snapshots, trades, mid_changes):
    _, day = build(real_data, tmp_path, market, name)
    counts = day.info.header.counts
    assert snapshots in (None, counts["snapshots"]) and counts["trades"] == trades
    assert counts["rows"] == counts["good_snapshots"] == day.rows and counts["dropped_trades"] == 0
    assert mid_changes in (None, int(np.count_nonzero(np.diff(day.mid2))))
    assert np.isfinite(day.features).all()
    assert (day.book[:, 0, 0] < day.book[:, 0, 1]).all(), "locked and crossed books are no rows"
    in_tape = int(day.tape[:, [9, TAPE_SIDE + 9]].sum())
    assert in_tape <= trades and in_tape >= 0.99 * trades - day.first.sum()
    np.testing.assert_allclose(np.diff(day.mid2)[~day.first[1:]], 2 * day.features[1:, 27][~day.first[1:]])
    assert market_data([day]).rows == day.rows


@pytest.mark.real_data
def test_auction_books_of_a_future_are_counted_not_kept(real_data, tmp_path):
    report, day = build(real_data, tmp_path, "es", "ESH4-2023-12-25")
    counts = day.info.header.counts
    assert (
        counts["snapshots"] - counts["good_snapshots"]
        == report.closed + report.crossed + report.locked + report.one_sided
        > 100
    )
    assert day.book[-1, 0, :2].tolist() == [4810 * 4, 4810 * 4 + 1]
