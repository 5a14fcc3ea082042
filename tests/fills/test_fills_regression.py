"""The Poisson regression and what is said of it: against Newton's method, known truths and known faults."""

import math

import numpy as np
import polars as pl
import pytest
import torch
from market_synthetic import flat_market, random_market, some_fill_model

from alpha_core.errors import DataError
from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.fills import FILL_COVARIATES
from alpha_pipeline.fills.calibration import deciles, deviance, deviance_explained, dispersion
from alpha_pipeline.fills.coefficients import load_fill_model, write_coefficients
from alpha_pipeline.fills.config import FillConfig
from alpha_pipeline.fills.decay import distance_table, fit_distance_decay
from alpha_pipeline.fills.exposure import Exposures
from alpha_pipeline.fills.poisson import estimate, fill_rates
from alpha_pipeline.fills.regression import fit_fill_model


def simulated(count, seed=0, model=None):
    """Exposures whose fills follow the intensity of a known model."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(count, len(FILL_COVARIATES)))
    z[:, 0] = np.log1p(rng.integers(0, 60, count))
    z[:, 5:] *= 0.3
    exposures = Exposures(
        row=np.arange(count),
        side=rng.integers(0, 2, count),
        level=rng.integers(1, 6, count),
        price=np.zeros(count, np.int64),
        z=z,
        seconds=rng.exponential(0.05, count),
        filled=np.zeros(count, bool),
    )
    rate = fill_rates(model or some_fill_model(), exposures)
    exposures.filled[:] = rng.random(count) < -np.expm1(-rate * exposures.seconds)
    return exposures


def newton(exposures):
    """Unpenalised maximum likelihood of the same model by Newton's method, with its inverse information."""
    cells = np.eye(10)[2 * (exposures.level - 1) + exposures.side]
    low, high = np.quantile(exposures.z, [0.001, 0.999], axis=0)
    design = np.concatenate([cells, np.clip(exposures.z, low, high)], axis=1)
    beta = np.zeros(17)
    beta[:10] = math.log(exposures.filled.sum() / exposures.seconds.sum())
    for _ in range(50):
        mean = np.exp(design @ beta) * exposures.seconds
        information = (design * mean[:, None]).T @ design
        beta = beta + np.linalg.solve(information, design.T @ (exposures.filled - mean))
    return beta, np.sqrt(np.diag(np.linalg.inv(information)))


def test_maximum_likelihood_equals_newtons_method():
    exposures = simulated(20_000)
    found = estimate(exposures, 1e-10, days=3)
    beta, errors = newton(exposures)
    np.testing.assert_allclose(found.model.intercept.numpy().ravel(), beta[:10], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.model.slope.numpy(), beta[10:], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.intercept_errors.ravel(), errors[:10], rtol=1e-3)
    np.testing.assert_allclose(found.slope_errors, errors[10:], rtol=1e-3)


def test_known_coefficients_are_found_within_their_errors():
    truth = some_fill_model()
    found = estimate(simulated(150_000, seed=1), 1e-6, days=3)
    # Counts are 0 or 1 and short intervals make that harmless: P(two fills) is about 0.1 %.
    slope = (found.model.slope - truth.slope).numpy() / found.slope_errors
    intercept = (found.model.intercept - truth.intercept).numpy() / found.intercept_errors
    assert np.abs(slope).max() < 4.5
    assert np.abs(intercept).max() < 4.5
    assert found.slope_errors.max() < 0.1


def test_the_fitted_total_is_the_observed_total_in_every_cell():
    """The score equations of the cells: expected = observed for each level and side."""
    exposures = simulated(30_000, seed=2)
    expected = fill_rates(estimate(exposures, 1e-10, days=3).model, exposures) * exposures.seconds
    cell = 2 * exposures.level + exposures.side
    for value in np.unique(cell):
        inside = cell == value
        assert expected[inside].sum() == pytest.approx(exposures.filled[inside].sum(), rel=1e-4)


def test_a_covariate_that_the_window_does_not_show_is_held_at_zero():
    exposures = simulated(20_000)
    exposures.z[:, 1] = 1.0
    one_day = estimate(exposures, 1e-6, days=1)
    assert one_day.model.slope[[1, 5, 6]].tolist() == [0.0, 0.0, 0.0]
    assert one_day.slope_errors[[1, 5, 6]].tolist() == [0.0, 0.0, 0.0]
    assert bool((estimate(exposures, 1e-6, days=3).model.slope[[5, 6]] != 0).all())


def test_rates_are_not_extrapolated_beyond_the_fitted_range():
    exposures = simulated(20_000)
    model = estimate(exposures, 1e-6, days=3).model
    far = torch.full((1, 7), 1e3, dtype=torch.float64)
    where = torch.tensor([1]), torch.tensor([0])
    assert float(model.intensity(far, *where)) == float(model.intensity(model.high[None], *where))
    assert bool((model.low.numpy() >= exposures.z.min(0)).all())
    assert bool((model.high.numpy() <= exposures.z.max(0)).all())


def test_the_true_intensity_is_calibrated_by_decile_and_a_doubled_one_is_not():
    exposures = simulated(200_000, seed=3)
    rate = fill_rates(some_fill_model(), exposures)
    table = deciles(rate, exposures.filled, exposures.seconds, enough=200).filter("enough")
    assert table.height >= 5
    assert (((table["ratio"] - 1) / table["ratio_error"]).abs() < 4.5).all()
    doubled = deciles(2 * rate, exposures.filled, exposures.seconds, enough=200).filter("enough")
    assert ((doubled["ratio"] - 0.5).abs() < 0.1).all()


def test_deciles_of_event_time_intervals_are_not_ordered_by_their_length():
    """Rows that follow events: length is exponential and says nothing of the fill, whose true rate is 0.3 /
    s."""
    rng = np.random.default_rng(0)
    count = 100_000
    seconds = rng.exponential(1.0, count)
    filled = rng.random(count) < 0.3
    table = deciles(np.full(count, 0.3), filled, seconds, enough=100)
    assert table["ratio"].is_between(0.9, 1.1).all()
    shortest = np.argsort(seconds)[: count // 10]
    assert filled[shortest].sum() / (0.3 * seconds[shortest].sum()) > 10  # what ordering by λ Δt would report


def test_deviance_by_hand():
    expected, filled = np.array([0.2, 0.5, 1.0]), np.array([False, True, True])
    by_hand = 2 * (0.2 + (math.log(1 / 0.5) - 0.5) + 0.0)
    assert deviance(expected, filled) == pytest.approx(by_hand)
    assert deviance_explained(expected, filled, expected) == 0.0
    assert deviance_explained(expected, np.zeros(3, bool), expected) is None


def test_dispersion_is_one_for_poisson_fills_and_more_for_clusters():
    rng = np.random.default_rng(1)
    count = 200_000
    expected, row = np.full(count, 0.02), np.arange(count)
    alone = rng.random(count) < 0.02
    bursts = np.repeat(rng.random(count // 50) < 0.02, 50)
    assert 0.6 < dispersion(expected, alone, row) < 1.5
    assert dispersion(expected, bursts, row) > 20
    shuffled = rng.permutation(count)
    assert dispersion(expected, alone[shuffled], row[shuffled]) == pytest.approx(
        dispersion(expected, alone, row)
    )
    assert dispersion(expected, np.zeros(count, bool), row) is None


def test_fault_poisson_fit_day_without_trades(tmp_path):
    """(a) Not fitted, and everything downstream refuses with the reason."""
    data = flat_market(800)
    fit = fit_fill_model(data, FillConfig(max_exposures=2000))
    assert not fit.fitted
    assert [(check.name, check.passed, check.blocking) for check in fit.checks] == [
        ("fill_model_fitted", False, True)
    ]
    with pytest.raises(DataError, match="was not fitted: 0 fills in"):
        _ = fit.model
    path = tmp_path / "fill_coeffs.json"
    write_coefficients(fit.coefficients, path)
    with pytest.raises(DataError, match=r"fill_coeffs.json was not fitted: 0 fills in"):
        load_fill_model(path)


def test_fault_poisson_fit_keeps_zeros():
    """(b) Fills [40, 12, 3, 0, 0] at equal exposure: zeros stay in the likelihood, none becomes 1e-10."""
    ticks, fills = np.arange(1.0, 6.0), np.array([40.0, 12.0, 3.0, 0.0, 0.0])
    decay = fit_distance_decay(ticks, fills, np.full(5, 1000.0))
    first_three = -np.polyfit(ticks[:3], np.log(fills[:3]), 1)[0]
    assert decay.decay > 0
    assert decay.decay == pytest.approx(first_three, rel=0.1)
    mean = decay.intensity(ticks) * 1000.0
    assert mean.sum() == pytest.approx(fills.sum())
    assert (mean * ticks).sum() == pytest.approx((fills * ticks).sum())
    with pytest.raises(DataError, match="distances"):
        fit_distance_decay(ticks, np.zeros(5), np.ones(5))


def test_fault_poisson_fit_half_tick_distances():
    """(c) An odd spread: 0.5, 1.5 and 2.5 ticks are three bins, where rounding half to even gives 0, 2 and
    2."""
    data = flat_market(4, bid=100, ask=101)
    exposures = Exposures(
        row=np.array([0, 0, 0, 1]),
        side=np.array([0, 0, 1, 1]),
        level=np.array([1, 2, 3, 1]),
        price=np.array([100, 99, 103, 101]),
        z=np.zeros((4, 7)),
        seconds=np.full(4, 2.0),
        filled=np.array([True, False, True, False]),
    )
    table = distance_table(data, exposures)
    assert table["distance_ticks"].to_list() == [0.5, 1.5, 2.5]
    assert table["fills"].to_list() == [1, 0, 1]
    assert table["rate"].to_list() == [0.25, 0.0, 0.5]


@pytest.fixture(scope="module")
def fit_of_random_market():
    data = random_market(4000, seed=12, segments=2)
    return data, fit_fill_model(data, FillConfig(max_exposures=40_000, rows_per_order=10, min_fills=50))


def test_a_fit_reports_what_it_rests_on(fit_of_random_market):
    data, fit = fit_of_random_market
    assert fit.fitted
    known = fit.coefficients
    assert known.fills == int(fit.metrics["fills"]) > 50
    assert known.rows == data.rows
    assert set(fit.tables) == {"coefficients", "calibration", "referee", "adverse_selection", "distance"}
    assert [check.name for check in fit.checks] == [
        "fill_model_fitted",
        "fill_calibration",
        "fill_dispersion",
        "fill_agreement",
    ]
    assert fit.tables["calibration"].height == 10
    assert fit.tables["coefficients"]["name"].to_list()[10:] == list(FILL_COVARIATES)
    assert 0 < known.deviance_explained < 1
    assert known.over_dispersed == (known.dispersion > 2.0)
    for table in fit.tables.values():
        numbers = table.select(pl.selectors.float()).to_numpy()
        assert not np.isinf(numbers[~np.isnan(numbers)]).any()


def test_the_environment_fills_as_often_as_the_queue_replay(fit_of_random_market):
    """The calibrated mode lies between its bounds, near the replay of the same orders on the later part."""
    _, fit = fit_of_random_market
    ratio = {check.name: check.figure for check in fit.checks}["fill_agreement"]
    assert 0.75 < ratio < 1.25
    table = fit.tables["referee"]
    touch, pessimistic = (float((table["orders"] * table[m]).sum()) for m in ("touch", "pessimistic"))
    poisson = float((table["orders"] * table["poisson"]).sum())
    assert pessimistic < poisson < touch


def test_the_same_seed_gives_the_same_bytes(fit_of_random_market, tmp_path):
    data, fit = fit_of_random_market
    again = fit_fill_model(data, FillConfig(max_exposures=40_000, rows_per_order=10, min_fills=50))
    for name, value in (("one", fit), ("two", again)):
        write_coefficients(value.coefficients, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_later_part_is_not_looked_at_by_the_fit(fit_of_random_market):
    """Garbage in the tape after the boundary leaves every coefficient as it was."""
    data, fit = fit_of_random_market
    spoiled = data.slice(0, data.rows)
    tape = spoiled.tape.clone()
    tape[2800:, :8] = 5
    tape[2800:, 8] = spoiled.book[2800:, 0, 1] + 6
    other = fit_fill_model(
        type(data)(**{**{f: getattr(data, f) for f in data.__dataclass_fields__}, "tape": tape}),
        FillConfig(max_exposures=40_000, rows_per_order=10, min_fills=50),
    )
    assert other.coefficients.slope == fit.coefficients.slope
    assert other.coefficients.intercept == fit.coefficients.intercept
    assert other.coefficients.deviance_explained != fit.coefficients.deviance_explained


def test_the_fitted_model_drives_the_environment(fit_of_random_market):
    data, fit = fit_of_random_market
    environment = Environment(data, MarketConfig(horizon=10), fit.model)
    lanes = torch.arange(500)
    state = environment.reset(
        lanes, episode_ids=lanes, cost_micro=lanes * 0, threshold=lanes * 0.0 - 1, fill_mode=FillMode.POISSON
    )
    for step in range(10):
        state, _, _ = environment.step(state, torch.full_like(lanes, 3 + step % 2 if step == 0 else 0))
    assert 0 < int((state.fills > 0).sum()) < 500
