"""Brier, MCC, reliability bins and temperature on hand-worked and known cases."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.metrics import brier_score_loss, matthews_corrcoef

from alpha_core.metrics.calibration import (
    TEMPERATURE_BOUNDS,
    brier,
    calibration_bins,
    fit_temperature,
    log_loss,
    mcc,
    sigmoid,
)


def test_brier_hand_worked_and_against_a_library():
    assert brier([1, 0], [0.8, 0.4]) == pytest.approx((0.04 + 0.16) / 2)
    assert brier([], []) is None
    rng = np.random.default_rng(0)
    y, p = rng.random(200) < 0.5, rng.random(200)
    assert brier(y, p) == pytest.approx(brier_score_loss(y, p))


def test_mcc_hand_worked_and_against_a_library():
    # TP 2, TN 1, FP 1, FN 1: (2*1 - 1*1) / sqrt(3*3*2*2) = 1/6.
    assert mcc([1, 1, 0, 0, 1], [1, 1, 0, 1, 0]) == pytest.approx(1 / 6)
    assert mcc([1, 0], [0, 1]) == pytest.approx(-1)
    assert mcc([1, 1], [0, 1]) is None
    assert mcc([1, 0], [1, 1]) is None
    assert mcc([], []) is None
    rng = np.random.default_rng(1)
    y, p = rng.random(500) < 0.5, rng.random(500) < 0.3
    assert mcc(y, p) == pytest.approx(matthews_corrcoef(y, p))


def test_calibration_bins_hold_every_row_once():
    bins = calibration_bins([0, 1, 1, 0], [0.0, 0.999, 1.0, 0.05], bins=10)
    assert [(b.low, b.high, b.count) for b in bins] == [(0.0, 0.1, 2), (0.9, 1.0, 2)]
    assert bins[0].frequency == 0.0
    assert bins[1].probability == pytest.approx(0.9995)
    rng = np.random.default_rng(2)
    p = rng.random(20_000)
    y = rng.random(20_000) < p
    bins = calibration_bins(y, p)
    assert sum(b.count for b in bins) == 20_000
    assert all(abs(b.frequency - b.probability) < 0.05 for b in bins)


def test_sigmoid_and_log_loss_do_not_overflow():
    assert sigmoid([-1e4, 0, 1e4]).tolist() == [0.0, 0.5, 1.0]
    assert log_loss([1, 0], [1e4, -1e4]) == 0.0
    assert log_loss([1], [0.0]) == pytest.approx(np.log(2))
    assert log_loss([], []) is None


@pytest.mark.parametrize("true", [0.3, 1.0, 4.0])
def test_temperature_recovers_the_factor_and_the_minimum(true):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=40_000)
    y = rng.random(40_000) < sigmoid(logits)
    found = fit_temperature(y, logits * true)
    assert found == pytest.approx(true, rel=0.05)
    best = minimize_scalar(lambda t: log_loss(y, logits * true / t), bounds=(0.05, 20), method="bounded")
    assert found == pytest.approx(best.x, rel=1e-3)


def test_temperature_of_useless_or_one_sided_scores_is_bounded():
    rng = np.random.default_rng(4)
    logits = rng.normal(size=2000)
    assert fit_temperature(logits < 0, logits) == pytest.approx(TEMPERATURE_BOUNDS[1])
    assert fit_temperature(logits > 0, logits) == pytest.approx(TEMPERATURE_BOUNDS[0])
    assert fit_temperature(np.ones(5, bool), np.ones(5)) == 1.0
    assert fit_temperature([], []) == 1.0
