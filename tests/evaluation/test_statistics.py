"""PnL statistics against independent implementations and hand-worked numbers; degenerate ones are None."""

import math

import numpy as np
import pytest
from scipy import stats

from alpha_core.metrics.sharpe import (
    aggregation_factor,
    degenerate_reason,
    drawdown,
    long_run_variance,
    max_drawdown,
    newey_west_lags,
    sharpe,
)
from alpha_pipeline.evaluation import statistics as st


def autoregressive(n: int, rho: float, seed: int, mean: float = 0.0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(n)
    x = np.empty(n)
    x[0] = noise[0]
    for i in range(1, n):
        x[i] = rho * x[i - 1] + noise[i]
    return x + mean


@pytest.mark.parametrize("lags", [0, 1, 4])
def test_hac_t_agrees_with_statsmodels(lags):
    import statsmodels.api as sm

    x = autoregressive(80, 0.4, seed=3, mean=0.3)
    fit = sm.OLS(x, np.ones(x.size)).fit(
        cov_type="HAC", cov_kwds={"maxlags": lags, "use_correction": True}, use_t=True
    )
    ours = st.hac_t(x, lags=lags)
    assert ours.standard_error == pytest.approx(fit.bse[0], rel=1e-12)
    assert ours.statistic == pytest.approx(fit.tvalues[0], rel=1e-12)
    assert ours.p_value == pytest.approx(stats.t.sf(fit.tvalues[0], x.size - 1), rel=1e-12)


def test_hac_t_without_lags_is_students_t():
    x = np.random.default_rng(0).normal(0.2, 1.0, 25)
    expected = stats.ttest_1samp(x, 0.0, alternative="greater")
    ours = st.hac_t(x, lags=0)
    assert (ours.statistic, ours.p_value) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)


def test_variance_floor_only_acts_on_negative_autocorrelation():
    alternating = np.tile([1.2, -1.0], 20)
    assert st.hac_t(alternating, variance_floor=True).p_value > 0.2
    assert st.hac_t(alternating).p_value < 0.01, "the plain test takes oscillation for certainty"
    trending = autoregressive(60, 0.6, seed=1, mean=0.4)
    assert st.hac_t(trending, variance_floor=True) == st.hac_t(trending)


def test_floored_test_keeps_its_level_on_a_null():
    rng = np.random.default_rng(11)
    passed = [st.hac_t(rng.standard_normal(24), variance_floor=True).p_value < 0.05 for _ in range(1500)]
    assert stats.binomtest(sum(passed), len(passed), 0.05, alternative="greater").pvalue > 0.01


def test_sharpe_error_is_lo_2002_for_independent_normal_pnl():
    x = np.random.default_rng(5).normal(0.3, 2.0, 200_000)
    estimate = sharpe(x, lags=0)
    assert estimate.value == pytest.approx(x.mean() / x.std(ddof=1), rel=1e-12)
    assert estimate.standard_error == pytest.approx(math.sqrt((1 + 0.15**2 / 2) / x.size), rel=0.01)


def test_sharpe_error_agrees_with_the_delta_method_on_statsmodels_moments():
    from statsmodels.stats.sandwich_covariance import S_hac_simple

    x = autoregressive(300, 0.3, seed=8, mean=0.5)
    mean, sd = x.mean(), x.std(ddof=1)
    moments = np.column_stack([x - mean, (x - mean) ** 2 - sd**2])
    moments -= moments.mean(axis=0)
    covariance = S_hac_simple(moments, nlags=4) / x.size
    gradient = np.array([1 / sd, -mean / (2 * sd**3)])
    expected = math.sqrt(gradient @ covariance @ gradient / x.size)
    assert sharpe(x, lags=4).standard_error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rho", [-0.2, 0.0, 0.3, 0.8])
def test_aggregation_factor_matches_the_closed_form_of_an_autoregression(rho):
    q = 12
    closed = math.sqrt(q) * (1 + 2 * rho / (1 - rho) * (1 - (1 - rho**q) / (q * (1 - rho)))) ** -0.5
    assert aggregation_factor(rho ** np.arange(1, q), q) == pytest.approx(closed, rel=1e-12)


def test_aggregation_factor_refuses_impossible_autocorrelations():
    with pytest.raises(ValueError, match="must be > 0"):
        aggregation_factor([-0.9], 12)


def test_long_run_variance_by_hand():
    # centred (-1, 0, 1): gamma_0 = 2/3, gamma_1 = 0, gamma_2 = -1/3; Bartlett weights 2/3 and 1/3.
    assert long_run_variance([1.0, 2.0, 3.0], 0) == pytest.approx(2 / 3)
    assert long_run_variance([1.0, 2.0, 3.0], 2) == pytest.approx(2 / 3 + 2 * (1 / 3) * (-1 / 3))


def test_default_lags():
    assert [newey_west_lags(n) for n in (1, 2, 24, 60, 100, 250)] == [0, 1, 2, 3, 4, 4]


@pytest.mark.parametrize(
    ("pnl", "reason"),
    [
        (np.full(250, 0.001), "constant"),
        (np.full(250, 0.1), "constant"),
        (np.cumsum(np.full(250, 0.1)) - np.cumsum(np.full(250, 0.1)) + 0.1, "constant"),
        (np.zeros(250), "zero throughout"),
        (np.array([1.0]), "at least 2"),
        (np.array([]), "at least 2"),
        (np.array([1.0, np.nan, 2.0]), "not finite in 1"),
        (np.array([1.0, np.inf, 2.0]), "not finite in 1"),
    ],
)
def test_degenerate_pnl_is_undefined_everywhere(pnl, reason):
    assert reason in degenerate_reason(pnl)
    estimate = sharpe(pnl)
    assert (estimate.value, estimate.standard_error) == (None, None)
    assert estimate.annualised(252).value is None
    for test in (st.hac_t(pnl), st.bootstrap_t(pnl, block=2, resamples=100, seed=0)):
        assert (test.statistic, test.p_value) == (None, None)
        assert reason in test.reason
    assert st.probabilistic_sharpe(pnl) is None


def test_one_lucky_day_is_finite_and_flagged():
    pnl = np.zeros(250)
    pnl[100] = 3.0
    assert sharpe(pnl).value == pytest.approx(1 / math.sqrt(250), rel=1e-2)
    assert st.low_activity(pnl)
    assert not st.low_activity(np.arange(250.0))


def test_bootstrap_t_agrees_with_arch():
    from arch.bootstrap import StationaryBootstrap

    x = autoregressive(40, 0.2, seed=2, mean=0.25)
    observed = st.hac_t(x, lags=2)

    def studentised(sample: np.ndarray) -> float:
        return (sample.mean() - x.mean()) / st.mean_error(sample, 2, variance_floor=False)

    draws = StationaryBootstrap(5, x, seed=np.random.default_rng(9)).apply(studentised, 400)
    expected = (1 + (draws[:, 0] >= observed.statistic).sum()) / 401
    ours = st.bootstrap_t(x, block=5, resamples=400, seed=9, lags=2)
    assert ours.p_value == pytest.approx(expected, rel=1e-12)


def test_bootstrap_interval_covers_the_mean_and_is_reproducible():
    rng = np.random.default_rng(4)
    covered = 0
    rows = st.bootstrap_indices(80, block=3, resamples=400, seed=1)
    assert np.array_equal(rows, st.bootstrap_indices(80, block=3, resamples=400, seed=1))
    assert rows.shape == (400, 80)
    # Consecutive observations stay together two times in three at a mean block length of three.
    assert ((np.diff(rows, axis=1) % 80) == 1).mean() == pytest.approx(2 / 3 + 1 / 3 / 80, abs=0.02)
    for _ in range(60):
        counts = rng.integers(3, 6, 80).astype(float)
        sums = rng.normal(0.5 * counts, np.sqrt(counts))
        low, high = st.bootstrap_interval(sums, counts, rows, confidence=0.95)
        covered += low <= 0.5 <= high
    assert covered >= 50


def test_clustered_error_agrees_with_statsmodels():
    import statsmodels.api as sm

    rng = np.random.default_rng(6)
    days = np.repeat(np.arange(12), rng.integers(2, 9, 12))
    values = rng.standard_normal(days.size) + rng.standard_normal(12)[days]
    fit = sm.OLS(values, np.ones(values.size)).fit(
        cov_type="cluster", cov_kwds={"groups": days, "use_correction": True}
    )
    ours = st.clustered_mean(values, days)
    assert (ours.n, ours.clusters) == (days.size, 12)
    assert ours.standard_error == pytest.approx(fit.bse[0], rel=1e-9)
    assert st.clustered_mean([1.0, 2.0], [0, 0]).standard_error is None
    assert st.clustered_mean([], []).mean is None


def test_annual_sharpe_agrees_across_samplings_and_states_its_factor():
    """15-minute bars give a factor sqrt(26 x 252), not one from the bars of a wall-clock year."""
    rng = np.random.default_rng(12)
    sessions, bars = 500, 26
    pnl = rng.normal(0.02, 1.0, (sessions, bars))
    day = np.repeat(np.arange(sessions), bars)
    fine, fine_factor = st.annual_sharpe(pnl.ravel(), day, 252.0)
    daily, daily_factor = st.annual_sharpe(pnl.sum(axis=1), np.arange(sessions), 252.0)
    assert fine_factor == pytest.approx(math.sqrt(6552))
    assert daily_factor == pytest.approx(math.sqrt(252))
    assert fine.value == pytest.approx(daily.value, abs=0.15)
    half, _ = st.annual_sharpe(pnl[:250].ravel(), day[: 250 * bars], 252.0)
    assert abs(half.value - fine.value) < 3 * half.standard_error
    holidays = np.isin(day, [3, 50, 99, 200, 401])
    _, factor_with_holidays = st.annual_sharpe(pnl.ravel()[~holidays], day[~holidays], 252.0)
    assert factor_with_holidays == fine_factor
    assert (st.sessions_per_year("24/7"), st.sessions_per_year("CMES")) == (365.0, 252.0)


def test_probabilistic_sharpe_of_normal_pnl():
    x = np.random.default_rng(3).normal(0.1, 1.0, 400)
    ratio = x.mean() / x.std(ddof=1)
    approximate = stats.norm.cdf(ratio * math.sqrt(399 / (1 + ratio**2 / 2)))
    assert st.probabilistic_sharpe(x) == pytest.approx(approximate, abs=0.01)
    assert st.probabilistic_sharpe(-x) < 0.5 < st.probabilistic_sharpe(x)


def test_observations_needed_gives_the_stated_power():
    rng = np.random.default_rng(7)
    effect = 0.4
    x = rng.standard_normal(50)
    x = (x - x.mean()) / x.std(ddof=1) + effect
    needed = st.observations_needed(st.hac_t(x, lags=0), alpha=0.05, power=0.8)
    assert needed == math.ceil(((1.6448536 + 0.8416212) / effect) ** 2)
    assert st.observations_needed(st.hac_t(-x), alpha=0.05, power=0.8) is None
    assert st.observations_needed(st.hac_t(np.zeros(9)), alpha=0.05, power=0.8) is None


def test_paired_test_uses_the_differences():
    ours, theirs = np.array([3.0, 5.0, 4.0, 8.0]), np.array([2.0, 5.0, 1.0, 4.0])
    assert st.paired_test(ours, theirs) == st.hac_t([1.0, 0.0, 3.0, 4.0])


def test_drawdown_by_hand():
    assert max_drawdown([1.0, 2.0, -4.0, 1.0, -1.0]) == 4.0
    assert max_drawdown([-2.0, 1.0]) == 2.0
    assert max_drawdown([1.0, 1.0]) == 0.0
    assert drawdown([-1.0, 2.0, 1.0]).tolist() == [1.0, 0.0, 1.0]


def test_block_length_is_the_root_unless_configured():
    assert [st.block_length(n) for n in (1, 24, 100)] == [1, 5, 10]
    assert st.block_length(10, 4) == 4
    assert st.block_length(10, 40) == 10
