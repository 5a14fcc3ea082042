"""A real day, a thin book with orders ticks apart: oracle, referee and a fit that is written and read."""

import pytest
import torch
from market_synthetic import some_fill_model
from test_market_oracle import assert_equal_to_the_oracle

from alpha_core.market.config import FillMode, MarketConfig
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fills.coefficients import load_fill_model, write_coefficients
from alpha_pipeline.fills.config import FillConfig
from alpha_pipeline.fills.regression import fit_fill_model
from alpha_pipeline.fxcache import market_data, open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.ingest import SNAPSHOTS, TRADES, ingest_day
from alpha_pipeline.instrument import InstrumentSpec

pytestmark = pytest.mark.real_data

DAY = "2024-07-23"
SPEC = InstrumentSpec(
    name="nexousdt",
    symbols=("NEXOUSDT",),
    tick_size="0.001",
    multiplier=1.0,
    currency="USDT",
    calendar="24/7",
)


@pytest.fixture(scope="module")
def nexo(real_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nexo")
    ingest_day([real_data / "mbp10-derived" / f"NEXOUSDT-{DAY}.mbp-10.dbn.zst"], SPEC, folder)
    cache = folder / f"{DAY}.fxcache"
    build_day(
        folder / SNAPSHOTS,
        folder / TRADES,
        day=DAY,
        instrument="nexousdt",
        features=FeatureConfig(),
        source_digests={},
        out=cache,
    )
    return market_data([open_day(cache)])


@pytest.mark.parametrize("mode", [FillMode.QUEUE, FillMode.POISSON])
def test_the_batched_environment_equals_the_oracle_on_real_rows(nexo, mode):
    rows = nexo.slice(4000, 5500)
    config = MarketConfig(horizon=60, order_size=900, position_limit=5000, post_only=False)
    trace = assert_equal_to_the_oracle(rows, some_fill_model(), config, mode, episodes=12, market_seed=1)
    assert int(trace[-1]["counts"][:, 0].sum()) > 20


def test_a_fit_on_real_rows_agrees_with_its_referee(nexo, tmp_path):
    fit = fit_fill_model(nexo, FillConfig(max_exposures=100_000, referee_orders=5_000))
    assert fit.fitted
    assert fit.coefficients.fills > 150
    assert fit.coefficients.deviance_explained > 0.1
    figures = {check.name: check.figure for check in fit.checks}
    assert 0.8 < figures["fill_agreement"] < 1.2
    # Longer queues fill later, and fills are followed by moves against them: true of every real book.
    assert fit.model.slope[0] < 0
    touch = fit.tables["adverse_selection"].filter(level=1, rows_ahead=10)
    assert touch["difference"].item() < -3 * touch["error_after_fill"].item()
    path = tmp_path / "fill_coeffs.json"
    write_coefficients(fit.coefficients, path)
    assert torch.equal(load_fill_model(path).slope, fit.model.slope)
