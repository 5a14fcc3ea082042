"""Random streams of trades: bars keep their bounds and are those of the plain rule, however the stream is cut."""

import numpy as np
from fx_oracle import picks
from fx_tables import START, event, ladder, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from alpha_pipeline.features.config import FLOWS, FeatureConfig, ImbalanceConfig, SamplerConfig
from alpha_pipeline.features.stream import compute_day

TRADE = st.tuples(st.sampled_from([-3, 0, 2, 400]), st.integers(1, 9), st.sampled_from([-1, -1, 0, 1, 1, 1]))
STREAM = st.lists(st.lists(TRADE, max_size=3), min_size=2, max_size=120)


@st.composite
def rules(draw):
    lengths = sorted(draw(st.lists(st.integers(1, 40), min_size=3, max_size=3)))
    names = ("min_trades", "expected_trades", "max_trades")
    return ImbalanceConfig(
        flow=draw(st.sampled_from(FLOWS)),
        half_life_bars=draw(st.sampled_from([0.1, 1.0, 20.0])),
        **dict(zip(names, lengths, strict=True)),
    )


def market(stream):
    return [event(ladder(100, depth=2), START + k, trades=trades) for k, trades in enumerate(stream)]


@settings(max_examples=60, deadline=None)
@given(STREAM, rules(), st.integers(1, 50))
def test_imbalance_bars_hold_their_bounds_and_follow_the_rule(stream, rule, batch_rows):
    events = market(stream)
    sampler = SamplerConfig(kind="imbalance", imbalance=rule)
    made = compute_day(*tables(events), FeatureConfig(sampler=sampler), batch_rows=batch_rows).columns
    closed = made["event_index"]
    assert closed.tolist() == picks(events, ("imbalance", rule))
    last = np.array([len(stream[j]) for j in closed[1:]], np.int64)
    assert (made["trades"][1:] >= rule.min_trades).all()
    assert (made["trades"][1:] - last < rule.max_trades).all(), "only trades of its last event pass the bound"
    assert sum(map(len, stream[closed[-1] + 1 :])) < rule.max_trades, "nor does the bar that is still open"


@settings(max_examples=40, deadline=None)
@given(STREAM, st.sampled_from(FLOWS), st.integers(1, 900), st.integers(1, 50))
def test_amount_bars_follow_the_rule(stream, flow, bound, batch_rows):
    events = market(stream)
    field = {"tick": "trades", "volume": "lots", "dollar": "tick_lots"}[flow]
    sampler = SamplerConfig(kind=flow, **{field: bound})
    made = compute_day(*tables(events), FeatureConfig(sampler=sampler), batch_rows=batch_rows).columns
    assert made["event_index"].tolist() == picks(events, (flow, bound))
