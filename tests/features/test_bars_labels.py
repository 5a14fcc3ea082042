"""Samplers, opens and labels on hand-worked days."""

import numpy as np
import pytest
from fx_tables import GOOD, LOCKED, START, event, ladder, tables

from alpha_core.errors import ConfigError
from alpha_core.shapes import HORIZONS
from alpha_pipeline.features.config import FeatureConfig, ImbalanceConfig, SamplerConfig
from alpha_pipeline.features.labels import LabelTracker, compute_labels
from alpha_pipeline.features.stream import compute_day

MS = 1_000_000


def day(events, **sampler):
    return compute_day(*tables(events), FeatureConfig(sampler=SamplerConfig(**sampler)))


def test_every_event_counts_good_events_and_starts_anew_in_each_segment():
    states = [GOOD, GOOD, LOCKED, GOOD, GOOD, GOOD, GOOD, GOOD]
    segments = [0, 0, 0, 0, 0, 1, 1, 1]
    events = [
        event(ladder(100 + k, spread=0 if s == LOCKED else 1), START + k, segment, s)
        for k, (s, segment) in enumerate(zip(states, segments, strict=True))
    ]
    made = day(events, n=2)
    assert (made.columns["ts"] - START).tolist() == [0, 3, 5, 7]
    assert made.columns["event_index"].tolist() == [0, 2, 4, 6]
    assert made.columns["segment"].tolist() == [0, 0, 1, 1]


def test_time_takes_the_first_good_event_of_each_cell():
    origin = 1_748_908_801_000_000_000
    offsets = [30, 90, 99, 100, 101, 350, 399, 400]
    made = day([event(ladder(100), origin + k * MS) for k in offsets], kind="time", milliseconds=100)
    assert ((made.columns["ts"] - origin) // MS).tolist() == [30, 100, 350, 400]
    assert (made.columns["duration_ns"] // MS).tolist() == [0, 70, 250, 50]


def test_opens_and_last_trade():
    trades = [[(7, 1, 1)], [], [(8, 1, -1), (9, 1, 1)], [], [(5, 1, 1)], []]
    events = [event(ladder(k), START + k, trades=t) for k, t in enumerate(trades)]
    made = day(events, n=2)
    assert made.columns["raw_open"].tolist() == [0, 8, 5]
    assert made.present["raw_open"].tolist() == [False, True, True], (
        "a segment's first row closes no interval"
    )
    assert made.columns["last_trade"].tolist() == [7, 9, 5]
    assert made.columns["mid2"].tolist() == [1, 5, 9]
    assert made.columns["mid_open"].tolist() == [1, 1, 5]


def test_labels_count_snapshots_not_rows():
    mid2 = np.cumsum(np.arange(400) % 7).astype(np.int32)
    starts, rows = np.array([0, 150]), np.array([0, 119, 120, 150, 369, 399])
    labels = compute_labels(mid2, starts, rows)
    assert labels.valid[:, 0].tolist() == [True, True, False, True, True, False]
    assert labels.valid[:, 1].tolist() == [True, False, False, True, False, False]
    assert not labels.valid[:, 2:].any()
    assert labels.change[4, 0] == mid2[399] - mid2[369]
    assert labels.change[2, 0] == 0, "nulls hold 0"


def test_labels_are_half_ticks_and_ties_are_counted():
    mids = [100] * 31 + [101] * 30
    events = [event(ladder(m, spread=1 + (k == 31)), START + k) for k, m in enumerate(mids)]
    labels = day(events).labels
    assert labels.change[[0, 1, 2], 0].tolist() == [0, 3, 2]
    assert labels.ties() == {30: 1, 100: 0, 300: 0, 1000: 0, 6000: 0}
    assert labels.nulls() == {30: 30, 100: 61, 300: 61, 1000: 61, 6000: 61}


def test_labels_made_block_by_block_are_those_made_at_once():
    rng = np.random.default_rng(4)
    mid2 = np.cumsum(rng.integers(-1, 2, 20_000)).astype(np.int32)
    first = np.zeros(20_000, np.bool_)
    first[[0, 1, 2, 400, 6500, 13_000]] = True
    rows = np.flatnonzero(first | (rng.random(20_000) < 0.3))
    whole = compute_labels(mid2, np.flatnonzero(first), rows)
    tracker, parts, held = LabelTracker(), [], 0
    for low in range(0, 20_000, 700):
        inside = rows[(rows >= low) & (rows < low + 700)]
        parts.append(tracker.push(mid2[low : low + 700], first[low : low + 700], inside))
        held = max(held, len(tracker._mid2))
    parts.append(tracker.finish())
    np.testing.assert_array_equal(np.concatenate([p.change for p in parts]), whole.change)
    np.testing.assert_array_equal(np.concatenate([p.valid for p in parts]), whole.valid)
    assert (tracker.ties, tracker.nulls) == (whole.ties(), whole.nulls())
    assert held <= HORIZONS[-1] + 701


def trading(*flows):
    """One event for each number of trades, one lot each; positive ones buy, negative ones sell."""
    return [
        event(ladder(100), START + k, trades=[(101 if f > 0 else 100, 1, (f > 0) - (f < 0))] * abs(f))
        for k, f in enumerate(flows)
    ]


def positions(made):
    return made.columns["event_index"].tolist()


def test_amount_bars_close_with_the_event_that_fills_them():
    events = trading(5, 1, 1, 0, 1, 1, 4, 0, 2)
    assert positions(day(events, kind="tick", trades=3)) == [0, 4, 6], (
        "a segment's first trades are in no bar"
    )
    assert positions(day(events, kind="volume", lots=2)) == [0, 2, 5, 6, 8]
    assert positions(day(events, kind="dollar", tick_lots=303)) == [0, 4, 6]
    made = day(events, kind="tick", trades=3)
    assert made.columns["trades"].tolist() == [0, 3, 5]
    assert made.columns["volume"].tolist() == [0, 3, 5]


def test_bars_carry_prices_and_flow():
    trades = [[(9, 9, 1)], [(100, 2, 1), (103, 1, 1)], [(98, 4, -1)], [(99, 1, 0)]]
    events = [event(ladder(100), START + k, trades=t) for k, t in enumerate(trades)]
    made = day(events, kind="tick", trades=4).columns
    assert [made[n][1] for n in ("raw_open", "high", "low", "last_trade")] == [100, 103, 98, 99]
    assert [made[n][1] for n in ("volume", "notional", "trades", "signed_volume")] == [8, 794, 4, -1]
    assert made["notional"][1] / made["volume"][1] == 99.25


def imbalance(events, **rule):
    return day(events, kind="imbalance", imbalance=ImbalanceConfig(**rule))


def test_imbalance_bars_by_hand():
    """The first bar closes at four trades (3 buys, 1 sell): E[T] = 4 and E[x] = 1/2, so the next at |flow| 2."""
    events = trading(0, 1, 1, -1, 1, 1, -1, 1, 1, -1, -1, -1)
    made = imbalance(events, expected_trades=4, min_trades=1, max_trades=50, half_life_bars=1.0)
    # bar 2: +1, 0, +1, +2 -> closes at event 8 with four trades of mean 1/2: expectations stay
    # bar 3: -1, -2 -> closes at event 10
    # E[T] = 3 and E[x] = 1/2 + (-1 - 1/2) / 2 = -1/4: the next closes at |flow| 3/4, with one trade
    assert positions(made) == [0, 4, 8, 10, 11]


def test_imbalance_bars_neither_explode_nor_vanish():
    balanced = trading(0, *[1, -1] * 300)
    lengths = np.diff(positions(imbalance(balanced, expected_trades=20, min_trades=7, max_trades=60)))
    assert set(lengths[1:].tolist()) == {7}, "without a bound every trade would be a bar"
    burst = trading(0, *[1] * 200, *[1, -1] * 300)
    lengths = np.diff(positions(imbalance(burst, expected_trades=20, min_trades=2, max_trades=60)))
    assert lengths.max() == 60, "without a bound the bar after the burst would hardly ever close"


def test_imbalance_neither_bars_nor_expectations_pass_over_a_break():
    events = trading(0, 1, 1, -1, 1, 1)
    other = [{**e, "segment": 1, "ts": e["ts"] + 1000} for e in trading(0, 1, 1, 1, 1, 1)]
    made = imbalance(events + other, expected_trades=4, min_trades=1, max_trades=50)
    assert positions(made) == [0, 4, 6, 10], "four trades make the first bar of the second segment too"


def test_configuration_names_every_bad_field():
    with pytest.raises(
        ConfigError, match=r"kind was 'ticks', must be one of every_event, .*, imbalance; n was 0, must"
    ):
        SamplerConfig(kind="ticks", n=0)
    with pytest.raises(
        ConfigError, match=r"flow was 'x'.*; min_trades, expected_trades, max_trades were 9, 3, 4"
    ):
        ImbalanceConfig(flow="x", min_trades=9, expected_trades=3, max_trades=4)
    with pytest.raises(
        ConfigError, match=r"volatility_half_life_rows was 0.*warmup_rows was -1, must be in \[0"
    ):
        FeatureConfig(volatility_half_life_rows=0, warmup_rows=-1)
