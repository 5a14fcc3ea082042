"""Samplers, opens and labels on hand-worked days."""

import numpy as np
import pytest
from fx_tables import GOOD, LOCKED, START, event, ladder, tables

from alpha_core.errors import ConfigError
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.features.labels import compute_labels
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


def test_configuration_names_every_bad_field():
    with pytest.raises(
        ConfigError, match=r"kind was 'tick', must be one of every_event, time; n was 0, must"
    ):
        SamplerConfig(kind="tick", n=0)
    with pytest.raises(
        ConfigError, match=r"volatility_half_life_rows was 0.*warmup_rows was -1, must be in \[0"
    ):
        FeatureConfig(volatility_half_life_rows=0, warmup_rows=-1)
