"""Properties that hold on every market: identities, monotonicity, and the known faults of backtests."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from market_synthetic import (
    chosen,
    flat_market,
    ladder,
    market_from_book,
    prints,
    quiet,
    random_market,
    settings,
    some_fill_model,
)

from alpha_core.errors import DataError
from alpha_core.market.config import Action, FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.market.matching import RestingOrder, passive_lots, printed
from alpha_core.rng import Purpose, philox_uniform
from alpha_core.shapes import MICRO

LOOSE = MarketConfig(horizon=30, order_size=4, position_limit=40, post_only=False)
"""A limit that no list of 30 orders of this test reaches often."""


def play(environment, setting, actions, mode):
    state = environment.reset(**setting, fill_mode=mode, seed=3)
    states, rewards = [state], []
    for action in actions:
        state, reward, _ = environment.step(state, action)
        states.append(state)
        rewards.append(reward)
    return states, torch.stack(rewards)


def world(seed, config, episodes=200):
    data = random_market(400, seed=seed)
    environment = Environment(data, config, some_fill_model(seed))
    starts = episode_starts(data.segment, config.horizon, config.latency, stride=1)
    setting = settings(starts, episodes, seed)
    setting["threshold"] = torch.full((episodes,), -1.0)
    actions = chosen(np.random.default_rng(seed), config.horizon, episodes)
    return environment, setting, actions


@pytest.mark.parametrize("mode", list(FillMode))
def test_cash_and_inventory_at_mid_are_the_pnl_at_every_step(mode):
    environment, setting, actions = world(1, LOOSE)
    states, rewards = play(environment, setting, actions, mode)
    for state in states:
        assert state.pnl_micro.dtype == torch.int64
        mid_micro = state.mid2 * (MICRO // 2)
        assert torch.equal(state.cash_micro + state.position * mid_micro, state.pnl_micro)
        assert bool((state.position.abs() <= LOOSE.position_limit).all())
        assert torch.equal(state.order.left > 0, state.order.side != 0)
    changes = torch.stack([state.pnl_micro for state in states]).diff(dim=0)
    assert torch.equal(rewards, (changes.double() / MICRO).float())
    assert torch.equal(changes.sum(0), states[-1].cash_micro)  # flat at the end: nothing is left to mark


@pytest.mark.parametrize("mode", list(FillMode))
def test_more_cost_never_raises_the_pnl_of_a_fixed_order_list(mode):
    environment, setting, actions = world(2, LOOSE)
    pnls, turnover = [], None
    for cost in (0, 1, 250_000, 2_000_000):
        setting["cost_micro"] = torch.full_like(setting["episode_ids"], cost)
        final = play(environment, setting, actions, mode)[0][-1]
        pnls.append(final.pnl_micro + cost * final.turnover)
        assert turnover is None or torch.equal(turnover, final.turnover)
        turnover = final.turnover
    assert int(turnover.sum()) > 1000
    # Cost changes nothing but what is paid, so PnL falls by exactly cost x lots, which is never negative.
    assert all(torch.equal(pnl, pnls[0]) for pnl in pnls)


def test_a_more_pessimistic_mode_never_fills_more_of_the_same_resting_order():
    """Exactly, order by order and interval by interval: pessimistic <= queue, poisson <= touch <= traded
    lots."""
    data = random_market(2000, seed=6, segments=1)
    environment = Environment(data, LOOSE, some_fill_model())
    rng = np.random.default_rng(7)
    lots = 6000
    row = torch.from_numpy(rng.integers(0, data.rows - 1, lots))
    side = torch.from_numpy(rng.choice([-1, 1], lots))
    near = torch.where(side > 0, data.book[row, 0, 0], data.book[row, 0, 1]).long()
    order = RestingOrder(
        side=side,
        price=near - side * torch.from_numpy(rng.integers(-2, 10, lots)),
        left=torch.from_numpy(rng.integers(1, 12, lots)),
        queue=torch.from_numpy(rng.integers(0, 6, lots)),
        level=torch.from_numpy(rng.integers(1, 7, lots)),
        priority=torch.from_numpy(rng.integers(0, 2, lots)),
    )
    tape = printed(environment.tables, row, near, order)
    got = {mode: passive_lots(order, tape, mode) for mode in FillMode}
    for middle in (FillMode.QUEUE, FillMode.POISSON):
        assert bool((got[FillMode.PESSIMISTIC] <= got[middle]).all())
        assert bool((got[middle] <= got[FillMode.TOUCH]).all())
        assert int(got[FillMode.PESSIMISTIC].sum()) < int(got[middle].sum()) < int(got[FillMode.TOUCH].sum())
    start = torch.where(side > 0, 10, 0)[:, None] + torch.arange(8)
    traded = data.tape[row].gather(1, start).sum(1)
    count = data.tape[row].gather(1, torch.where(side > 0, 19, 9)[:, None]).squeeze(1)
    # Prints inside the spread are in no bin: there, each trade is worth one lot at least.
    assert bool((got[FillMode.TOUCH] <= torch.maximum(traded, count.clamp(max=1))).all())


def test_a_more_pessimistic_mode_fills_a_lone_passive_order_no_earlier():
    """One join, then waiting: the filled lots are ordered at every step of every episode."""
    config = MarketConfig(horizon=30, order_size=4, position_limit=4)
    environment, setting, actions = world(8, config, episodes=800)
    waits = torch.zeros_like(actions)
    waits[0] = 3 + torch.arange(800) % 4
    filled = {m: [s.turnover for s in play(environment, setting, waits, m)[0][:-1]] for m in FillMode}
    for step in range(30):
        for middle in (FillMode.QUEUE, FillMode.POISSON):
            assert bool((filled[FillMode.PESSIMISTIC][step] <= filled[middle][step]).all())
            assert bool((filled[middle][step] <= filled[FillMode.TOUCH][step]).all())
    assert int(filled[FillMode.PESSIMISTIC][-1].sum()) < int(filled[FillMode.TOUCH][-1].sum())


@pytest.mark.parametrize("mode", [FillMode.PESSIMISTIC, FillMode.QUEUE, FillMode.POISSON])
def test_a_more_pessimistic_mode_never_raises_the_pnl_of_quotes_in_a_resting_market(mode):
    """Where the price stands still a fill is worth something, so fewer of them are worth no more, exactly.

    A moving price allows no such statement: a fill that is missed just before the price falls is a loss
    avoided.
    """
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 9, 60)
    books = np.stack([ladder(100, 102, size=int(size)) for size in sizes])
    tapes = np.stack([_both_sides(rng) for _ in range(59)] + [quiet()])
    config = MarketConfig(horizon=59, order_size=3, position_limit=3)
    environment = Environment(market_from_book(books, tapes), config, some_fill_model())
    lanes = torch.arange(300)
    setting = {
        "start_rows": torch.zeros_like(lanes),
        "episode_ids": lanes,
        "cost_micro": torch.zeros_like(lanes),
        "threshold": torch.full((300,), -1.0),
    }
    actions = torch.zeros(59, 300, dtype=torch.int64)
    actions[0] = torch.where(lanes % 2 == 0, Action.JOIN_BID_1, Action.JOIN_ASK_1)
    pnl = play(environment, setting, actions, mode)[0][-2].pnl_micro
    best = play(environment, setting, actions, FillMode.TOUCH)[0][-2].pnl_micro
    assert bool((pnl <= best).all())
    assert int(best.sum()) > 0


def _both_sides(rng):
    buys = [(int(102 + k), 1) for k in rng.integers(0, 2, 2)]
    sells = [(int(100 - k), 1) for k in rng.integers(0, 2, 2)]
    return prints(buys=buys[: rng.integers(0, 3)], sells=sells[: rng.integers(0, 3)], touch=(100, 102))


@pytest.mark.slow
def test_more_latency_does_not_raise_the_pnl_on_average():
    """Twenty thousand market orders on an alpha that knows the next moves: each row of delay costs."""
    rng = np.random.default_rng(0)
    rows, orders = 40_000, 20_000
    moves = rng.choice([-1, 0, 1], rows)
    bid = 10_000 + np.cumsum(moves)
    alpha = np.convolve(moves, np.ones(5), "full")[4 : 4 + rows] + rng.normal(size=rows)
    data = market_from_book(np.stack([ladder(int(b), int(b) + 1) for b in bid]), np.stack([quiet()] * rows))
    row = torch.from_numpy(rng.integers(0, rows - 40, orders))
    side = torch.where(torch.from_numpy(alpha)[row] > 0, Action.BUY_MARKET, Action.SELL_MARKET)
    means = []
    for latency in (0, 1, 2, 4, 8):
        environment = Environment(data, MarketConfig(horizon=20, latency=latency))
        lanes = torch.arange(orders)
        state = environment.reset(
            row, episode_ids=lanes, cost_micro=lanes * 0, threshold=lanes * 0.0 - 1, fill_mode=FillMode.TOUCH
        )
        for step in range(20):
            state, _, _ = environment.step(state, side if step == 0 else torch.zeros_like(side))
        means.append(float(state.pnl_micro.double().mean()) / MICRO)
    noise = 0.05
    assert all(later <= sooner + noise for sooner, later in pairwise(means)), means
    assert means[-1] < means[0] - 0.5


def test_fault_delayed_order_filled_at_a_stale_price():
    """Last quote of Friday at 5000, next quote of Sunday at 4980: an order on its way fills on Sunday's
    book."""
    bids = [20_000, 20_000, 19_920, 19_920, 19_920]  # quarter ticks
    books = np.stack([ladder(bid, bid + 1) for bid in bids])
    seconds = [0.1, 176_400.0, 0.1, 0.1, 0.0]
    data = market_from_book(books, np.stack([quiet()] * 5), seconds=seconds)
    environment = Environment(data, MarketConfig(horizon=4))
    lane = torch.tensor([0])
    state = environment.reset(
        lane, episode_ids=lane, cost_micro=lane, threshold=lane - 1.0, fill_mode=FillMode.TOUCH
    )
    for action in (Action.WAIT, Action.BUY_MARKET):
        state, _, _ = environment.step(state, torch.tensor([int(action)]))
    assert int(state.cash_micro) == -19_921 * MICRO
    # Where the gap ends a segment, as sessions do, no episode reaches across it, so nothing is under way.
    assert episode_starts(torch.tensor([0, 0, 1, 1, 1]), 2, 1).tolist() == [2]


def test_fault_crossed_or_one_sided_rows_give_no_fill():
    """Such rows are dropped before the market is built; one that slips through is refused by its number."""
    for bad in ((101, 101, 5, 5), (102, 101, 5, 5), (-(2**31), 101, 0, 5), (100, -(2**31), 5, 0)):
        data = flat_market(4)
        data.book[1, 0] = torch.tensor(bad, dtype=torch.int32)
        with pytest.raises(DataError, match="market row 1"):
            Environment(data, MarketConfig(horizon=2))


def test_fault_simulated_fills_share_one_random_stream():
    """Episodes draw their own numbers, the same in any order and beside any others."""
    ids = torch.tensor([5, 9, 2**33 + 5])
    alone = torch.cat([philox_uniform(1, ids[i : i + 1], 4, Purpose.FILL) for i in range(3)])
    assert torch.equal(alone, philox_uniform(1, ids, 4, Purpose.FILL))
    assert alone.unique().numel() == 3
