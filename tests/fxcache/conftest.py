"""Small days to cache; the random markets are those of the feature tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "features"))

from fx_tables import random_market, tables

from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fxcache.build import build_day

SOURCES = {"day.dbn.zst": "00ff"}


@pytest.fixture(scope="session")
def market_tables():
    return tables(random_market(5, 400))


@pytest.fixture
def build(market_tables):
    """Builds a day's file with chosen changes."""

    def run(out, **changes):
        snapshots, trades = changes.pop("tables", market_tables)
        options = {"day": "2024-07-23", "instrument": "demo", "features": FeatureConfig(warmup_rows=20)}
        return build_day(snapshots, trades, out=out, **{"source_digests": SOURCES} | options | changes)

    return run


@pytest.fixture
def cached(build, tmp_path):
    """Path of a built day."""
    return build(tmp_path / "2024-07-23.fxcache").path
