"""Replayed orders and their exposures, judged by the scalar environment and by hand-worked lives."""

import numpy as np
import pytest
from market_synthetic import (
    flat_market,
    ladder,
    market_from_book,
    prints,
    quiet,
    random_market,
    some_fill_model,
)

from alpha_core.errors import ConfigError
from alpha_core.market.config import Action, FillMode, MarketConfig
from alpha_core.market.oracle import OracleEnvironment
from alpha_core.market.tables import build_tables
from alpha_pipeline.fills.adverse import adverse_selection
from alpha_pipeline.fills.config import FillConfig
from alpha_pipeline.fills.exposure import MIN_SECONDS, Exposures, expose, sample_orders
from alpha_pipeline.fills.referee import Orders, agreement, has_next, replay_orders

JOINS = {
    (1, 0): Action.JOIN_BID_1,
    (1, 1): Action.JOIN_ASK_1,
    (2, 0): Action.JOIN_BID_2,
    (2, 1): Action.JOIN_ASK_2,
}


def orders_at(row, side, level):
    return Orders(row=np.array([row]), side=np.array([side]), level=np.array([level]))


def filled_after(replay, count):
    """Rows that each order waited until it filled; -1 where it did not."""
    waited = np.full(count, -1)
    ages = {index: np.flatnonzero(replay.order == index) for index in range(count)}
    for index, entries in ages.items():
        if len(entries) and replay.filled[entries[-1]]:
            waited[index] = len(entries)
    return waited


@pytest.mark.parametrize("mode", [FillMode.PESSIMISTIC, FillMode.TOUCH, FillMode.QUEUE])
def test_replay_equals_the_scalar_environment(mode):
    data = random_market(400, seed=21)
    rows = 12
    drawn = sample_orders(data, 0, 380, 900, seed=1)
    segment = data.segment.numpy()
    inside = (drawn.level <= 2) & (segment[drawn.row] == segment[np.minimum(drawn.row + rows + 1, 399)])
    orders = drawn.take(np.flatnonzero(inside))
    replay = replay_orders(
        data, build_tables(data, None), orders, rows=rows, mode=mode, cancel_share_milli=700
    )
    config = MarketConfig(horizon=rows + 1, latency=0, cancel_ahead_share=0.7)
    oracle = OracleEnvironment(data, config)
    waited = filled_after(replay, len(orders.row))
    assert (waited > 0).sum() > 30
    for index in range(len(orders.row)):
        oracle.reset(int(orders.row[index]), episode=0, cost_micro=0, threshold=-1.0, fill_mode=mode)
        fills = []
        for age in range(rows):
            join = JOINS[int(orders.level[index]), int(orders.side[index])]
            oracle.step(join if age == 0 else Action.WAIT)
            fills.append(oracle.now.fills)
        assert waited[index] == (fills.index(1) + 1 if 1 in fills else -1)


def test_an_order_is_followed_until_it_fills_or_its_segment_ends():
    books = [ladder(100, 101)] * 6
    tapes = [prints(sells=[(100, 7)], cancelled=(2, 0)), prints(sells=[(100, 3)]), *[quiet()] * 4]
    data = market_from_book(np.stack(books), np.stack(tapes), segment=[0, 0, 0, 0, 1, 1])
    tables = build_tables(data, None)
    follow = {"rows": 30, "mode": FillMode.QUEUE, "cancel_share_milli": 500}
    bid = replay_orders(data, tables, orders_at(0, 0, 1), **follow)
    # Ten ahead, seven trade and half of two leave: two ahead, of the next three one is for us.
    assert bid.queue.tolist() == [10, 2]
    assert bid.filled.tolist() == [False, True]
    assert bid.price.tolist() == [100, 100]
    ask = replay_orders(data, tables, orders_at(1, 1, 3), **follow)
    assert ask.row.tolist() == [1, 2]
    assert ask.level.tolist() == [3, 3]
    assert not ask.filled.any()
    assert has_next(data).tolist() == [True, True, True, False, True, False]


def test_exposures_carry_the_covariates_of_their_own_row():
    data = random_market(300, seed=4)
    config = FillConfig(max_exposures=3000, rows_per_order=5)
    exposures = expose(data, build_tables(data, None), sample_orders(data, 0, 300, 400, 0), config)
    assert len(exposures) > 500
    assert 0 < exposures.filled.sum() < len(exposures)
    sign = np.where(exposures.side == 0, 1.0, -1.0)
    np.testing.assert_array_equal(exposures.z[:, 1], data.column("spread").numpy()[exposures.row])
    imbalance = data.column("queue_imbalance_1").numpy()[exposures.row]
    np.testing.assert_array_equal(exposures.z[:, 2], sign * imbalance)
    hours = data.second_of_day.numpy()[exposures.row].astype(float) / 3600
    np.testing.assert_allclose(exposures.z[:, 5], np.log1p(hours))
    np.testing.assert_allclose(exposures.z[:, 6], np.log1p(24 - hours))
    assert exposures.level.min() >= 1
    assert exposures.level.max() <= 5
    assert exposures.seconds.min() >= MIN_SECONDS


def test_orders_are_drawn_once_each_from_present_levels():
    data = random_market(120, seed=2, levels=3)
    everything = sample_orders(data, 0, 120, 10**9, seed=0)
    keys = set(zip(everything.row.tolist(), everything.side.tolist(), everything.level.tolist(), strict=True))
    present = [
        (row, side, level)
        for row in np.flatnonzero(has_next(data)).tolist()
        for side in (0, 1)
        for level in range(1, 6)
        if int(data.book[row, level - 1, side]) > -(2**31)
    ]
    assert keys == set(present)
    assert len(everything.row) == len(present)
    some, same = (sample_orders(data, 10, 60, 50, seed=3) for _ in range(2))
    np.testing.assert_array_equal(some.row, same.row)
    assert some.row.min() >= 10
    assert some.row.max() < 60


def test_agreement_orders_the_modes_and_names_each_side_of_each_level():
    data = random_market(600, seed=9, segments=1)
    orders = sample_orders(data, 0, 580, 1500, seed=0)
    table = agreement(data, some_fill_model(), orders, rows=10, cancel_share_milli=500, seed=0)
    assert table.select("level", "side").rows() == [(n, s) for n in range(1, 6) for s in ("ask", "bid")]
    assert table["orders"].sum() == len(orders.row)
    for middle in ("queue", "poisson"):
        assert (table["pessimistic"] <= table[middle]).all()
        assert (table[middle] <= table["touch"]).all()


def test_adverse_selection_by_hand():
    """Two bids of a falling market: one filled before a fall of two ticks, one not, before a fall of one."""
    bids = [100, 100, 98, 97, 97]
    data = market_from_book(np.stack([ladder(b, b + 1) for b in bids]), np.stack([quiet()] * 5))
    exposures = Exposures(
        row=np.array([0, 1]),
        side=np.array([0, 0]),
        level=np.array([1, 1]),
        price=np.array([100, 100]),
        z=np.zeros((2, 7)),
        seconds=np.ones(2),
        filled=np.array([True, False]),
    )
    table = adverse_selection(data, exposures, (1, 4)).to_dicts()
    assert [row["rows_ahead"] for row in table] == [1]  # four rows ahead leaves the data
    assert table[0]["move_after_fill"] == -2.0
    assert table[0]["move_after_none"] == -1.0
    assert table[0]["difference"] == -1.0
    assert table[0]["edge"] == 0.5
    assert (table[0]["fills"], table[0]["others"]) == (1, 1)


def test_settings_out_of_bounds_are_named_together():
    with pytest.raises(
        ConfigError, match=r"rows_per_order was 0.*validation_share was 1.*adverse_rows was \(\)"
    ):
        FillConfig(rows_per_order=0, validation_share=1.0, adverse_rows=())


def test_a_market_of_one_row_has_no_orders():
    data = flat_market(1)
    assert len(sample_orders(data, 0, 1, 100, seed=0).row) == 0
