"""Files are genuine DBN: the official decoder reads back each value that was written."""

import io
import struct

import databento
import databento_dbn
import numpy as np
import pytest
import zstandard

from alpha_core.errors import ConfigError
from alpha_pipeline.ingest.records import MBP10_DTYPE, UNDEF_PRICE, Flag
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.simulator import SimulatorConfig, simulate_day, simulate_days

SPEC = InstrumentSpec(name="demo", symbols=("DEMO",), tick_size="0.25")
HEADER = [name for name in MBP10_DTYPE.names if name != "levels"]


@pytest.fixture(scope="module")
def written(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    return simulate_days(config, SPEC, folder / "demo", truth=folder / "truth")


def test_one_file_per_day_and_nothing_else(written, config):
    names = [f"DEMO-2024-01-0{k}.mbp-10.dbn.zst" for k in (2, 3, 4)]
    assert [p.name for p in written] == names
    assert sorted(p.name for p in written[0].parent.iterdir()) == names
    truth = np.load(written[0].parent.parent / "truth" / "DEMO-2024-01-03.npz")["signal"]
    np.testing.assert_array_equal(truth, simulate_day(config, SPEC.tick_nanos, "2024-01-03", 1).truth)


def test_official_decoder_reads_every_field_of_every_record(written, simulated):
    decoded = databento.DBNStore.from_file(written[0]).to_ndarray()
    ours = simulated.records
    assert len(decoded) == len(ours)
    for name in HEADER:
        np.testing.assert_array_equal(decoded[name], ours[name], err_msg=name)
    for level in range(10):
        for name in MBP10_DTYPE["levels"].base.names:
            np.testing.assert_array_equal(decoded[f"{name}_{level:02d}"], ours["levels"][name][:, level])


def test_official_record_objects_hold_the_same_values(written, simulated):
    decoder = databento_dbn.DBNDecoder()
    decoder.write(zstandard.ZstdDecompressor().stream_reader(io.BytesIO(written[0].read_bytes())).read())
    messages = [m for m in decoder.decode() if isinstance(m, databento_dbn.MBP10Msg)]
    assert len(messages) == len(simulated.records)
    for index in (0, 1, 20, 21, 500, len(messages) - 1):
        _assert_equal(messages[index], simulated.records[index])


def _assert_equal(message, row):
    for name in (
        "publisher_id",
        "instrument_id",
        "ts_event",
        "price",
        "size",
        "depth",
        "ts_recv",
        "ts_in_delta",
    ):
        assert getattr(message, name) == row[name], name
    assert message.sequence == row["sequence"]
    assert int(message.flags) == row["flags"]
    assert str(message.action).encode() == row["action"]
    assert str(message.side).encode() == row["side"]
    for level, pair in zip(row["levels"], message.levels, strict=True):
        for name in MBP10_DTYPE["levels"].base.names:
            assert getattr(pair, name) == level[name]


def test_metadata_names_schema_and_maps_the_symbol(written, config):
    store = databento.DBNStore.from_file(written[1])
    assert store.schema == "mbp-10"
    assert store.symbols == ["DEMO"]
    assert store.dataset == "XSIM.SIM"
    (interval,) = store.mappings["DEMO"]
    assert (str(interval["start_date"]), str(interval["end_date"])) == ("2024-01-03", "2024-01-04")
    assert interval["symbol"] == str(config.instrument_id)
    assert set(store.to_df()["symbol"]) == {"DEMO"}


def test_record_is_368_bytes_with_its_length_in_words(simulated):
    raw = simulated.records[:1].tobytes()
    assert len(raw) == 368
    assert struct.unpack_from("<BBHI", raw) == (92, 0x0A, 0, 7001)


def test_same_seed_same_bytes_in_any_order_of_days(written, config, tmp_path):
    last, first = simulate_days(config, SPEC, tmp_path, days=["2024-01-04", "2024-01-02"])
    assert last.read_bytes() == written[2].read_bytes()
    assert first.read_bytes() == written[0].read_bytes()


def test_another_seed_or_day_gives_other_bytes(written, config, tmp_path):
    other = SimulatorConfig(events_per_day=config.events_per_day, seed=config.seed + 1)
    (path,) = simulate_days(other, SPEC, tmp_path, days=["2024-01-02"])
    assert path.read_bytes() != written[0].read_bytes()
    a, b = (simulate_day(config, SPEC.tick_nanos, "2024-01-02", k).records for k in (0, 1))
    assert not np.array_equal(a["levels"][:1000], b["levels"][:1000])


def test_progress_counts_days(config, tmp_path):
    seen = []
    small = SimulatorConfig(events_per_day=50, days=2)
    simulate_days(small, SPEC, tmp_path, progress=lambda *args: seen.append(args))
    assert seen == [("2024-01-02", 1, 2), ("2024-01-03", 2, 2)]


def test_tick_size_of_a_256th_is_exact(config):
    spec = InstrumentSpec(name="zt", symbols=("DEMO",), tick_size="0.00390625")
    small = SimulatorConfig(events_per_day=500, start_price_ticks=28162)
    levels = simulate_day(small, spec.tick_nanos, "2024-01-02", 0).records["levels"][21:]
    assert np.all(levels["bid_px"] % 3_906_250 == 0)
    assert levels["bid_px"][0, 0] == 110_007_812_500
    assert np.all(np.diff(levels["ask_px"], axis=1) == 3_906_250)


def test_opening_is_a_clear_then_adds_under_the_snapshot_flag(simulated):
    opening = simulated.records[:21]
    assert opening["action"].tolist() == [b"R"] + [b"A"] * 20
    assert opening["flags"].tolist() == [int(Flag.SNAPSHOT)] * 20 + [int(Flag.SNAPSHOT | Flag.LAST)]
    assert opening["price"][0] == UNDEF_PRICE
    assert np.all(opening["levels"][0]["bid_px"] == UNDEF_PRICE)
    assert np.all(opening["levels"][0]["ask_sz"] == 0)
    defined = opening["levels"]["bid_px"] != UNDEF_PRICE
    assert defined.sum(axis=1).tolist() == [(k + 1) // 2 for k in range(21)]
    np.testing.assert_array_equal(defined, opening["levels"]["bid_sz"] > 0)
    assert np.all(simulated.records["levels"]["bid_px"][21:] != UNDEF_PRICE)


def test_symbol_that_is_not_the_instruments_is_refused(config, tmp_path):
    with pytest.raises(ConfigError, match=r"simulator\.symbol was 'DEMO', must be one of"):
        simulate_days(config, InstrumentSpec(name="es", symbols=("ES",)), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("day", "said"), [("2023-12-31", "index was -2"), ("today", "must be a date")])
def test_days_out_of_range_are_refused(config, tmp_path, day, said):
    with pytest.raises(ConfigError, match=said):
        simulate_days(config, SPEC, tmp_path, days=[day])
