"""What the agent sees: ten float32 numbers, six of the market and four of its own."""

from torch import Tensor

from alpha_core.market.accounting import Account
from alpha_core.market.config import MarketConfig
from alpha_core.market.matching import RestingOrder
from alpha_core.market.tables import MarketTables
from alpha_core.shapes import MICRO

OBSERVATION_NAMES: tuple[str, ...] = (
    "alpha_logit",
    "spread_ticks",
    "position_share",
    "unrealised_scaled",
    "time_left",
    "recent_ofi_log_lots",
    "touch_imbalance",
    "log_volatility_ema",
    "resting_side",
    "microprice_minus_mid_ticks",
)
"""position_share = position / limit. unrealised_scaled = unrealised PnL in ticks x lots, costs left out,
divided by limit x pnl_scale_ticks. time_left = share of the decisions still to come. recent_ofi_log_lots =
sign(x) log1p|x| of the order-flow imbalance at level 1, summed over the segment's last five rows.
resting_side = +1 bid, −1 ask, 0."""


def unrealised_scale(config: MarketConfig) -> float:
    """Factor from micro-ticks x lots to the observed unrealised PnL."""
    return 1.0 / (MICRO * config.position_limit * config.pnl_scale_ticks)


def observation(
    tables: MarketTables,
    *,
    config: MarketConfig,
    row: Tensor,
    step: Tensor,
    mid2: Tensor,
    account: Account,
    order: RestingOrder,
) -> Tensor:
    """The observation in the order of OBSERVATION_NAMES, [E, 10] float32, in storage of its own."""
    seen = tables.view.index_select(0, row)
    seen[:, 2] = account.position.float() * (1.0 / config.position_limit)
    seen[:, 3] = account.unrealised_micro(mid2).float() * unrealised_scale(config)
    seen[:, 4] = (config.horizon - step).float() * (1.0 / config.horizon)
    seen[:, 8] = order.side.float()
    return seen
