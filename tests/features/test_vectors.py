"""Reference numbers for order flow and book shape."""

import json

import numpy as np
from fx_tables import START, event, tables

from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.features.stream import compute_day

FLOWS = ["ofi_1", "ofi_2", "ofi_3", "ofi_4", "ofi_5", "ofi_6_10"]
IMBALANCES = [f"queue_imbalance_{level}" for level in range(1, 6)]


def columns(features, names):
    return features[:, [FEATURE_NAMES.index(name) for name in names]]


def test_reference_order_flow_and_book_shape(vectors):
    cases = json.loads((vectors / "order_flow.json").read_text())["cases"]
    assert cases
    for case in cases:
        books = case["books_in_ticks"]
        day = compute_day(*tables([event(b, START + k) for k, b in enumerate(books)]), FeatureConfig())
        features = day.columns["features"]
        flows = np.array(case["ofi_levels_1_5_and_6_10_between_consecutive_books"])
        assert len(flows) == len(books) - 1
        np.testing.assert_allclose(columns(features, FLOWS)[1:], flows, atol=1e-4)
        assert len(case["book_shape_per_book"]) == len(books)
        for row, shape in enumerate(case["book_shape_per_book"]):
            want = dict(shape)
            want |= dict(zip(IMBALANCES, want.pop("queue_imbalance_1_5"), strict=True))
            got = columns(features[row : row + 1], list(want))[0]
            np.testing.assert_allclose(got, list(want.values()), atol=1e-4, err_msg=str(list(want)))
