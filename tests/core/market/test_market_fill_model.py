"""The fitted intensity: its formula, its tables, its storage, and how often it really grants priority."""

import json
import math

import pytest
import torch
from market_synthetic import ladder, market_from_book, prints, random_market, some_fill_model

from alpha_core.errors import ConfigError
from alpha_core.market.config import Action, FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.fills import (
    FILL_COVARIATES,
    QUEUE_UNKNOWN,
    FillModel,
    queue_bucket,
    row_covariates,
    waiting_times,
)


def test_probability_is_the_formula():
    model = FillModel(
        intercept=torch.tensor([[-1.0, -2.0]] * 5, dtype=torch.float64),
        slope=torch.tensor([-0.5, 0.1, 0.3, 0.2, 0.05, 0.4, -0.1], dtype=torch.float64),
    )
    z = torch.tensor([[math.log1p(8), 2.0, -0.25, 1.5, -3.0, math.log1p(14), math.log1p(10)]])
    rate = math.exp(
        -2 - 0.5 * math.log(9) + 0.2 - 0.075 + 0.3 - 0.15 + 0.4 * math.log(15) - 0.1 * math.log(11)
    )
    level, side = torch.tensor([3]), torch.tensor([1])
    assert float(model.intensity(z, level, side)) == pytest.approx(rate, rel=1e-6)
    seconds = torch.tensor([0.4])
    expected = 1 - math.exp(-rate * 0.4)
    assert float(model.probability(z, level, side, seconds)) == pytest.approx(expected, rel=1e-6)


def test_rollout_tables_are_the_same_intensity():
    data, model = random_market(200, seed=3), some_fill_model()
    shared = row_covariates(data)
    hazards, factors = model.hazards(data), model.queue_factors()
    for queue in (0, 1, 4095, 3_000_000):
        for level in range(1, 6):
            for side in (0, 1):
                ahead = torch.full((data.rows, 1), math.log1p(queue), dtype=torch.float64)
                z = torch.cat([ahead, shared[:, side]], dim=1)
                where = torch.full((data.rows,), level), torch.full((data.rows,), side)
                expected = model.intensity(z, *where) * data.seconds.double()
                table = hazards[:, 2 * (level - 1) + side] * factors[queue_bucket(torch.tensor([queue]))]
                tolerance = 1e-5 if queue < 4096 else 0.4 / 2048
                torch.testing.assert_close(table.double(), expected, rtol=tolerance, atol=1e-9)


def test_queue_buckets_are_exact_for_short_queues_and_ordered_for_long_ones():
    short = queue_bucket(torch.arange(4096))
    assert short.unique().numel() == 4096
    long = queue_bucket(torch.tensor([0, 4095, 5000, 10**6, QUEUE_UNKNOWN - 5, QUEUE_UNKNOWN]))
    assert long[0] == 0
    assert bool((long.diff() >= 0).all())
    assert int(long[-1]) + 1 == some_fill_model().queue_factors().numel()


def test_covariates_see_the_book_from_the_orders_side():
    data = random_market(50, seed=1)
    shared = row_covariates(data)
    assert torch.equal(shared[:, 0, 1], -shared[:, 1, 1])
    assert torch.equal(shared[:, 0, 1].float(), data.column("queue_imbalance_1"))
    others = [0, 2, 3, 4, 5]
    assert torch.equal(shared[:, 0, others], shared[:, 1, others])


def test_waiting_times_are_exponential():
    times = waiting_times().double()
    for hazard in (0.001, 0.1, 1.0, 4.0):
        granted = float((times < hazard).double().mean())
        assert granted == pytest.approx(1 - math.exp(-hazard), abs=2**-16)


def test_priority_is_granted_as_often_as_the_model_says():
    """20 000 bids behind ten lots, one print at the price: fills are Bernoulli, p = 1 - exp(-λ Δt)."""
    lanes = torch.arange(20_000)
    books, tapes = [ladder(100, 101)] * 4, [prints(), prints(sells=[(100, 3)]), prints(), prints()]
    data, model = market_from_book(books, tapes, seconds=0.7), some_fill_model()
    environment = Environment(data, MarketConfig(horizon=3), model)
    state = environment.reset(
        torch.zeros_like(lanes),
        episode_ids=lanes,
        cost_micro=torch.zeros_like(lanes),
        threshold=torch.full((20_000,), -1.0),
        fill_mode=FillMode.POISSON,
    )
    for action in (Action.JOIN_BID_1, Action.WAIT):
        state, _, _ = environment.step(state, torch.full_like(lanes, int(action)))
    z = torch.cat([torch.tensor([math.log1p(10)], dtype=torch.float64), row_covariates(data)[1, 0]])[None]
    expected = float(model.probability(z, torch.tensor([1]), torch.tensor([0]), data.seconds[1:2]))
    assert 0.1 < expected < 0.9
    error = math.sqrt(expected * (1 - expected) / len(lanes))
    assert float(state.fills.double().mean()) == pytest.approx(expected, abs=4 * error)


def test_storage_keeps_every_bit_and_refuses_another_shape():
    model = some_fill_model(5)
    copy = FillModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert torch.equal(copy.intercept, model.intercept)
    assert torch.equal(copy.slope, model.slope)
    with pytest.raises(ConfigError, match="covariates were"):
        FillModel.from_dict({**model.to_dict(), "covariates": ["spread"]})
    with pytest.raises(ConfigError, match="slope was"):
        FillModel.from_dict({**model.to_dict(), "slope": [0.0] * (len(FILL_COVARIATES) - 1)})
    with pytest.raises(ConfigError, match="intercept was"):
        FillModel.from_dict({**model.to_dict(), "intercept": [[float("nan"), 0.0]] * 5})
