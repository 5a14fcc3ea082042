"""Hand-worked episodes: each number here can be checked with a pencil."""

import numpy as np
import pytest
import torch
from market_synthetic import flat_market, ladder, market_from_book, prints, quiet, some_fill_model

from alpha_core.errors import ConfigError, DataError
from alpha_core.market.config import Action, FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.shapes import MICRO, UNDEFINED_TICKS

BUY, SELL, FLATTEN, CANCEL, WAIT = (
    Action.BUY_MARKET,
    Action.SELL_MARKET,
    Action.FLATTEN,
    Action.CANCEL,
    Action.WAIT,
)
BID, ASK, BID_2 = Action.JOIN_BID_1, Action.JOIN_ASK_1, Action.JOIN_BID_2


def market(books, tapes=None, **kwargs):
    rows = len(books)
    tapes = [quiet()] * rows if tapes is None else [*tapes, *[quiet()] * (rows - len(tapes))]
    return market_from_book(np.stack(books), np.stack(tapes), **kwargs)


def play(data, actions, *, mode=FillMode.TOUCH, cost=0, tau=-1.0, start=0, **config):
    """States after each action of one lane, the first one included."""
    config = {"horizon": data.rows - 1 - start, **config}
    environment = Environment(data, MarketConfig(**config), some_fill_model())
    state = environment.reset(
        torch.tensor([start]),
        episode_ids=torch.tensor([0]),
        cost_micro=torch.tensor([cost]),
        threshold=torch.tensor([tau]),
        fill_mode=mode,
    )
    states = [state]
    for action in actions:
        state, _, _ = environment.step(state, torch.tensor([int(action)]))
        check_identity(state)
        states.append(state)
    return states


def check_identity(state):
    assert torch.equal(state.cash_micro + state.position * state.mid2 * (MICRO // 2), state.pnl_micro)


def pnl(state):
    return int(state.pnl_micro) / MICRO


def test_a_market_order_takes_the_row_it_arrives_on():
    books = [ladder(100, 101), ladder(104, 105), ladder(104, 105), ladder(104, 105)]
    after = play(market(books), [BUY])[1]
    assert int(after.cash_micro) == -105 * MICRO  # not 101, the ask when it was sent
    assert pnl(after) == -0.5
    immediate = play(market(books), [BUY], latency=0)[1]
    assert int(immediate.cash_micro) == -101 * MICRO
    slow = play(market(books), [BUY, WAIT], latency=2)
    assert [int(s.position) for s in slow] == [0, 0, 1]


def test_market_orders_walk_the_levels():
    books = [ladder(100, 101, size=3)] * 4
    after = play(market(books), [BUY], order_size=7, position_limit=7)[1]
    assert int(after.position) == 7
    assert int(after.cash_micro) == -(3 * 101 + 3 * 102 + 1 * 103) * MICRO
    assert int(after.trades) == 1
    sold = play(market(books), [SELL], order_size=7, position_limit=7)[1]
    assert int(sold.cash_micro) == (3 * 100 + 3 * 99 + 1 * 98) * MICRO


def test_a_walk_ends_with_the_visible_book_but_a_settlement_does_not():
    books = [ladder(100, 101, size=3)] * 2 + [ladder(100, 101, size=3, levels=2)] * 3
    states = play(market(books), [BUY, FLATTEN, WAIT, WAIT], order_size=10, position_limit=10)
    assert int(states[1].position) == 10
    assert int(states[2].position) == 10 - 6
    assert int(states[2].cash_micro - states[1].cash_micro) == (3 * 100 + 3 * 99) * MICRO
    ended = play(market(books[:3]), [BUY, WAIT], order_size=10, position_limit=10)[2]
    assert int(ended.position) == 0
    # 3 at 100, 3 at 99, and the 4 that no level shows at 98, one tick beyond the deepest.
    bought = 3 * 101 + 3 * 102 + 3 * 103 + 1 * 104
    assert pnl(ended) == 3 * 100 + 3 * 99 + 4 * 98 - bought


def test_costs_are_per_lot_and_side_in_whole_micro_ticks():
    data = flat_market(4)
    free, dear = (play(data, [BUY, FLATTEN, WAIT], cost=c, position_limit=2)[-1] for c in (0, 333_333))
    assert pnl(free) == -1.0
    assert int(free.pnl_micro - dear.pnl_micro) == 2 * 333_333
    assert int(dear.turnover) == 2


def test_half_tick_mids_are_exact():
    odd = play(flat_market(3, bid=100, ask=101), [BUY])[1]
    assert int(odd.pnl_micro) == -MICRO // 2
    even = play(flat_market(3, bid=100, ask=102), [BUY])[1]
    assert int(even.pnl_micro) == -MICRO


def test_a_bid_at_the_touch_fills_when_a_seller_trades_there():
    books = [ladder(100, 101)] * 4
    tapes = [quiet(), prints(sells=[(100, 1)])]
    after = play(market(books, tapes), [BID, WAIT])[2]
    assert int(after.position) == 1
    assert int(after.cash_micro) == -100 * MICRO
    assert (int(after.fills), int(after.trades)) == (1, 1)
    assert pnl(after) == 0.5


def test_each_mode_reads_the_same_print_its_own_way():
    """Ten lots ahead; three sellers' volumes at the price; then one lot trades through."""
    books = [ladder(100, 101)] * 5
    tapes = [quiet(), prints(sells=[(100, 10)]), prints(sells=[(100, 2)]), prints(sells=[(99, 1)])]
    filled = {}
    for mode in (FillMode.PESSIMISTIC, FillMode.TOUCH, FillMode.QUEUE):
        states = play(market(books, tapes), [BID, WAIT, WAIT, WAIT], mode=mode, horizon=4)
        filled[mode] = [int(state.fills) for state in states]
    assert filled[FillMode.TOUCH] == [0, 0, 1, 1, 1]
    assert filled[FillMode.QUEUE] == [0, 0, 0, 1, 1]  # the first ten lots were ahead of ours
    assert filled[FillMode.PESSIMISTIC] == [0, 0, 0, 0, 1]


def test_cancellations_ahead_count_by_their_share_from_the_next_interval():
    books = [ladder(100, 101)] * 5
    tapes = [
        quiet(),
        prints(sells=[(100, 5)], cancelled=(6, 0)),  # 10 ahead, 5 traded, half of 6 left: 2 ahead
        prints(sells=[(100, 3)]),
    ]
    states = play(market(books, tapes), [BID, WAIT, WAIT, WAIT], mode=FillMode.QUEUE, horizon=4)
    assert [int(state.order.queue[0]) for state in states[1:3]] == [10, 2]
    assert [int(state.fills) for state in states] == [0, 0, 0, 1, 1]


def test_the_queue_ahead_is_never_more_than_what_is_displayed():
    books = [ladder(100, 101), ladder(100, 101, size=9), ladder(100, 101, size=4), ladder(100, 101, size=8)]
    states = play(market(books), [BID, WAIT, WAIT], mode=FillMode.QUEUE, horizon=3)
    assert [int(state.order.queue[0]) for state in states[1:3]] == [9, 4]


def test_partial_fills_reach_position_and_cash():
    books = [ladder(100, 101)] * 6
    tapes = [quiet(), prints(sells=[(100, 2)]), prints(sells=[(99, 1)]), prints(sells=[(100, 9)])]
    states = play(market(books, tapes), [BID, WAIT, WAIT, WAIT], order_size=5, position_limit=5)
    assert [int(state.position) for state in states] == [0, 0, 2, 3, 5]
    assert [int(state.order.left) for state in states] == [0, 5, 3, 2, 0]
    assert int(states[-1].cash_micro) == -500 * MICRO
    assert int(states[-1].order.side) == 0


def test_no_more_than_the_tape_traded_is_filled():
    books = [ladder(100, 101)] * 4
    tapes = [quiet(), prints(sells=[(98, 2)])]
    after = play(market(books, tapes), [BID, WAIT], order_size=5, position_limit=5)[2]
    assert int(after.position) == 2


@pytest.mark.parametrize("mode", list(FillMode))
def test_a_cancel_loses_against_a_fill_of_the_same_interval(mode):
    books = [ladder(100, 101)] * 4
    tapes = [quiet(), prints(sells=[(99, 1)])]
    after = play(market(books, tapes), [BID, CANCEL], mode=mode)[2]
    assert int(after.position) == 1
    in_time = play(market(books, [*tapes[:1], quiet(), tapes[1]]), [BID, CANCEL, WAIT], mode=mode)[3]
    assert int(in_time.position) == 0


def test_a_price_that_became_marketable_is_refused_or_takes():
    books = [ladder(100, 101), ladder(98, 99, size=1), ladder(98, 99, size=1), ladder(98, 99, size=1)]
    refused = play(market(books), [BID])[1]
    assert (int(refused.position), int(refused.order.left)) == (0, 0)
    taken = play(market(books), [BID], post_only=False, order_size=4, position_limit=4)[1]
    # Asks 99 and 100 lie within the limit of 100; 101 does not, so two lots rest.
    assert int(taken.position) == 2
    assert int(taken.cash_micro) == -199 * MICRO
    assert (int(taken.order.left), int(taken.order.price)) == (2, 100)


@pytest.mark.parametrize("mode", list(FillMode))
def test_a_touch_that_moves_onto_the_order_fills_it_in_every_mode(mode):
    books = [ladder(100, 101), ladder(100, 101), ladder(98, 99, size=2), ladder(98, 99, size=2)]
    states = play(market(books), [BID, WAIT], mode=mode, order_size=5, position_limit=5)
    assert int(states[2].position) == 2
    assert int(states[2].cash_micro) == -200 * MICRO
    assert pnl(states[2]) == 2 * (98.5 - 100)


def test_join_at_level_two_rests_at_the_price_of_the_decision():
    books = [ladder(100, 101), ladder(101, 102), ladder(101, 102)]
    state = play(market(books), [BID_2])[1]
    assert (int(state.order.side), int(state.order.price)) == (1, 99)


def test_an_absent_second_level_is_masked():
    state = play(flat_market(3, levels=1), [BID_2])
    assert state[0].mask[0].tolist() == [True, True, True, True, True, False, False, False, False]
    assert int(state[1].order.left) == 0


def test_the_position_limit_counts_what_rests_and_what_is_in_flight():
    data = flat_market(8)
    states = play(data, [BUY, BID, BUY], position_limit=2)
    assert [int(state.position) for state in states] == [0, 1, 1, 1]
    assert not bool(states[2].mask[0, BUY])  # one held, one resting
    flying = play(data, [BUY, BUY, BUY, WAIT, WAIT], position_limit=2, latency=3)
    assert [int(state.position) for state in flying] == [0, 0, 0, 1, 2, 2]
    # Short two, flattening under way: what is sent after it must fit a position of zero.
    short = play(flat_market(10), [SELL, SELL, WAIT, FLATTEN, BUY, BUY, BUY], position_limit=2, latency=2)
    assert [int(state.position) for state in short][4:] == [-2, 0, 1, 2]
    assert bool(short[5].mask[0, BUY])
    assert not bool(short[6].mask[0, BUY])


def test_one_resting_order_at_a_time():
    states = play(flat_market(6), [BID, ASK, CANCEL, ASK])
    assert [int(state.order.side) for state in states] == [0, 1, 1, 0, -1]
    in_flight = play(flat_market(6), [BID, ASK, WAIT], latency=2)
    assert not bool(in_flight[1].mask[0, ASK])
    assert [int(state.order.side) for state in in_flight] == [0, 0, 1, 1]


def test_flatten_closes_the_position_and_pulls_the_resting_order():
    states = play(flat_market(8), [BUY, BID, FLATTEN])
    assert (int(states[2].position), int(states[2].order.left)) == (1, 1)
    assert (int(states[3].position), int(states[3].order.left)) == (0, 0)
    assert not bool(states[3].mask[0, FLATTEN])


def test_everything_is_flat_at_the_horizon_and_stays_so():
    states = play(flat_market(10), [BUY, BUY, BID, BUY, BUY, BUY], horizon=3, position_limit=5)
    assert [int(state.position) for state in states] == [0, 1, 2, 0, 0, 0, 0]
    assert [int(state.order.left) for state in states[3:]] == [0] * 4
    assert pnl(states[3]) == pnl(states[6]) == -2.0
    assert states[3].mask[0].tolist() == [True] + [False] * 8
    assert [int(state.row) for state in states] == [0, 1, 2, 3, 3, 3, 3]


def test_the_gate_stops_entries_against_or_below_the_threshold_and_never_exits():
    up, down = 1.0986123, -1.0986123  # sigmoid 0.75 and 0.25
    alpha = [up, up, up, down, down, down, up, up]
    data = flat_market(8, alpha=alpha)
    states = play(data, [BUY, BUY, SELL, SELL, SELL, SELL], tau=0.2, position_limit=2)
    assert [int(state.position) for state in states] == [0, 1, 2, 1, 0, -1, -2]
    assert states[0].mask[0, [BUY, SELL]].tolist() == [True, False]
    assert states[1].mask[0, [BUY, SELL]].tolist() == [True, True]  # selling would only close
    barred = play(data, [BUY, SELL, WAIT], tau=0.3)
    assert [int(state.position) for state in barred] == [0, 0, 0, 0]


def test_a_reversal_is_an_entry():
    data = flat_market(6, alpha=[1.0] * 6)
    states = play(data, [BUY, SELL], tau=0.1, order_size=2, position_limit=3)
    assert bool(states[1].mask[0, SELL])
    assert not bool(states[2].mask[0, SELL])
    partly = play(data, [BID, SELL], tau=0.1, order_size=2, position_limit=3)
    assert not bool(partly[1].mask[0, SELL])


def test_unrealised_pnl_uses_the_average_cost():
    bids = (100, 100, 102, 104, 104, 104)
    data = market([ladder(bid, bid + 1) for bid in bids])
    environment = Environment(data, MarketConfig(horizon=5, position_limit=2, pnl_scale_ticks=1.0))
    lane = torch.tensor([0])
    state = environment.reset(
        lane, episode_ids=lane, cost_micro=lane + 7, threshold=torch.tensor([-1.0]), fill_mode=FillMode.TOUCH
    )
    seen = []
    for action in (BUY, BUY, SELL, WAIT):
        state, _, _ = environment.step(state, torch.tensor([int(action)]))
        seen.append(float(environment.observe(state)[0, 3]) * 2)
    # Bought at 101 and 103 (average 102), one sold: the other is worth 104.5 - 102.
    assert seen == [-0.5, 2 * 102.5 - 204, 2.5, 2.5]


def test_rewards_add_up_to_the_terminal_pnl():
    data = flat_market(12)
    environment = Environment(data, MarketConfig(horizon=10))
    lane = torch.tensor([0])
    state = environment.reset(
        lane, episode_ids=lane, cost_micro=lane + 123_457, threshold=lane - 1.0, fill_mode=FillMode.TOUCH
    )
    total = 0
    for action in (BUY, BID, SELL, BUY, CANCEL, FLATTEN, BUY, WAIT, WAIT, WAIT):
        state, reward, _ = environment.step(state, torch.tensor([int(action)]))
        total += round(float(reward) * MICRO)
    assert total == int(state.pnl_micro)


def test_starts_leave_room_for_horizon_and_latency():
    segment = torch.tensor([4] * 7 + [9] * 3 + [5] * 11)
    assert episode_starts(segment, 3, 1).tolist() == [0, 3, 10, 13, 16]
    assert episode_starts(segment, 3, 2).tolist() == [0, 10, 13, 16]
    assert episode_starts(segment, 5, 0, stride=1).tolist() == [0, 1, 10, 11, 12, 13, 14, 15]
    assert episode_starts(segment, 30, 1).tolist() == []
    assert episode_starts(segment[:0], 3, 1).tolist() == []
    with pytest.raises(ConfigError, match="horizon was 0"):
        episode_starts(segment, 0, 1)


def test_an_episode_that_leaves_its_segment_is_refused():
    data = flat_market(8, segment=[0] * 5 + [1] * 3)
    play(data, [], start=0, horizon=4)
    with pytest.raises(DataError, match="from row 1 leaves its segment"):
        play(data, [], start=1, horizon=4)
    with pytest.raises(DataError, match="must lie in"):
        play(data, [], start=5, horizon=4)


def test_large_lots_at_high_prices_stay_exact():
    """Six million ticks, 300 000 lots: basis x lots alone would need 79 bits."""
    books = [ladder(6_000_000, 6_000_001, size=300_000)] * 6
    states = play(market(books), [BUY, SELL, WAIT], order_size=300_000, position_limit=300_000, horizon=4)
    assert int(states[1].account.basis_micro) == 6_000_001 * 300_000 * MICRO
    assert int(states[1].account.unrealised_micro(states[1].mid2)) == -300_000 * MICRO // 2
    assert (int(states[2].position), int(states[2].account.basis_micro)) == (0, 0)
    assert pnl(states[2]) == -300_000
    with pytest.raises(ConfigError, match=r"position_limit was 1000000, must be at most 384"):
        play(market(books), [], position_limit=1_000_000)


def test_poor_books_and_settings_are_refused_by_name():
    data = flat_market(4)
    data.book[2, 0, 0] = UNDEFINED_TICKS
    with pytest.raises(DataError, match="market row 2: touch"):
        Environment(data, MarketConfig(horizon=2))
    seen = flat_market(4)
    seen.alpha[1] = float("nan")
    with pytest.raises(DataError, match="market row 1: observation column 0 was nan"):
        Environment(seen, MarketConfig(horizon=2))
    with pytest.raises(ConfigError, match=r"horizon was 0.*position_limit was 1, must be in \[3"):
        MarketConfig(horizon=0, order_size=3, position_limit=1)
    lane = torch.tensor([0])
    environment = Environment(flat_market(4), MarketConfig(horizon=2))
    arguments = {"episode_ids": lane, "cost_micro": lane, "threshold": lane.float()}
    with pytest.raises(ConfigError, match="POISSON without a fill model"):
        environment.reset(lane, **arguments, fill_mode=FillMode.POISSON)
    with pytest.raises(ConfigError, match="cost_micro was -1"):
        environment.reset(lane, **{**arguments, "cost_micro": lane - 1}, fill_mode=FillMode.TOUCH)
    with pytest.raises(ConfigError, match="fill_mode was 9"):
        environment.reset(lane, **arguments, fill_mode=9)
    with pytest.raises(ConfigError, match=r"threshold has shape \(2,\)"):
        environment.reset(lane, **{**arguments, "threshold": torch.zeros(2)}, fill_mode=1)
