"""Days joined for the environment and the perception."""

import numpy as np
import pytest
import torch

from alpha_core.errors import DataError
from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.fxcache import market_data, open_day, sequence_data
from alpha_pipeline.fxcache.market import mapped_data


@pytest.fixture
def days(build, tmp_path, market_tables):
    snapshots, trades = market_tables
    empty = (snapshots.slice(0, 0), trades.slice(0, 0))
    made = [
        build(tmp_path / f"{k}.fxcache", day=f"2024-07-2{k}", **({"tables": empty} if k == 4 else {})).path
        for k in (3, 4, 5)
    ]
    return [open_day(path) for path in made]


def test_market_data_joins_days(days):
    data = market_data(days)
    one = days[0]
    R = one.rows
    assert data.rows == 2 * R and data.feature_names == FEATURE_NAMES
    for name in ("mid2", "book", "tape", "features"):
        joined = getattr(data, name)
        assert torch.equal(joined[:R], joined[R:])
        np.testing.assert_array_equal(joined[:R].numpy(), getattr(one, name))
    assert data.day.tolist() == [0] * R + [2] * R, "an empty day keeps its place"
    assert data.alpha.tolist() == [0.0] * 2 * R
    kinds = [
        t.dtype for t in (data.mid2, data.book, data.tape, data.segment, data.day, data.seconds, data.alpha)
    ]
    assert kinds == [torch.int32] * 5 + [torch.float32] * 2


def test_segments_are_unique_across_days(days):
    segment = market_data(days).segment.numpy()
    per_day = int(days[0].first.sum())
    assert sorted(set(segment.tolist())) == list(range(2 * per_day))
    changed = np.flatnonzero(np.diff(segment)) + 1
    np.testing.assert_array_equal(changed, np.flatnonzero(np.concatenate([days[0].first, days[2].first]))[1:])


def test_seconds_are_those_to_the_next_row_of_the_segment(days):
    one = days[0]
    data = market_data([one])
    for row in range(one.rows):
        last = row + 1 == one.rows or one.first[row + 1]
        want = 0.0 if last else (int(one.ts[row + 1]) - int(one.ts[row])) / 1e9
        assert data.seconds[row].item() == pytest.approx(want, rel=1e-6)
    second = int(one.ts[3]) // 10**9 % 86_400
    assert second <= data.second_of_day[3].item() <= second + 1.01


def test_the_file_is_never_written_through_the_tensors(days):
    data = market_data([days[0]])
    before = days[0].mid2[0]
    data.mid2[0] += 1
    assert days[0].mid2[0] == before


def test_mapped_data_leaves_the_features_in_the_files(days):
    data = mapped_data(days)
    assert len(data.features) == 2, "an empty day has no part"
    for part, one in zip(data.features, (days[0], days[2]), strict=True):
        begin, length = one.mapped_range
        assert begin <= part.ctypes.data < begin + length
        assert not part.flags.owndata
    assert data.digest() == sequence_data(days).digest()


def test_sequence_data_masks_warm_up_and_horizons(days):
    one = days[0]
    data = sequence_data([one])
    assert data.features.shape == (one.rows, 40) and data.feature_names == FEATURE_NAMES
    np.testing.assert_array_equal(data.labels.numpy(), one.labels)
    np.testing.assert_array_equal(data.valid.numpy(), one.label_valid & one.warm[:, None])
    assert data.valid.any() and (one.label_valid & ~data.valid.numpy()).any()
    np.testing.assert_allclose(data.seconds_since_previous.numpy(), one.duration_ns / 1e9, rtol=1e-6)
    assert data.seconds_since_previous.dtype == torch.float32
    np.testing.assert_array_equal(data.segment.numpy(), market_data([one]).segment.numpy())


def test_days_that_cannot_be_joined_are_refused(days):
    with pytest.raises(DataError, match="must be distinct and in order"):
        market_data(days[::-1])
    with pytest.raises(DataError, match="must be distinct and in order"):
        sequence_data([days[0], days[0]])
    with pytest.raises(DataError, match=r"none of the 1 days \(2024-07-24\) has rows"):
        market_data([days[1]])
