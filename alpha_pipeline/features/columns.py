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
        width: values a row, None for a plain column.
        present: name of the [R] bool column that says where it holds a value, None when it always does.
    """

    name: str
    kind: type[Any]
    width: int | None = None
    present: str | None = None

    def empty(self) -> NDArray[Any]:
        """No rows of it."""
        return np.empty((0, self.width) if self.width else 0, self.kind)


TAPE_COLUMNS = 22
"""`alpha_core.market.data.TAPE_WIDTH`, which would bring torch along."""

LABELS = tuple(f"label_{h}" for h in HORIZONS)

COLUMNS: tuple[Column, ...] = (
    Column("ts", np.int64),
    Column("ts_event", np.int64),
    Column("segment", np.int32),
    Column("event_index", np.int64),
    Column("features", np.float32, FEATURES),
    Column("mid2", np.int32),
    Column("last_trade", np.int32, present="has_last_trade"),
    Column("raw_open", np.int32, present="has_trades"),
    Column("mid_open", np.int32),
    Column("duration_ns", np.int64),
    Column("high", np.int32, present="has_trades"),
    Column("low", np.int32, present="has_trades"),
    Column("volume", np.int64),
    Column("notional", np.int64),
    Column("trades", np.int32),
    Column("signed_volume", np.int64),
    *(Column(name, np.int32, present=f"has_{name}") for name in LABELS),
    Column("book", np.int32, 4 * LEVELS),
    Column("tape", np.int32, TAPE_COLUMNS),
)
"""`ts` and `ts_event` are ns since 1970 UTC; prices ticks, mids and labels half ticks, sizes lots, `notional`
ticks times lots; `mid2` is the mid at the row, `mid_open` at the row before."""

PRESENCES: tuple[str, ...] = tuple(dict.fromkeys(c.present for c in COLUMNS if c.present))
