"""Which features change sign when bids and asks are exchanged: the engine's lists against the builder itself."""

import copy

import numpy as np
from fx_tables import random_market, tables

from alpha_core.training.mirror import EVEN, ODD, parity
from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.features.stream import compute_day


def _negated(prices):
    return [None if price is None else -price for price in prices]


def mirrored(events):
    """The market with prices negated, bids as asks and buyers as sellers."""
    images = []
    for one in events:
        image = copy.deepcopy(one)
        for side, other in (("bid", "ask"), ("ask", "bid")):
            image[f"{side}_px"] = _negated(one[f"{other}_px"])
            image[f"{side}_sz"], image[f"{side}_ct"] = one[f"{other}_sz"], one[f"{other}_ct"]
        image["trades"] = [(-price, size, -aggressor) for price, size, aggressor in one["trades"]]
        images.append(image)
    return images


def test_every_feature_of_the_catalogue_has_a_parity():
    assert set(FEATURE_NAMES) == ODD | EVEN
    assert not ODD & EVEN
    assert parity(FEATURE_NAMES).shape == (40,)


def test_features_and_labels_of_the_mirrored_market_are_the_mirrored_features_and_labels():
    events = random_market(3, 600)
    config = FeatureConfig(sampler=SamplerConfig(n=3))
    day, image = compute_day(*tables(events), config), compute_day(*tables(mirrored(events)), config)
    signs = parity(FEATURE_NAMES).numpy()
    features = day.columns["features"].reshape(-1, 40)
    assert len(features) > 100
    np.testing.assert_allclose(
        image.columns["features"].reshape(-1, 40), features * signs, rtol=1e-5, atol=1e-5
    )
    odd = features[:, signs < 0]
    assert (np.abs(odd).max(0) > 0).all(), "a feature that is always 0 would pass with any parity"
    assert (np.abs(features[:, signs > 0]).max(0) > 0).all()
