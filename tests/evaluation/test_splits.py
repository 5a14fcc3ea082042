"""Splitters: each leak they name is planted, and caught."""

import itertools

import numpy as np
import pytest
from scipy.signal import lfilter

from alpha_core.errors import ConfigError, DataError
from alpha_pipeline.evaluation.config import WalkForwardConfig
from alpha_pipeline.evaluation.splits import (
    RowRange,
    before_oos,
    in_sample_oos,
    purge_end,
    split_training,
    timeline,
    training_mask,
    walk_forward,
)


def evenly(rows: int, *, days: int = 1, stride: int = 1):
    """`days` equal days with a decision every `stride` snapshots."""
    per_day = rows // days
    day = np.repeat(np.arange(days), per_day)
    event = np.tile(np.arange(per_day) * stride, days)
    return timeline(segment=day, event_index=event, day=day)


def config(**changes) -> WalkForwardConfig:
    small = {"label_horizon": 30, "purge_snapshots": 30, "purge_rows": 0, "embargo_rows": 0, "folds": 3}
    return WalkForwardConfig(**(small | changes))


def test_timeline_counts_snapshots_across_days():
    line = timeline(segment=[0, 0, 1, 2, 2], event_index=[2, 5, 9, 0, 4], day=[0, 0, 0, 1, 1])
    assert line.position.tolist() == [2, 5, 9, 10, 14]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"segment": [0, 0], "event_index": [0], "day": [0, 0]}, "have 2, 1 and 2 rows"),
        ({"segment": [], "event_index": [], "day": []}, "at least one"),
        ({"segment": [0, 1], "event_index": [0, 0], "day": [1, 0]}, "day decreases"),
        ({"segment": [0, 0], "event_index": [0, 0], "day": [0, 1]}, "spans two days"),
        ({"segment": [0, 0], "event_index": [3, 3], "day": [0, 0]}, "does not increase"),
    ],
)
def test_timeline_refuses_rows_it_cannot_order(arrays, sentence):
    with pytest.raises(DataError, match=sentence):
        timeline(**arrays)


def test_purge_shortens_training_and_never_the_test():
    """January to train on, February to test on, a purge of one day: 0-29 and 31-58."""
    line = evenly(120)
    assert purge_end(line, 31, config(label_horizon=1, purge_snapshots=1)) == 30
    short, long = (
        walk_forward(line, config(folds=2, label_horizon=1, purge_snapshots=purge)) for purge in (1, 9)
    )
    assert [f.test for f in short] == [f.test for f in long] == [RowRange(52, 86), RowRange(86, 120)]
    assert [f.validation.stop for f in short] == [51, 85]
    assert [f.validation.stop for f in long] == [43, 77]


@pytest.mark.parametrize("changes", [{"label_horizon": 0}, {"purge_snapshots": 29}, {"purge_snapshots": 0}])
def test_an_unpurged_configuration_is_refused(changes):
    with pytest.raises(ConfigError, match=next(iter(changes))):
        config(**changes)


def test_two_test_parts_purge_their_own_neighbourhoods_only():
    line = evenly(12)
    kept = training_mask(line, [RowRange(2, 3), RowRange(9, 10)], purge_snapshots=1, label_horizon=1)
    assert np.flatnonzero(kept).tolist() == [0, 4, 5, 6, 7, 11]
    assert np.flatnonzero(~kept).tolist() == [1, 2, 3, 8, 9, 10], "2 test rows and 4 purged"


def test_training_mask_errors():
    line = evenly(12)
    with pytest.raises(DataError, match="leaves no training row"):
        training_mask(line, [RowRange(6, 7)], purge_snapshots=12, label_horizon=1)
    with pytest.raises(DataError, match="label_horizon 0"):
        training_mask(line, [RowRange(6, 7)], purge_snapshots=3, label_horizon=0)


def test_the_largest_of_the_three_purges_holds():
    line = evenly(1000, days=10, stride=7)
    by_snapshots = config(purge_snapshots=350, purge_rows=10)
    assert purge_end(line, 450, by_snapshots) == 400
    assert purge_end(line, 450, config(purge_snapshots=350, purge_rows=60)) == 390
    assert purge_end(line, 450, config(purge_sessions=1)) == 300, "day 3 and the part of day 4 are dropped"
    assert purge_end(line, 450, config(purge_sessions=1, purge_rows=200)) == 250
    assert purge_end(line, 10, config(purge_sessions=3)) == 0


def test_the_end_of_the_rows_counts_as_the_next_day():
    line = evenly(1000, days=10, stride=7)
    assert purge_end(line, 1000, config(purge_snapshots=70)) == 990
    assert purge_end(line, 1000, config(purge_sessions=2)) == 800
    train, validation = before_oos(line, config(purge_snapshots=70, validation_share=0.2))
    assert (train, validation) == (RowRange(0, 782), RowRange(792, 990))


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_training_rows_never_reach_validation_or_test(seed):
    rng = np.random.default_rng(seed)
    days = rng.integers(3, 9)
    sizes = rng.integers(400, 900, days)
    day = np.repeat(np.arange(days), sizes)
    event = np.concatenate([np.cumsum(rng.integers(1, 9, n)) for n in sizes])
    line = timeline(segment=day, event_index=event, day=day)
    horizon = int(rng.integers(20, 200))
    rules = config(label_horizon=horizon, purge_snapshots=horizon + 3, embargo_rows=11, folds=2)
    for fold in walk_forward(line, rules):
        for earlier, later in ((fold.train, fold.validation), (fold.validation, fold.test)):
            assert len(earlier) > 0
            reach = line.position[earlier.stop - 1] + horizon
            assert reach < line.position[later.start]
            # The purge is not longer than asked: one row more would come too close.
            assert line.position[earlier.stop] + horizon + 3 >= line.position[later.start]


def test_folds_are_sequential_with_disjoint_tests_and_embargoes():
    line = evenly(10_000, days=5)
    folds = walk_forward(line, config(folds=4, embargo_rows=50))
    assert [f.index for f in folds] == [0, 1, 2, 3]
    for fold in folds:
        assert fold.train.stop < fold.validation.start < fold.validation.stop < fold.test.start
        assert fold.embargo == RowRange(fold.test.stop, fold.test.stop + 50)
    for before, after in itertools.pairwise(folds):
        assert after.test.start == before.embargo.stop
        assert len(after.test) == len(before.test)
    assert folds[-1].embargo.stop == 10_000
    assert folds[0].train.start in range(5)
    shares = [len(f.test) / (f.test.stop - f.train.start) for f in folds]
    assert shares == pytest.approx([0.4] * 4, abs=0.01)


def test_a_short_window_uses_the_newest_rows():
    line = evenly(10_000)
    folds = walk_forward(line, config(window_rows=2000, folds=2))
    assert folds[-1].test == RowRange(9200, 10_000)
    assert folds[0].test == RowRange(8400, 9200)
    assert folds[0].train.start == 7200


def test_an_empty_part_is_an_error_with_a_remedy():
    with pytest.raises(DataError, match=r"no training row .* add days, or lower walk_forward.purge_rows"):
        walk_forward(evenly(5000), config(purge_rows=2000))
    with pytest.raises(DataError, match="no test row"):
        walk_forward(evenly(40), config(embargo_rows=600))
    with pytest.raises(DataError, match="no validation row"):
        split_training(evenly(100), RowRange(50, 90), config(validation_share=0.01))


def memory_score(purge_rows: int, worlds: int = 400) -> float:
    """How well the last regime before the purge predicts the labels of the first hundred test rows.

    The market has no signal, only a regime that drifts over about 500 rows (an Ornstein-Uhlenbeck process),
    followed by the label. A model that remembers the last regime it was fitted on is right on the first test
    rows exactly as far as the purge lets the regime persist; 0.5 is honest.
    """
    line = evenly(20_000, days=4)
    fold = walk_forward(line, config(purge_rows=purge_rows, folds=1))[0]
    rows = slice(fold.validation.stop - 3000, fold.test.start + 100)
    noise = np.random.default_rng(1).standard_normal((worlds, rows.stop - rows.start))
    regime = lfilter([1.0], [1.0, -np.exp(-1 / 500)], noise, axis=1)
    remembered = np.sign(regime[:, 2950:3000].mean(axis=1, keepdims=True))
    return float((np.sign(regime[:, -100:]) == remembered).mean())


def test_a_slowly_varying_regime_shows_that_a_purge_of_a_hundred_rows_leaks():
    assert memory_score(100) > 0.7
    assert abs(memory_score(WalkForwardConfig().purge_rows) - 0.5) < 0.06


def test_last_days_are_out_of_sample():
    days = ["2024-03-05", "2024-03-04", "2024-03-06", "2024-03-07"]
    inside, outside = in_sample_oos(days, 2)
    assert (inside, outside) == (["2024-03-04", "2024-03-05"], ["2024-03-06", "2024-03-07"])
    for count in (0, 4, 9):
        with pytest.raises(DataError, match=f"oos_days was {count}"):
            in_sample_oos(days, count)
    with pytest.raises(DataError, match="duplicates"):
        in_sample_oos([*days, days[0]], 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"folds": 0},
        {"train_share": 1.0},
        {"validation_share": 0.0},
        {"purge_rows": -1},
        {"embargo_rows": -1},
        {"oos_days": 0},
        {"window_rows": 0},
        {"purge_sessions": -2},
    ],
)
def test_bad_settings_are_named(changes):
    name, value = next(iter(changes.items()))
    with pytest.raises(ConfigError, match=f"{name} was {value}, must be"):
        WalkForwardConfig(**changes)


def test_all_problems_are_listed_at_once():
    with pytest.raises(ConfigError, match=r"folds was 0.*train_share was 2"):
        WalkForwardConfig(folds=0, train_share=2.0)
