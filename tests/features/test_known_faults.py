"""Faults that systems of this kind have had, each by the name under which it is known."""

import math

import numpy as np
import pyarrow as pa
import pytest
from fx_tables import GOOD, ONE_SIDED, START, book, event, ladder, random_market, snapshot_table, tables

from alpha_core.errors import DataError, InputError
from alpha_core.shapes import UNDEFINED_TICKS
from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.features.dynamics import alpha_of, ema_step
from alpha_pipeline.features.stream import compute_day
from alpha_pipeline.features.tables import PRICE_MAX

SECOND = 1_000_000_000


def day(events, config=None):
    return compute_day(*tables(events), config or FeatureConfig())


def value(made, row, name):
    return float(made.columns["features"][row, FEATURE_NAMES.index(name)])


def test_undefined_price_absent_levels_never_become_prices():
    thin = book(
        [(100 - k, 10 + k, 2) for k in range(4)],
        [(101 + k, 20 + k, 2) for k in range(4)],
    )
    made = day([event(thin, START), event(thin, START + 1)])
    bid = sum((10 + k) * (k + 0.5) for k in range(4)) / sum(10 + k for k in range(4))
    ask = sum((20 + k) * (k + 0.5) for k in range(4)) / sum(20 + k for k in range(4))
    assert value(made, 0, "book_aggression") == pytest.approx((ask - bid) / (ask + bid), abs=1e-6)
    assert value(made, 0, "total_imbalance") == pytest.approx((46 - 86) / (46 + 86), abs=1e-6)
    assert value(made, 0, "queue_imbalance_5") == 0.0
    assert value(made, 1, "ofi_5") == value(made, 1, "ofi_6_10") == 0.0
    stored = made.columns["book"].reshape(-1, 10, 4)
    assert (stored[:, 4:, :2] == UNDEFINED_TICKS).all() and (stored[:, 4:, 2:] == 0).all()
    assert np.abs(made.columns["features"]).max() < 100


def test_undefined_price_that_ingest_let_through_is_refused():
    leaked = event(ladder(100), START)
    leaked["ask_px"][9] = 9_223_372_036_854_775_807
    with pytest.raises(DataError, match=r"column snapshots.ask_px_09 holds 9223372036854775807 ticks"):
        day([leaked])


def test_a_size_under_an_absent_level_does_not_count():
    ghost = event(ladder(100, depth=3), START)
    ghost["bid_sz"][7] = 500
    assert value(day([ghost]), 0, "total_imbalance") == 0.0


def test_order_counts_that_a_venue_does_not_send():
    with_counts, without = ladder(100, sizes=(8,) * 10, counts=2), ladder(100, sizes=(8,) * 10, counts=0)
    one_side = {**with_counts, "ask_ct": [0] * 10}
    uneven = {**with_counts, "ask_ct": [4] * 10}
    made = day([event(b, START + k) for k, b in enumerate((with_counts, without, one_side, uneven))])
    values = [value(made, row, "mean_order_size_imbalance") for row in range(4)]
    assert values == pytest.approx([0, 0, 0, (4 - 2) / (4 + 2)])


def test_absent_level_is_no_quote_in_order_flow():
    full, thin = ladder(100, sizes=(7,) * 10), ladder(100, sizes=(7,) * 10, depth=2)
    no_ask_3 = ladder(100, sizes=(7,) * 10)
    no_ask_3["ask_px"][2:], no_ask_3["ask_sz"][2:] = [None] * 8, [0] * 8
    made = day([event(b, START + k) for k, b in enumerate((full, thin, full, no_ask_3))])
    names = ("ofi_2", "ofi_3", "ofi_6_10")
    assert [value(made, 1, n) for n in names] == [0, 0, 0], "both sides vanish: -7 + 7"
    assert [value(made, 3, n) for n in names] == [0, 7, 35], "asks vanish, which is buying pressure"
    made = day([event(b, START + k) for k, b in enumerate((no_ask_3, full))])
    assert [value(made, 1, n) for n in names] == [0, -7, -35], "asks appear"


def test_one_sided_book_leaves_no_trace():
    hole = book([], [(5001, 9, 1)])
    clear = book([], [])
    normal = [event(ladder(5000, sizes=(5 + k,) * 10), START + k * SECOND) for k in range(4)]
    bad = [
        event(hole, START + SECOND // 2, state=ONE_SIDED),
        event(clear, START + 3 * SECOND // 2, state=ONE_SIDED),
    ]
    clean = day(normal)
    dirty = day([normal[0], bad[0], normal[1], bad[1], *normal[2:]])
    for name, values in clean.columns.items():
        assert values.tobytes() == dirty.columns[name].tobytes(), name
    assert dirty.labels.change.tobytes() == clean.labels.change.tobytes()
    assert dirty.counts["snapshots"] == 6 and dirty.counts["good_snapshots"] == 4


def test_crossed_book_rows_marked_good_are_refused():
    crossed = event(ladder(100, spread=-2), START, state=GOOD)
    with pytest.raises(DataError, match="good snapshot 1 has an empty, locked or crossed touch"):
        day([event(ladder(100), START), crossed])
    with pytest.raises(DataError, match="touch"):
        day([event(book([], [(101, 5, 1)]), START, state=GOOD)])


def test_trades_of_bad_books_go_to_the_next_good_event_of_the_segment():
    events = [
        event(ladder(100), START, trades=[(100, 50, -1)]),
        event(book([], [(101, 5, 1)]), START + 1, state=ONE_SIDED, trades=[(101, 3, 1), (101, 4, 1)]),
        event(ladder(100), START + 2, trades=[(100, 2, -1)]),
        event(book([], [(101, 5, 1)]), START + 3, state=ONE_SIDED, trades=[(99, 9, -1)]),
        event(ladder(100), START + 4, segment=1),
    ]
    made = day(events)
    assert value(made, 1, "signed_volume") == 5 and value(made, 1, "trade_count_imbalance") == 1
    assert made.columns["raw_open"].tolist() == [0, 101, 0]
    assert made.present["raw_open"].tolist() == [False, True, False]
    assert made.columns["tape"][0, [0, 9, 10, 19]].tolist() == [7, 2, 2, 1]
    assert made.counts["dropped_trades"] == 1, "the last trade has no good event left in its segment"


def test_price_sign_negative_and_zero_mids_use_differences():
    high = [event(ladder(5000 + k, sizes=(k + 1,) * 10), START + k) for k in range(4)]
    low = [event(ladder(k - 2, sizes=(k + 1,) * 10), START + k) for k in range(4)]
    made, raised = day(low), day(high)
    assert made.columns["mid2"].tolist() == [-3, -1, 1, 3]
    assert made.columns["features"].tobytes() == raised.columns["features"].tobytes()


def test_ema_bootstrap_first_value_seeds():
    y = 0.0
    for k, x in enumerate([10.0] + [0.0] * 9):
        y = ema_step(y, x, 0.1, k == 0)
    assert y == pytest.approx(3.8742, abs=1e-4)
    assert alpha_of(1.0) == pytest.approx(0.5)
    one_jump = [event(ladder(100 + 10 * (k > 0)), START + k * SECOND) for k in range(11)]
    config = FeatureConfig(volatility_half_life_rows=math.log(0.5) / math.log(0.9))
    made = day(one_jump, config)
    assert value(made, 10, "log_volatility_ema") == pytest.approx(0.5 * math.log(100 * 0.9**9 + 1e-4))
    assert value(made, 0, "log_volatility_ema") == pytest.approx(math.log(0.01))


def test_ema_bootstrap_a_day_is_the_same_alone_and_among_others():
    first, second = random_market(1, 40, segments=1), random_market(2, 60, segments=1)
    shift = first[-1]["ts"] - START + 60 * SECOND
    second = [{**e, "ts": e["ts"] + shift, "segment": 1} for e in second]
    alone, joined = day(second), day(first + second)
    rows = len(alone.columns["ts"])
    assert alone.columns["features"].tobytes() == joined.columns["features"][-rows:].tobytes()


def test_leak_same_timestamp_events_stay_apart_and_in_order():
    events = [
        event(ladder(100), START),
        event(ladder(102), START, trades=[(101, 5, 1)]),
        event(ladder(101), START),
    ]
    made = day(events)
    assert made.columns["mid2"].tolist() == [201, 205, 203]
    assert made.columns["duration_ns"].tolist() == [0, 0, 0]
    assert [value(made, r, "mid_change") for r in range(3)] == [0, 2, -1]
    assert [value(made, r, "signed_volume") for r in range(3)] == [0, 5, 0]
    assert np.isfinite(made.columns["features"]).all(), "a rate over no time at all"


def test_precision_nanoseconds_survive():
    times = [1_748_908_801_024_200_193, 1_748_908_801_024_200_194]
    made = day([event(ladder(100), t) for t in times])
    assert made.columns["ts"].tolist() == times
    assert made.columns["duration_ns"].tolist() == [0, 1]


def test_precision_phase_of_a_long_gap():
    gap = 16_000_000_000 * 60_000_000 + 15_000_000
    made = day([event(ladder(100), START), event(ladder(100), START + gap)])
    assert value(made, 1, "time_sin_60ms") == pytest.approx(1.0, abs=1e-7)
    assert value(made, 1, "time_cos_60ms") == pytest.approx(0.0, abs=1e-7)


def test_coarse_timestamps_are_refused():
    snapshots, trades = tables([event(ladder(100), START)])
    place = snapshots.schema.get_field_index("ts_recv")
    coarse = snapshots.set_column(
        place, "ts_recv", snapshots["ts_recv"].cast(pa.timestamp("us", tz="UTC"), safe=False)
    )
    with pytest.raises(InputError, match=r"column ts_recv has type timestamp\[us"):
        compute_day(coarse, trades, FeatureConfig())


@pytest.mark.parametrize("events", [[], [event(book([], []), START, state=ONE_SIDED, trades=[(5, 1, 1)])]])
def test_empty_input_gives_no_rows(events):
    made = day(events)
    assert made.counts["rows"] == 0 and made.columns["features"].shape == (0, 40)
    assert made.columns["tape"].shape == (0, 22) and made.labels.change.shape == (0, 5)
    assert made.counts["dropped_trades"] == len(events)


def test_contract_roll_nothing_crosses_a_segment():
    old = [event(ladder(4030), START + k, trades=[(4031, 2, 1)]) for k in range(40)]
    new = [event(ladder(4063, sizes=(30,) * 10), START + SECOND + k, segment=1) for k in range(40)]
    made, alone = day(old + new), day(new)
    assert np.abs(made.labels.change).max() == 0
    assert made.labels.valid[:, 0].sum() == 2 * (40 - 30)
    assert made.columns["features"][40:].tobytes() == alone.columns["features"].tobytes()
    assert made.columns["mid_open"][40] == made.columns["mid2"][40]
    assert made.columns["duration_ns"][40] == 0 and not made.present["last_trade"][40:].any()
    assert not made.columns["tape"][39, :8].any() and made.columns["tape"][39, 8] == UNDEFINED_TICKS


def test_clock_that_runs_backwards_is_refused():
    with pytest.raises(DataError, match="ts_recv decreases at good snapshot 1"):
        day([event(ladder(100), START + 5), event(ladder(100), START)])
    made = day([event(ladder(100), START + 5), event(ladder(100), START, segment=1)])
    assert made.counts["rows"] == 2, "between segments the clock may step"


def test_tables_out_of_order_or_out_of_range_are_refused():
    events = [event(ladder(100), START, segment=1), event(ladder(100), START, segment=0)]
    with pytest.raises(DataError, match="segment decreases"):
        day(events)
    snapshots, trades = tables([event(ladder(100), START, trades=[(101, 1, 1)])])
    with pytest.raises(DataError, match="snapshot_row was 0, must be below the 0 snapshots"):
        compute_day(snapshots.slice(0, 0), trades, FeatureConfig())
    with pytest.raises(InputError, match="lacks the columns bid_px_00"):
        compute_day(snapshots.drop_columns(["bid_px_00"]), trades, FeatureConfig())
    huge = event(ladder(100), START)
    huge["bid_sz"][3] = 2**31
    with pytest.raises(DataError, match=r"column snapshots\.bid_sz_03 holds 2147483648 in row 0, must be"):
        compute_day(snapshot_table([huge]), trades, FeatureConfig())


def test_integer_width_sums_go_beyond_32_bits():
    big = 2**31 - 1
    asks = [(101 + k, 1, 1) for k in range(10)]
    small, large = (book([(100 - k, size, 1) for k in range(10)], asks) for size in (1, big))
    made = day([event(small, START), event(large, START + 1)])
    assert value(made, 1, "ofi_6_10") == np.float32(5 * (big - 1))
    assert value(made, 1, "log1p_depth") == pytest.approx(math.log(10 * big + 11))


def test_integer_width_a_tape_volume_that_does_not_fit_is_refused():
    big = 2**31 - 1
    events = [event(ladder(100), START), event(ladder(100), START + 1, trades=[(101, big, 1), (101, 1, 1)])]
    with pytest.raises(DataError, match="exceeds 2147483647 lots"):
        day(events)


def test_integer_width_the_longest_possible_move_is_a_label_that_fits():
    low, high = ladder(-PRICE_MAX, depth=1), ladder(PRICE_MAX - 1, depth=1)
    made = day([event(low, START), *(event(high, START + k) for k in range(1, 32))])
    assert made.labels.change[0, 0] == 2 * (2 * PRICE_MAX - 1)
    assert value(made, 1, "mid_change") == np.float32(2 * PRICE_MAX - 1)
    beyond = event(ladder(PRICE_MAX, depth=1), START)
    with pytest.raises(
        DataError,
        match=rf"column snapshots\.ask_px_00 holds {PRICE_MAX + 1} ticks in row 1, must be in \[-{PRICE_MAX}, ",
    ):
        day([event(ladder(100), START - 1), beyond])


def test_integer_width_a_notional_that_does_not_fit_is_refused():
    dear, most = ladder(PRICE_MAX - 1, depth=1), 2**32 - 1
    sold = [(PRICE_MAX - 1, most, 0)] * 3
    two, three = ([event(dear, START), event(dear, START + 1, trades=sold[:n])] for n in (2, 3))
    assert day(two).columns["notional"][1] == 2 * most * (PRICE_MAX - 1)
    with pytest.raises(
        DataError, match="ticks times lots traded between two rows exceed 4611686018427387904"
    ):
        day(three)


def test_integer_width_amounts_beyond_the_bound_of_a_bar_still_close_it():
    far, size = ladder(-PRICE_MAX, depth=1), 2**32 - 1
    trades = [(sign * PRICE_MAX, size, 0) for sign in (1, -1, 1, -1)]
    config = FeatureConfig(sampler=SamplerConfig(kind="dollar", tick_lots=10**18))
    made = day([event(far, START), event(far, START + 1, trades=trades), event(far, START + 2)], config)
    assert made.columns["event_index"].tolist() == [0, 1], "four times 2^61 would wrap to less than the bound"
    assert made.columns["notional"].tolist() == [0, 0]
