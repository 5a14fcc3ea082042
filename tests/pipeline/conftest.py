"""A tiny market whose days are built once; tests spoil copies of it."""

import pytest
import tiny_market

from alpha_pipeline.paths import Workspace


@pytest.fixture(scope="session")
def built_market(tmp_path_factory) -> Workspace:
    """Three days of raw files, and every stage published from them. Not to be changed."""
    workspace = tiny_market.make_workspace(tmp_path_factory.mktemp("market"), days=3)
    for index in range(3):
        tiny_market.build_day(workspace, tiny_market.day(index))
    tiny_market.publish_whole(workspace)
    return workspace


@pytest.fixture
def market(built_market, tmp_path) -> Workspace:
    """A copy of it to change."""
    return tiny_market.copy_of(built_market, tmp_path / "market")
