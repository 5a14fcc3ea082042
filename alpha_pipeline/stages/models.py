"""How stages hand fitted models to one another: which files they are, and how they are opened again."""

import json
from dataclasses import dataclass

from torch import Tensor

from alpha_core.errors import DataError
from alpha_core.market.data import MarketData
from alpha_core.training.perception import PerceptionFit, load_perception
from alpha_pipeline.evaluation.baseline import BaselineStats
from alpha_pipeline.evaluation.lockstep import Backtest
from alpha_pipeline.evaluation.splits import RowRange, before_oos
from alpha_pipeline.fills.coefficients import load_fill_model
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.research.fitting import alpha_of, backtest_on
from alpha_pipeline.research.rows import Rows, join
from alpha_pipeline.stages import fxcache
from alpha_pipeline.stages.base import Days, Scope, StageContext

FILL_FILE = "fill_coeffs.json"
BASELINE_FILE = "baseline.json"
PERCEPTION_FOLDER = "perception"
POLICY_FOLDER = "policy"


@dataclass(frozen=True, kw_only=True)
class InSample:
    """The in-sample days and the two parts that the final fit uses."""

    rows: Rows
    train: RowRange
    validation: RowRange


def load_rows(scope: Scope, which: Days) -> Rows:
    """Open the cached days of one part of the sample.

    Raises:
        DataError: a day was built by other code or settings than today's; mixing versions is refused.
    """
    days = scope.days(which)
    artifacts = [scope.store.get("fxcache", day) for day in days]
    current = fxcache.version(scope.config)
    stale = [a.partition for a in artifacts if a.stamp.code != current]
    if stale:
        raise DataError(
            f"the cache of {', '.join(stale)} was built by another version: rebuild it first (`alpha run`)"
        )
    return join([open_day(a.path / fxcache.FILE, verify="fast") for a in artifacts], days)


def in_sample(scope: Scope) -> InSample:
    """Open the in-sample days, split as the final fit splits them."""
    rows = load_rows(scope, Days.IN_SAMPLE)
    train, validation = before_oos(rows.line, scope.config.walk_forward)
    return InSample(rows=rows, train=train, validation=validation)


def perception_of(context: StageContext) -> PerceptionFit:
    """The published perception."""
    return load_perception(context.upstream("perception_model") / PERCEPTION_FOLDER)


def market_with_alpha(context: StageContext, rows: Rows) -> MarketData:
    """Rows as the policy sees them: through the published perception."""
    alpha: Tensor = alpha_of(perception_of(context), rows, context.config)
    return rows.market.with_alpha(alpha)


def published_backtest(context: StageContext, rows: Rows) -> Backtest:
    """An environment over rows with the published perception and fill model."""
    fills = load_fill_model(context.upstream("fill_model") / FILL_FILE)
    return backtest_on(market_with_alpha(context, rows), fills, context.config)


def baseline_of(context: StageContext) -> BaselineStats:
    """The published random baseline."""
    return BaselineStats.from_dict(
        json.loads((context.upstream("random_baseline") / BASELINE_FILE).read_text())
    )
