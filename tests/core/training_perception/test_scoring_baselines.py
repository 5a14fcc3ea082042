"""Figures per horizon, and the baselines that stand beside them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from alpha_core.errors import DataError
from alpha_core.metrics.auc import auc
from alpha_core.training.baselines import (
    RIDGE,
    TOUCH_FEATURES,
    fit_logistic,
    persistence_logits,
    touch_logits,
)
from alpha_core.training.scoring import aucs, direction, perception_metrics
from alpha_core.training.sequences import SequenceData


def four_rows():
    labels = torch.tensor([[2], [-1], [0], [4]], dtype=torch.int32).repeat(1, 5)
    valid = torch.tensor([[True], [True], [True], [False]]).repeat(1, 5)
    return SequenceData(
        features=torch.zeros(4, 40),
        seconds_since_previous=torch.zeros(4),
        labels=labels,
        valid=valid,
        segment=torch.zeros(4, dtype=torch.int64),
    )


def test_figures_hand_worked():
    """Rows 0 (up) and 1 (down) count, row 2 is a tie, row 3 has no label."""
    logits = torch.tensor([[0.0], [np.log(3.0)], [9.0], [9.0]]).repeat(1, 5).float()
    m = perception_metrics(logits, four_rows(), block=1, resamples=5, seed=0)[2]
    assert (m.horizon, m.n, m.ties) == (300, 2, 1)
    assert m.positive == 0.5
    assert m.auc == 0.0
    assert m.auc_low is None
    assert m.brier == pytest.approx((0.25 + 0.5625) / 2)
    assert m.accuracy == 0.0
    assert m.mcc == pytest.approx(-1.0)
    assert sum(b.count for b in m.bins) == 2
    assert m.to_dict()["bins"][0]["count"] == 1


def test_no_rows_with_a_direction_give_undefined_figures():
    data = replace(four_rows(), valid=torch.zeros(4, 5, dtype=torch.bool))
    m = perception_metrics(torch.zeros(4, 5), data, block=1, resamples=5, seed=0)[0]
    assert (m.n, m.auc, m.brier, m.mcc, m.accuracy, m.positive) == (0, None, None, None, None, None)
    assert not m.leakage


def test_looking_ahead_raises_the_leakage_alarm(small):
    leak = small.labels.float()
    assert all(m.leakage for m in perception_metrics(leak, small, block=10, resamples=5, seed=0))


def test_figures_repeat_by_seed_and_horizons_draw_apart(small):
    logits = torch.randn(small.rows, 1, generator=torch.Generator().manual_seed(0)).repeat(1, 5)
    one, two, other = (perception_metrics(logits, small, block=20, resamples=50, seed=s) for s in (0, 0, 1))
    assert one == two
    assert one[0].auc == other[0].auc
    assert one[0].auc_low != other[0].auc_low


def test_logistic_regression_equals_an_independent_library():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    y = rng.random(3000) < 1 / (1 + np.exp(-(0.4 + x @ [1.0, -0.5, 0.0])))
    own = fit_logistic(np.concatenate((np.ones((3000, 1)), x), 1), y)
    other = LogisticRegression(C=1 / (RIDGE * 3000), tol=1e-10, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(own, [*other.intercept_, *other.coef_[0]], atol=1e-5)


def test_logistic_regression_survives_separable_rows_and_heavy_tails():
    x = np.concatenate((np.ones((40, 1)), np.linspace(-1, 1, 40)[:, None]), 1)
    assert np.isfinite(fit_logistic(x, x[:, 1] > 0)).all()
    rng = np.random.default_rng(1)
    wild = np.concatenate((np.ones((500, 1)), np.clip(rng.standard_cauchy((500, 4)), -10, 10)), 1)
    assert np.isfinite(fit_logistic(wild, rng.random(500) < 0.02)).all()


def test_touch_baseline_finds_the_planted_touch_feature(planted):
    train, test = planted.slice(0, 10_000), planted.slice(10_060, 16_000)
    areas = aucs(touch_logits(train, test), test)
    assert all(area > 0.52 for area in areas[:3])
    mask, up = direction(test, 0)
    column = test.feature_names.index("ofi_1")
    assert areas[0] >= auc(up, test.features[:, column].numpy()[mask]) - 0.01


def test_touch_baseline_is_fitted_on_the_training_rows_only(small):
    train, test = small.slice(0, 800), small.slice(800, 1200)
    logits = touch_logits(train, test)
    relabelled = replace(test, labels=-test.labels)
    assert torch.equal(touch_logits(train, relabelled), logits)


def test_touch_baseline_of_one_class_is_flat(small):
    rising = replace(small, labels=torch.ones_like(small.labels))
    assert (touch_logits(rising, small) == 0).all()


def test_persistence_is_the_last_move_in_training_units(small):
    train, test = small.slice(0, 800), small.slice(800, 1200)
    logits = persistence_logits(train, test)
    column = small.feature_names.index("mid_change_10")
    spread = train.features[:, column].double().std(correction=0).float()
    torch.testing.assert_close(logits, (test.features[:, column] / spread)[:, None].expand(-1, 5))


def test_baselines_need_names(small):
    unnamed = replace(small, feature_names=())
    with pytest.raises(DataError, match="queue_imbalance_1"):
        touch_logits(unnamed, unnamed)
    with pytest.raises(DataError, match="mid_change_10"):
        persistence_logits(unnamed, unnamed)
    assert len(TOUCH_FEATURES) == 5
