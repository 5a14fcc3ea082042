"""Exposures: the time that hypothetical orders spent waiting, row by row, and whether they filled.

One exposure is one interval (row i, row i + 1] in the life of an order that joined the back of a queue,
with its queue ahead and level on row i. An order ends with its fill; leaving the fitted levels, the end of
the segment and `rows_per_order` censor it. A hazard that is constant inside each interval makes the
likelihood of such a life that of independent Poisson counts with offset log(seconds), so the censoring is
accounted for.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from alpha_core.market.config import FillMode
from alpha_core.market.data import MarketData
from alpha_core.market.fills import FILL_LEVELS, row_covariates
from alpha_core.market.tables import MarketTables
from alpha_core.rng import Purpose, seed_for
from alpha_core.shapes import UNDEFINED_TICKS
from alpha_pipeline.fills.config import FillConfig
from alpha_pipeline.fills.referee import Orders, has_next, replay_orders

MIN_SECONDS = 1e-6
"""Rows with equal timestamps are taken to be this far apart: their fills are real and must not be lost."""


@dataclass(frozen=True, kw_only=True)
class Exposures:
    """What the regression is fitted on, all [N].

    Attributes:
        row: int64, the interval runs from this row to the next.
        side: int64, 0 bid, 1 ask.
        level: int64, 1..5.
        price: int64 ticks.
        z: [N, 7] float64 covariates in the order of FILL_COVARIATES.
        seconds: float64, length of the interval, at least MIN_SECONDS.
        filled: bool, the event.
    """

    row: NDArray[np.int64]
    side: NDArray[np.int64]
    level: NDArray[np.int64]
    price: NDArray[np.int64]
    z: NDArray[np.float64]
    seconds: NDArray[np.float64]
    filled: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: NDArray[np.bool_]) -> "Exposures":
        """The exposures where `chosen` [N] is True."""
        return Exposures(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


def sample_orders(data: MarketData, start: int, stop: int, count: int, seed: int) -> Orders:
    """Orders drawn without replacement from all rows of [start, stop), sides and levels 1..5.

    Args:
        data: the market.
        start: first row.
        stop: row after the last one.
        count: orders wanted; fewer when there are not so many.
        seed: of the drawing.

    Returns:
        Orders in the order of their rows; absent levels and rows without a next one are left out.
    """
    book, goes_on = data.book.numpy(), has_next(data)
    row = start + np.flatnonzero(goes_on[start:stop])
    cells = len(row) * FILL_LEVELS * 2
    generator = np.random.default_rng(seed_for(seed, Purpose.EXPOSURE))
    drawn = np.sort(generator.choice(cells, size=min(count, cells), replace=False))
    row, rest = row[drawn // (2 * FILL_LEVELS)], drawn % (2 * FILL_LEVELS)
    level, side = 1 + rest // 2, rest % 2
    present = book[row, level - 1, side] != UNDEFINED_TICKS
    return Orders(row=row[present], side=side[present], level=level[present])


def expose(data: MarketData, tables: MarketTables, orders: Orders, config: FillConfig) -> Exposures:
    """Replay the orders under the queue model and list their exposures on the fitted levels."""
    replay = replay_orders(
        data,
        tables,
        orders,
        rows=config.rows_per_order,
        mode=FillMode.QUEUE,
        cancel_share_milli=round(1000 * config.cancel_ahead_share),
    )
    seen = replay.visible
    row, side, queue = replay.row[seen], replay.side[seen], replay.queue[seen]
    shared = row_covariates(data).numpy()[row, side]
    return Exposures(
        row=row,
        side=side,
        level=replay.level[seen],
        price=replay.price[seen],
        z=np.concatenate([np.log1p(queue)[:, None], shared], axis=1),
        seconds=np.maximum(data.seconds.numpy()[row].astype(np.float64), MIN_SECONDS),
        filled=replay.filled[seen],
    )
