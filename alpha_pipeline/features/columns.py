"""The columns of a cached row, in file order: the one place that knows their names, kinds and widths."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alpha_core.shapes import FEATURES, HORIZONS, LEVELS


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: as in the cache.
        kind: numpy type of a value.
        meaning: with its unit.
        width: values a row, None for a plain column.
        present: name of the [R] bool column that says where it holds a value, None when it always does.
    """

    name: str
    kind: type[Any]
    meaning: str
    width: int | None = None
    present: str | None = None

    def empty(self) -> NDArray[Any]:
        """No rows of it."""
        return np.empty((0, self.width) if self.width else 0, self.kind)


TAPE_COLUMNS = 22
"""`alpha_core.market.data.TAPE_WIDTH`, which would bring torch along."""

LABELS = tuple(f"label_{h}" for h in HORIZONS)
SINCE = "since the previous row"

COLUMNS: tuple[Column, ...] = (
    Column("ts", np.int64, "receive time, ns since 1970 UTC"),
    Column("ts_event", np.int64, "exchange time, ns since 1970 UTC"),
    Column("segment", np.int32, "uninterrupted stretch of the day"),
    Column("event_index", np.int64, "index among the day's good snapshots"),
    Column("features", np.float32, "the features below, in their order", FEATURES),
    Column("mid2", np.int32, "bid + ask: the mid in half ticks, of a bar its mid_close"),
    Column(
        "last_trade",
        np.int32,
        "last trade price of the segment, ticks; of a bar its close",
        None,
        "has_last_trade",
    ),
    Column("raw_open", np.int32, f"first trade price {SINCE}, ticks", None, "has_trades"),
    Column("mid_open", np.int32, "mid at the previous row, half ticks"),
    Column("duration_ns", np.int64, f"time {SINCE}, ns"),
    Column("high", np.int32, f"highest trade price {SINCE}, ticks", None, "has_trades"),
    Column("low", np.int32, f"lowest trade price {SINCE}, ticks", None, "has_trades"),
    Column("volume", np.int64, f"lots traded {SINCE}"),
    Column("notional", np.int64, f"sum of price in ticks times lots {SINCE}; over volume the VWAP"),
    Column("trades", np.int32, f"number of trades {SINCE}"),
    Column("signed_volume", np.int64, f"lots bought minus lots sold by aggressors {SINCE}"),
    *(
        Column(name, np.int32, f"change of the mid over {h} good snapshots, half ticks", None, f"has_{name}")
        for name, h in zip(LABELS, HORIZONS, strict=True)
    ),
    Column(
        "book", np.int32, "ten levels of bid price, ask price (ticks), bid size, ask size (lots)", 4 * LEVELS
    ),
    Column("tape", np.int32, "what trades and cancels do until the next row", TAPE_COLUMNS),
)
"""A segment's first row has no interval: it opens with its own mid and nothing is traded in it."""

PRESENCES: tuple[str, ...] = tuple(dict.fromkeys(c.present for c in COLUMNS if c.present))
