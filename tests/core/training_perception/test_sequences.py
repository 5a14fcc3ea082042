"""Rows, streams and lanes: nothing lost, nothing twice, breaks where they belong."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from alpha_core.errors import DataError
from alpha_core.training.sequences import SequenceData, blocks, lane_rows, stream_rows


def test_wrong_shapes_are_one_sentence_naming_each_field(small):
    with pytest.raises(DataError) as caught:
        replace(small, features=small.features[:, :39], valid=small.valid[:-1], feature_names=("a",))
    text = str(caught.value)
    assert "features has shape [1200, 39], must be [1200, 40]" in text
    assert "valid has shape [1199, 5], must be [1200, 5]" in text
    assert "feature_names has 1 names, must be 40 or none" in text


def test_wrong_dtypes_and_devices_are_one_sentence_naming_each_field(small):
    with pytest.raises(DataError) as caught:
        replace(
            small,
            features=small.features.double(),
            valid=small.valid.float(),
            labels=small.labels.to("meta"),
        )
    text = str(caught.value)
    assert "features is torch.float64, must be torch.float32" in text
    assert "valid is torch.float32, must be torch.bool" in text
    assert "labels is on meta, must be on cpu" in text


def test_nan_and_infinity_are_reported_with_the_features_name(small):
    features = small.features.clone()
    features[7, 33], features[9, 33], features[4, 0] = float("nan"), float("inf"), float("-inf")
    with pytest.raises(DataError) as caught:
        replace(small, features=features).require_finite()
    assert "feature ofi_1 was nan in row 7 (2 rows)" in str(caught.value)
    assert "feature f0 was -inf in row 4 (1 rows)" in str(caught.value)
    with pytest.raises(DataError, match="feature column 33 was nan"):
        replace(small, features=features, feature_names=()).require_finite()
    small.require_finite()


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_durations_are_reported(small, value):
    seconds = small.seconds_since_previous.clone()
    seconds[5] = value
    with pytest.raises(DataError, match=r"seconds_since_previous was .* in row 5"):
        replace(small, seconds_since_previous=seconds).require_finite()


def test_mask_leaves_out_ties_and_labels_beyond_the_segment(small):
    assert (small.labels[small.mask] != 0).all()
    assert small.valid[small.mask].all()
    ties = small.valid & (small.labels == 0)
    assert ties.any()
    assert not small.mask[ties].any()


def test_first_of_segment():
    data = SequenceData(
        features=torch.zeros(6, 40),
        seconds_since_previous=torch.zeros(6),
        labels=torch.zeros(6, 5, dtype=torch.int32),
        valid=torch.zeros(6, 5, dtype=torch.bool),
        segment=torch.tensor([7, 7, 3, 3, 7, 8]),
    )
    assert data.first_of_segment().tolist() == [True, False, True, False, True, True]
    assert data.slice(1, 4).segment.tolist() == [7, 3, 3]


@pytest.mark.parametrize(
    ("rows", "streams", "offset"), [(10, 3, 0), (10, 3, 2), (7, 7, 0), (100, 8, 11), (5, 1, 3)]
)
def test_streams_use_every_row_once_in_order(rows, streams, offset):
    positions, used = stream_rows(rows, streams, offset)
    assert sorted(positions[used].tolist()) == list(range(rows))
    for stream, real in zip(positions, used, strict=True):
        steps = stream[real].diff() % rows
        assert (steps == 1).all()


@pytest.mark.parametrize("lanes", [1, 2, 3, 50])
def test_lanes_keep_segments_whole_and_in_order(lanes):
    starts, rows = torch.tensor([0, 4, 5, 20, 22, 30]), 41
    positions, used = lane_rows(starts, rows, lanes)
    assert len(positions) == min(lanes, 6)
    assert sorted(positions[used].tolist()) == list(range(rows))
    first = torch.zeros(rows, dtype=torch.bool)
    first[starts] = True
    for lane, real in zip(positions, used, strict=True):
        own = lane[real].tolist()
        assert own[0] in starts.tolist()
        for before, after in pairwise(own):
            assert after == before + 1 or bool(first[after])


def test_longest_lane_is_about_an_even_share():
    starts = torch.arange(0, 1000, 10)
    positions, _ = lane_rows(starts, 1000, 7)
    assert positions.shape[1] <= 150


def test_blocks_cover_the_lanes_and_carry_resets_only_where_needed():
    first = torch.zeros(20, dtype=torch.bool)
    first[[0, 9]] = True
    positions, used = stream_rows(20, 2, 0)
    parts = list(blocks(positions, used, first, 4))
    assert [part.rows.shape[1] for part in parts] == [4, 4, 2]
    assert torch.equal(torch.cat([part.rows for part in parts], 1), positions)
    assert parts[0].reset.nonzero().tolist() == [[0, 0]]
    assert parts[1].reset is None
    assert parts[2].reset.nonzero().tolist() == [[0, 1]]
    assert torch.equal(next(blocks(positions, used, first, 4, start=2)).rows, parts[2].rows)
