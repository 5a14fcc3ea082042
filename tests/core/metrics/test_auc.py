"""AUC with ties against pair counting and an independent library, and its block bootstrap."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from alpha_core.errors import DataError
from alpha_core.metrics.auc import RankedScores, auc, leakage_alarm
from alpha_core.metrics.bootstrap import auc_interval, block_counts


def test_fault_auc_ignores_ties():
    """Ordinal ranks give 1.0 and 1.0 for the first two; ties count one half."""
    assert auc([0, 1, 1], [0.5, 0.9, 0.5]) == 0.75
    assert auc([0, 0, 1, 1], [0.3, 0.3, 0.3, 0.3]) == 0.5
    assert auc([1, 1, 1], [0.1, 0.2, 0.3]) is None
    assert auc([0, 0], [0.1, 0.2]) is None
    assert auc([], []) is None


def test_auc_equals_counting_pairs():
    rng = np.random.default_rng(0)
    for levels in (2, 5, 1000):
        y, s = rng.random(60) < 0.4, rng.integers(0, levels, 60)
        pairs = [(a > b) + 0.5 * (a == b) for a, b in itertools.product(s[y], s[~y])]
        assert auc(y, s) == pytest.approx(np.mean(pairs), abs=1e-15)


def test_auc_equals_an_independent_library():
    rng = np.random.default_rng(1)
    y = rng.random(5000) < 0.3
    s = np.round(rng.normal(size=5000) + 0.5 * y, 2)
    assert auc(y, s) == pytest.approx(roc_auc_score(y, s), abs=1e-12)
    assert auc(torch.from_numpy(y), torch.from_numpy(s)) == auc(y, s)


def test_auc_properties():
    rng = np.random.default_rng(2)
    y, s = rng.random(300) < 0.5, rng.normal(size=300)
    assert auc(y, np.exp(s)) == auc(y, s)
    assert auc(y, -s) == pytest.approx(1 - auc(y, s), abs=1e-15)
    order = rng.permutation(300)
    assert auc(y[order], s[order]) == auc(y, s)
    assert auc(y, np.where(y, np.inf, -np.inf)) == 1.0


def test_auc_refuses_nan_by_row():
    with pytest.raises(DataError, match="row 1 was NaN"):
        auc([0, 1, 0], [0.1, float("nan"), 0.2])


def test_counted_area_equals_repeating_the_rows():
    rng = np.random.default_rng(3)
    y, s = rng.random(80) < 0.5, np.round(rng.normal(size=80), 1)
    counts = rng.integers(0, 4, 80)
    assert RankedScores(y, s).area(counts) == pytest.approx(
        auc(np.repeat(y, counts), np.repeat(s, counts)), abs=1e-15
    )
    assert RankedScores(y, s).area(np.where(y, counts, 0)) is None


def test_leakage_alarm_thresholds():
    assert not leakage_alarm(0.85, 0.75)
    assert leakage_alarm(0.851, None)
    assert leakage_alarm(None, 0.76)
    assert not leakage_alarm(None, None)
    assert not leakage_alarm(0.6, 0.77, commoner=0.82), "a trend is no leak"
    assert leakage_alarm(0.6, 0.83, commoner=0.82)


def test_block_counts_are_whole_blocks():
    rng = np.random.default_rng(4)
    counts = np.stack([block_counts(100, 7, rng) for _ in range(4000)])
    assert (counts.sum(1) == 15 * 7).all()
    assert (counts >= 0).all()
    # Away from the ends every row is covered by 7 of the 94 possible blocks.
    assert counts[:, 7:93].mean() == pytest.approx(15 * 7 / 94, rel=0.01)
    assert block_counts(10, 10, rng).tolist() == [1] * 10


def _series(rng, n, *, effect, phi):
    """Labels and scores that share a slow component of the given strength."""
    noise = rng.normal(size=(2, n)) * np.sqrt(1 - phi**2)
    slow = np.zeros((2, n))
    for t in range(1, n):
        slow[:, t] = phi * slow[:, t - 1] + noise[:, t]
    return slow[0] > 0, slow[1] + effect * slow[0]


def test_interval_covers_one_half_for_independent_slow_series():
    """Blocks that respect the dependence cover; single rows pretend to a precision that is not there."""
    rng = np.random.default_rng(5)
    covered, narrow = 0, 0
    for _ in range(40):
        y, s = _series(rng, 4000, effect=0.0, phi=0.98)
        low, high = auc_interval(y, s, block=300, resamples=100, generator=rng)
        covered += low <= 0.5 <= high
        low, high = auc_interval(y, s, block=1, resamples=100, generator=rng)
        narrow += low <= 0.5 <= high
    assert covered >= 32
    assert narrow <= 24


def test_interval_excludes_one_half_for_a_real_effect_and_holds_the_estimate():
    rng = np.random.default_rng(6)
    y, s = _series(rng, 4000, effect=1.0, phi=0.9)
    low, high = auc_interval(y, s, block=100, resamples=200, generator=rng)
    assert 0.5 < low < auc(y, s) < high
    wide_low, wide_high = auc_interval(y, s, block=100, resamples=200, generator=rng, level=0.99)
    assert wide_high - wide_low > high - low


def test_interval_is_undefined_for_few_blocks_or_one_class_and_repeats_by_seed():
    rng = np.random.default_rng(7)
    y, s = rng.random(100) < 0.5, rng.normal(size=100)
    assert auc_interval(y, s, block=21, resamples=10, generator=rng) == (None, None)
    assert auc_interval(np.ones(100, bool), s, block=5, resamples=10, generator=rng) == (None, None)
    assert auc_interval([], [], block=5, resamples=10, generator=rng) == (None, None)
    first, second = (
        auc_interval(y, s, block=5, resamples=50, generator=np.random.default_rng(1)) for _ in range(2)
    )
    assert first == second
