"""The book and the records tell one consistent story."""

import numpy as np
import pytest

from alpha_pipeline.ingest.records import Flag
from alpha_pipeline.simulator import SimulatorConfig, simulate_day
from alpha_pipeline.simulator.clock import session_fraction

TICK_NANOS = 250_000_000
DAY_NANOS = 86_400_000_000_000


@pytest.fixture(scope="module")
def book(simulated):
    """Records after the opening."""
    return simulated.records[21:]


def last_flags(records):
    return (records["flags"] & np.uint8(Flag.LAST)) != 0


def test_book_is_never_crossed_and_levels_are_in_order(book):
    bid, ask = book["levels"]["bid_px"], book["levels"]["ask_px"]
    assert np.all(ask[:, 0] > bid[:, 0])
    assert np.all(np.diff(bid, axis=1) == -TICK_NANOS)
    assert np.all(np.diff(ask, axis=1) == TICK_NANOS)
    spread = (ask[:, 0] - bid[:, 0]) // TICK_NANOS
    assert set(np.unique(spread)) == {1, 2}
    assert 0.8 < np.mean(spread == 1) < 0.95


@pytest.mark.parametrize("side", ["bid", "ask"])
def test_queues_hold_lots_and_never_more_orders_than_lots(book, side):
    lots, orders = book["levels"][f"{side}_sz"], book["levels"][f"{side}_ct"]
    assert lots.min() >= 1
    assert orders.min() >= 1
    assert np.all(orders <= lots)
    assert lots.max() < 2000


def test_order_of_time_and_sequence(simulated):
    records = simulated.records
    assert np.all(np.diff(records["sequence"].astype(np.int64)) == 1)
    assert np.all(np.diff(records["ts_event"].astype(np.int64)) >= 0)
    assert np.all(np.diff(records["ts_recv"].astype(np.int64)) >= 0)
    delay = records["ts_recv"].astype(np.int64) - records["ts_event"].astype(np.int64)
    assert np.all(records["ts_in_delta"] > 0)
    assert np.all(delay > records["ts_in_delta"])


def test_events_share_one_time_and_fill_the_session(simulated, config):
    records, last = simulated.records, last_flags(simulated.records)
    inside = ~last[:-1]
    assert np.all(np.diff(records["ts_event"])[inside] == 0)
    assert last.sum() == config.events_per_day == len(simulated.truth)
    seconds = records["ts_event"] % DAY_NANOS / 1e9
    assert seconds[0] == 14.5 * 3600
    assert 20.5 * 3600 < seconds[-1] < 21 * 3600
    assert set(records["ts_event"] // DAY_NANOS) == {19724}  # 2024-01-02


def test_events_are_denser_at_open_and_close():
    u = session_fraction(np.ones(30_000), 1.5)
    counts = np.histogram(u, bins=3, range=(0, 1))[0] / 30_000
    # integral of 1 + 1.5 (2u - 1)^2 over thirds: outer 1/3 + 1.5 (1 - 1/27) / 6, middle 1/3 + 1.5 / 81
    outer, middle = 1 / 3 + 1.5 * (26 / 27) / 6, 1 / 3 + 1.5 / 81
    np.testing.assert_allclose(counts, np.array([outer, middle, outer]) / 1.5, atol=2e-3)


def test_trades_show_the_book_before_and_print_at_the_touch(simulated):
    records = simulated.records
    trades = np.flatnonzero(records["action"] == b"T")
    assert len(trades) > 1000
    assert not np.any(last_flags(records)[trades])
    np.testing.assert_array_equal(records["levels"][trades], records["levels"][trades - 1])
    touch = records["levels"][trades][:, 0]
    buys = records["side"][trades] == b"B"
    assert 0.3 < buys.mean() < 0.7
    np.testing.assert_array_equal(records["price"][trades], np.where(buys, touch["ask_px"], touch["bid_px"]))


def test_what_leaves_the_touch_in_an_event_is_what_traded_and_what_was_cancelled(simulated):
    """In an event with trades, printed sizes are those the cancel records after them take off the price."""
    records, last = simulated.records, last_flags(simulated.records)
    starts = np.concatenate(([0], np.flatnonzero(last)[:-1] + 1))
    with_trades = [
        (a, b) for a, b in zip(starts, np.flatnonzero(last) + 1, strict=True) if records["action"][a] == b"T"
    ]
    partial = full = 0
    for a, b in with_trades:
        event, before = records[a:b], records["levels"][a - 1]
        is_trade = event["action"] == b"T"
        side = "ask" if event["side"][0] == b"B" else "bid"
        price, traded = event["price"][0], event["size"][is_trade].sum()
        removed = event["size"][~is_trade].sum()
        assert set(event["price"]) == {price}
        assert set(event["action"][~is_trade]) == {b"C"}
        after = event["levels"][-1]
        left = after[f"{side}_sz"][after[f"{side}_px"] == price].sum()
        assert before[f"{side}_sz"][0] - left == removed
        assert traded <= removed
        assert traded == removed or left == 0  # a rest is cancelled only where the price moved
        partial, full = partial + (left > 0), full + (left == 0)
    assert partial > 1000
    assert full > 500


def test_single_book_records_change_exactly_the_level_they_name(simulated):
    records, last = simulated.records, last_flags(simulated.records)
    alone = np.flatnonzero(last[1:] & last[:-1]) + 1
    alone = alone[alone > 21]
    now, before = records["levels"][alone], records["levels"][alone - 1]
    same_prices = np.all((now["bid_px"] == before["bid_px"]) & (now["ask_px"] == before["ask_px"]), axis=1)
    rows, level = np.flatnonzero(same_prices), records["depth"][alone][same_prices]
    assert len(rows) > 10_000
    bid = records["side"][alone][rows] == b"B"
    for name, mine in (("bid", bid), ("ask", ~bid)):
        step = now[f"{name}_sz"].astype(int) - before[f"{name}_sz"]
        changed = step[rows] != 0
        np.testing.assert_array_equal(changed.sum(axis=1), mine)
        np.testing.assert_array_equal(np.argmax(changed, axis=1)[mine], level[mine])
        picked = step[rows[mine], level[mine]]
        action, size = records["action"][alone][rows[mine]], records["size"][alone][rows[mine]].astype(int)
        np.testing.assert_array_equal(picked[action == b"A"], size[action == b"A"])
        np.testing.assert_array_equal(-picked[action == b"C"], size[action == b"C"])
        assert np.all(picked[action == b"M"] < 0)
        price = now[f"{name}_px"][rows[mine], level[mine]]
        np.testing.assert_array_equal(records["price"][alone][rows[mine]], price)
    assert set(records["action"][alone]) == {b"A", b"C", b"M"}


def test_mid_moves_half_a_tick_at_a_time(book):
    rows = book[last_flags(book)]["levels"]
    mid2 = (rows["bid_px"][:, 0] + rows["ask_px"][:, 0]) // TICK_NANOS
    assert set(np.unique(np.diff(mid2))) == {-1, 0, 1}


@pytest.mark.parametrize(
    "change", [{"queue_lots": 2.0}, {"trade_rate": 0.4, "branching": 0.9}, {"rho": 10.0}]
)
def test_extreme_settings_keep_the_book_sound(change):
    config = SimulatorConfig(events_per_day=5_000, **change)
    levels = simulate_day(config, TICK_NANOS, "2024-01-02", 3).records["levels"][21:]
    for side in ("bid", "ask"):
        assert levels[f"{side}_sz"].min() >= 1
        assert np.all(levels[f"{side}_ct"] <= levels[f"{side}_sz"])
    assert np.all(levels["ask_px"][:, 0] > levels["bid_px"][:, 0])


def test_opening_prices_wander_from_day_to_day(config):
    opens = [
        int(simulate_day(config, TICK_NANOS, config.day(k), k).records["levels"]["bid_px"][21, 0])
        // TICK_NANOS
        for k in (0, 1, 2)
    ]
    assert opens[0] in (config.start_price_ticks - 1, config.start_price_ticks, config.start_price_ticks + 1)
    assert 0 < abs(opens[1] - opens[0]) < 200
    assert 0 < abs(opens[2] - opens[1]) < 200
