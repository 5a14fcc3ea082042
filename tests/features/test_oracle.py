"""The compiled computation against a scalar one, and its independence of the future and of batches."""

import numpy as np
import pyarrow as pa
import pytest
from fx_oracle import HORIZONS, rows
from fx_tables import random_market, snapshot_table, tables, trade_table

from alpha_pipeline.features.catalogue import CATALOGUE, FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig, ImbalanceConfig, SamplerConfig
from alpha_pipeline.features.stream import compute_day

SAMPLERS = {
    "every": SamplerConfig(kind="every_event", n=1),
    "third": SamplerConfig(kind="every_event", n=3),
    "clock": SamplerConfig(kind="time", milliseconds=50),
    "tick": SamplerConfig(kind="tick", trades=4),
    "volume": SamplerConfig(kind="volume", lots=15),
    "dollar": SamplerConfig(kind="dollar", tick_lots=60),
} | {
    f"{flow} imbalance": SamplerConfig(
        kind="imbalance",
        imbalance=ImbalanceConfig(
            flow=flow, expected_trades=6, min_trades=2, max_trades=12, half_life_bars=4.0
        ),
    )
    for flow in ("tick", "volume", "dollar")
}
VALUES = {"every_event": "n", "time": "milliseconds", "tick": "trades", "volume": "lots"}
VALUES |= {"dollar": "tick_lots", "imbalance": "imbalance"}
INTEGER_COLUMNS = ("ts", "segment", "event_index", "mid2", "mid_open", "duration_ns", "tape")
INTEGER_COLUMNS += ("volume", "notional", "trades", "signed_volume")


def config(name):
    return FeatureConfig(sampler=SAMPLERS[name], volatility_half_life_rows=7, intensity_half_life_rows=3)


def day(events, name, **options):
    return compute_day(*tables(events), config(name), **options)


def expected(events, name):
    sampler = SAMPLERS[name]
    return rows(events, (sampler.kind, getattr(sampler, VALUES[sampler.kind])), config(name))


@pytest.fixture(scope="module", params=list(enumerate(SAMPLERS, start=1)), ids=lambda p: p[1])
def pair(request):
    seed, name = request.param
    events = random_market(seed, 600)
    return day(events, name), expected(events, name)


def test_integers_equal_the_oracle(pair):
    made, want = pair
    assert len(made.columns["ts"]) == len(want) > 60
    for name in INTEGER_COLUMNS:
        np.testing.assert_array_equal(made.columns[name], [row[name] for row in want], err_msg=name)


def test_features_equal_the_oracle(pair):
    made, want = pair
    truth = np.array([row["features"] for row in want])
    for column, name in enumerate(FEATURE_NAMES):
        assert truth[:, column].std() > 0, f"{name} never varies, so comparing it proves nothing"
        np.testing.assert_allclose(
            made.columns["features"][:, column], truth[:, column], rtol=3e-7, atol=1e-6, err_msg=name
        )


def test_nullable_prices_equal_the_oracle(pair):
    made, want = pair
    for name in ("raw_open", "high", "low", "last_trade"):
        present = made.present["last_trade" if name == "last_trade" else "raw_open"]
        mine = [int(v) if ok else None for v, ok in zip(made.columns[name], present, strict=True)]
        assert mine == [row[name] for row in want]
        assert None in mine


def test_labels_equal_the_oracle(pair):
    made, want = pair
    mine = [
        [int(c) if ok else None for c, ok in zip(change, valid, strict=True)]
        for change, valid in zip(made.labels.change, made.labels.valid, strict=True)
    ]
    assert mine == [row["labels"] for row in want]
    for k, h in enumerate(HORIZONS):
        assert made.labels.ties()[h] == sum(row["labels"][k] == 0 for row in want)
        assert made.labels.nulls()[h] == sum(row["labels"][k] is None for row in want)
    assert made.labels.ties()[30] > 0 and 0 < made.labels.nulls()[30] < len(want)


def test_tape_sees_every_kind_of_event(pair):
    tape = pair[0].columns["tape"]
    for column in (*range(8), 9, *range(10, 18), 19, 20, 21):
        assert tape[:, column].any(), f"column {column} is never used"


@pytest.fixture(scope="module")
def market():
    return random_market(11, 160)


@pytest.fixture(scope="module")
def whole(market):
    return {name: day(market, name) for name in SAMPLERS}


@pytest.fixture(scope="module")
def shortened(market):
    """Days cut after each of many events, by sampler and number of events."""
    return {(name, cut): day(market[:cut], name) for name in SAMPLERS for cut in range(1, len(market), 7)}


@pytest.fixture(scope="module")
def corrupted(market):
    """The same days, not cut, but followed by other events, the first of them at the same instant."""
    later = random_market(99, 40, mid=900, segments=1)
    return {
        (name, cut): day(market[:cut] + _after(market[cut - 1], later), name)
        for name in SAMPLERS
        for cut in range(1, len(market), 7)
    }


def _after(last, later):
    shift = last["ts"] - later[0]["ts"]
    return [{**e, "ts": e["ts"] + shift, "segment": last["segment"]} for e in later]


@pytest.mark.parametrize("feature", CATALOGUE, ids=lambda f: f.name)
def test_a_row_is_the_same_when_the_future_is_cut_off(feature, market, whole, shortened):
    place = FEATURE_NAMES.index(feature.name)
    assert _changed_pasts(lambda columns: columns["features"][:, place], market, whole, shortened) == []


@pytest.mark.parametrize("feature", CATALOGUE, ids=lambda f: f.name)
def test_leak_same_timestamp_a_row_ignores_garbage_that_follows_it(feature, market, whole, corrupted):
    place = FEATURE_NAMES.index(feature.name)
    assert _changed_pasts(lambda columns: columns["features"][:, place], market, whole, corrupted) == []


def _changed_pasts(column, market, whole, others):
    """The samplers and cuts at which a row known by then is not bit for bit what it is in the uncut day."""
    changed = []
    for (sampler, cut), other in others.items():
        good = sum(e["state"] == 0 for e in market[:cut])
        known = int((whole[sampler].columns["event_index"] < good).sum())
        mine, theirs = (day.columns for day in (whole[sampler], other))
        if column(mine)[:known].tobytes() != column(theirs)[:known].tobytes():
            changed.append((sampler, cut))
    return changed


def test_no_sampler_chooses_a_row_by_what_comes_later(market, whole, shortened, corrupted):
    for others in (shortened, corrupted):
        for (sampler, cut), other in others.items():
            good = sum(e["state"] == 0 for e in market[:cut])
            mine, theirs = (d.columns["event_index"] for d in (whole[sampler], other))
            assert mine[mine < good].tolist() == theirs[theirs < good].tolist(), (sampler, cut)


@pytest.mark.parametrize(
    "name",
    [
        "mid_open",
        "duration_ns",
        "raw_open",
        "last_trade",
        "high",
        "low",
        "volume",
        "notional",
        "trades",
        "signed_volume",
        "mid2",
        "book",
    ],
)
def test_other_columns_do_not_look_ahead_either(name, market, whole, corrupted):
    assert _changed_pasts(lambda columns: columns[name], market, whole, corrupted) == []


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("rows_at_once", [1, 2, 7, 64])
def test_batch_boundaries_change_nothing(market, whole, sampler, rows_at_once):
    split = day(market, sampler, batch_rows=rows_at_once)
    for name, values in whole[sampler].columns.items():
        assert values.tobytes() == split.columns[name].tobytes(), name
    assert whole[sampler].counts == split.counts
    assert whole[sampler].labels.change.tobytes() == split.labels.change.tobytes()


def test_a_file_gives_what_the_table_gives(market, whole, tmp_path):
    paths = [tmp_path / "snapshots.arrow", tmp_path / "trades.arrow"]
    for path, table, compression in zip(paths, tables(market), (None, "lz4"), strict=True):
        with pa.ipc.new_file(
            path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
        ) as writer:
            writer.write_table(table, max_chunksize=33)
    from_file = compute_day(*paths, config("third"))
    for name, values in whole["third"].columns.items():
        assert values.tobytes() == from_file.columns[name].tobytes(), name


def test_tables_are_canonical(market):
    assert snapshot_table(market).column_names[8:10] == ["bid_px_00", "bid_px_01"]
    assert trade_table(market)["snapshot_row"].to_pylist() == sorted(
        trade_table(market)["snapshot_row"].to_pylist()
    )
