"""The referee: hypothetical orders of one lot, replayed row by row through book and tape.

An order joins the back of a level's queue on row t and stays for a number of rows or until it fills, under
the rules of `alpha_core.market.matching`, so that the fitted model and the environment are judged by the
same exchange.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from alpha_core.market.config import FillMode
from alpha_core.market.data import MarketData
from alpha_core.market.fills import FILL_LEVELS, QUEUE_UNKNOWN, FillModel
from alpha_core.market.matching import (
    RestingOrder,
    find_in_ladder,
    met_by_touch,
    passive_lots,
    printed,
    queue_after,
    with_priority,
)
from alpha_core.market.tables import MarketTables, build_tables


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Hypothetical orders.

    Attributes:
        row: [n] int64, row on which the order joins.
        side: [n] int64, 0 bid, 1 ask.
        level: [n] int64, 1..5, level joined at the back of its queue.
    """

    row: NDArray[np.int64]
    side: NDArray[np.int64]
    level: NDArray[np.int64]

    def take(self, index: NDArray[np.int64]) -> "Orders":
        """Some of the orders."""
        return Orders(row=self.row[index], side=self.side[index], level=self.level[index])


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One entry per order and row survived, ordered by age, all [N].

    Attributes:
        order: int64, index of the order.
        row: int64, the interval runs from this row to the next.
        side: int64, 0 bid, 1 ask.
        level: int64, 1 + number of better levels on the row; 6 means beyond level 5.
        queue: int64 lots ahead on the row.
        price: int64 ticks.
        filled: bool, whether the order filled in the interval; it ends there.
    """

    order: NDArray[np.int64]
    row: NDArray[np.int64]
    side: NDArray[np.int64]
    level: NDArray[np.int64]
    queue: NDArray[np.int64]
    price: NDArray[np.int64]
    filled: NDArray[np.bool_]

    @property
    def visible(self) -> NDArray[np.bool_]:
        """[N] bool, whether the fitted levels cover the order's place."""
        return (self.level <= FILL_LEVELS) & (self.queue < QUEUE_UNKNOWN)


def has_next(data: MarketData) -> NDArray[np.bool_]:
    """[R] bool, whether the segment goes on after the row."""
    segment = data.segment.numpy()
    return np.append(segment[1:] == segment[:-1], False)


def replay_orders(
    data: MarketData,
    tables: MarketTables,
    orders: Orders,
    *,
    rows: int,
    mode: int,
    cancel_share_milli: int,
    seed: int = 0,
) -> Replay:
    """Follow each order for `rows` rows, until it fills or its segment ends.

    Args:
        data: the market, on the CPU.
        tables: of that market; with hazards when mode is POISSON.
        orders: where they join; absent levels must have been left out.
        rows: how long an order stays.
        mode: a FillMode.
        cancel_share_milli: thousandths of the cancelled size taken to be ahead.
        seed: of the priorities of the poisson mode.
    """
    goes_on = torch.from_numpy(has_next(data))
    index = torch.arange(len(orders.row))
    row, order = _join(data, tables, orders)
    kept: list[tuple[Tensor, ...]] = []
    for age in range(rows):
        alive = torch.nonzero(goes_on[row] & (order.left > 0)).flatten()
        index, row, order = index[alive], row[alive], _select(order, alive)
        before = order
        draw = (seed, index, torch.tensor(age))
        order = _next_row(tables, row, order, mode=mode, share_milli=cancel_share_milli, draw=draw)
        entry = (index, row, before.side, before.level, before.queue, before.price, order.left == 0)
        kept.append(entry)
        row = row + 1
    index_, row_, side, level, queue, price, filled = (
        torch.cat(part).numpy() for part in zip(*kept, strict=True)
    )
    return Replay(
        order=index_,
        row=row_,
        side=(side < 0).astype(np.int64),
        level=level,
        queue=queue,
        price=price,
        filled=filled,
    )


def _join(data: MarketData, tables: MarketTables, orders: Orders) -> tuple[Tensor, RestingOrder]:
    row, side, level = (torch.from_numpy(part) for part in (orders.row, orders.side, orders.level))
    price = data.book[row, level - 1, side].long()
    blank = RestingOrder.none(row)
    order = replace(blank, side=1 - 2 * side, price=price, left=torch.ones_like(row))
    queue, level = find_in_ladder(tables, row, order)
    return row, replace(order, queue=queue, level=level)


def _next_row(
    tables: MarketTables,
    row: Tensor,
    order: RestingOrder,
    *,
    mode: int,
    share_milli: int,
    draw: tuple[int, Tensor, Tensor],
) -> RestingOrder:
    """One interval: the tape, the touch of the next row, the queue that is left."""
    bid = order.side > 0
    quote, after = tables.quote[row].long(), tables.quote[row + 1].long()
    tape = printed(tables, row, torch.where(bid, quote[:, 0], quote[:, 1]), order)
    if mode == FillMode.POISSON:
        order = with_priority(tables, row, order, draw)
    lots = passive_lots(order, tape, mode)
    far, size = torch.where(bid, after[:, 1], after[:, 0]), torch.where(bid, after[:, 6], after[:, 5])
    left = order.left - lots - met_by_touch(order, far, size, order.left - lots)
    queue, level = find_in_ladder(tables, row + 1, order)
    queue = torch.minimum(queue_after(order, tape, share_milli), queue)
    return replace(order, left=left, queue=queue, level=level)


def _select(order: RestingOrder, index: Tensor) -> RestingOrder:
    return RestingOrder(**{name: getattr(order, name)[index] for name in RestingOrder.__slots__})


def agreement(
    data: MarketData, model: FillModel, orders: Orders, *, rows: int, cancel_share_milli: int, seed: int
) -> pl.DataFrame:
    """Shares of the same orders filled within `rows` rows by the queue replay, by the model and by its
    bounds.

    Returns:
        One row per level and side: orders, the share filled in each mode, the standard error of the
        replayed share (orders on overlapping rows are not independent, so it is a lower bound) and model /
        replay (null when the replay filled none).
    """
    tables = build_tables(data, model)
    columns = {"level": orders.level, "side": np.where(orders.side == 0, "bid", "ask")}
    for mode in FillMode:
        replay = replay_orders(
            data, tables, orders, rows=rows, mode=mode, cancel_share_milli=cancel_share_milli, seed=seed
        )
        filled = np.zeros(len(orders.row), bool)
        filled[replay.order[replay.filled]] = True
        columns[mode.name.lower()] = filled
    return _shares(pl.DataFrame(columns), [mode.name.lower() for mode in FillMode])


def _shares(outcomes: pl.DataFrame, modes: Sequence[str]) -> pl.DataFrame:
    share = pl.col("queue")
    return (
        outcomes.group_by("level", "side")
        .agg(pl.len().alias("orders"), *(pl.col(mode).mean() for mode in modes))
        .sort("level", "side")
        .with_columns(
            (share * (1 - share) / pl.col("orders")).sqrt().alias("queue_error"),
            pl.when(share > 0).then(pl.col("poisson") / share).alias("model_over_replay"),
        )
    )
