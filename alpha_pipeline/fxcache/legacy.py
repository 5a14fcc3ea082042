"""Views of older format versions. Each reader fills in what its version lacks, and says so.

Version 1 holds ts, segment, event_index, features (without order flow), mid2, last_trade and labels. Version
2 adds the order-flow features. Version 3 adds ts_event, raw_open, mid_open, duration_ns, book and tape, and
the features book aggression and log1p duration. Version 4 adds what else a bar says. The header names the
feature columns of every version; a feature that a file lacks reads as zeros.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alpha_pipeline.features.columns import LABELS
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache.format import Header


@dataclass(frozen=True, kw_only=True)
class DayView:
    """Columns of a day as numpy arrays.

    Attributes:
        columns: values by column name, views of the file where the version has the column.
        nullable: the Arrow columns that may hold nulls.
        feature_names: names of the columns of `features`.
        filled: presence [R] bool of nullable columns that the version lacks.
        degraded: what was filled in, one sentence each.
    """

    columns: dict[str, NDArray[Any]]
    nullable: dict[str, pa.Array]
    feature_names: tuple[str, ...]
    filled: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()

    def present(self, name: str) -> NDArray[np.bool_]:
        """[R] bool, which values of a nullable column are there."""
        return self.filled[name] if name in self.filled else layout.decode_present(self.nullable[name])


def view_v1(batch: pa.RecordBatch, header: Header) -> DayView:
    """Version 1: order-flow features read as zeros, opens come from the previous close."""
    return _view(batch, header, "order-flow features are zeros")


def view_v2(batch: pa.RecordBatch, header: Header) -> DayView:
    """Version 2: raw_open and mid_open come from the previous close (last trade, mid of the row before)."""
    return _view(batch, header)


def view_v3(batch: pa.RecordBatch, header: Header) -> DayView:
    """Version 3: everything but the bar's high, low, volume, notional, trades and signed volume."""
    columns = {n: layout.decode_column(c) for n, c in zip(batch.schema.names, batch.columns, strict=True)}
    return DayView(
        columns=columns,
        nullable={name: batch.column(name) for name in ("last_trade", "raw_open", *LABELS)},
        feature_names=header.feature_names,
        degraded=("high, low, volume, notional, trades and signed_volume are absent",),
    )


def _view(batch: pa.RecordBatch, header: Header, *notes: str) -> DayView:
    columns = {n: layout.decode_column(c) for n, c in zip(batch.schema.names, batch.columns, strict=True)}
    nullable = {name: batch.column(name) for name in ("last_trade", *LABELS)}
    features, names, lacking = _widen(columns["features"], header.feature_names)
    first = np.ones(batch.num_rows, np.bool_)
    first[1:] = columns["segment"][1:] != columns["segment"][:-1]
    raw_open = _previous(columns["last_trade"], first)
    has_open = _previous(layout.decode_present(nullable["last_trade"]), first) & ~first
    filled = {
        "features": features,
        "ts_event": columns["ts"],
        "raw_open": np.where(has_open, raw_open, 0).astype(np.int32),
        "mid_open": _previous(columns["mid2"], first),
        "duration_ns": columns["ts"] - _previous(columns["ts"], first),
    }
    return DayView(
        columns=columns | filled,
        nullable=nullable,
        feature_names=names,
        filled={"raw_open": has_open},
        degraded=(
            *notes,
            f"features {', '.join(lacking)} are zeros",
            "raw_open and mid_open are the previous close, ts_event is ts, book, tape and bars are absent",
        ),
    )


def _previous(values: NDArray[Any], first: NDArray[np.bool_]) -> NDArray[Any]:
    """The value of the row before; a segment's first row keeps its own."""
    shifted = np.concatenate([values[:1], values[:-1]])
    return np.where(first, values, shifted)


def _widen(
    values: NDArray[np.float32], names: tuple[str, ...]
) -> tuple[NDArray[np.float32], tuple[str, ...], list[str]]:
    """Old features in today's columns, today's names, and those that the file lacks."""
    from alpha_pipeline.features.catalogue import FEATURE_NAMES

    wide = np.zeros((len(values), len(FEATURE_NAMES)), np.float32)
    place = {name: k for k, name in enumerate(names)}
    for column, name in enumerate(FEATURE_NAMES):
        if name in place:
            wide[:, column] = values[:, place[name]]
    return wide, FEATURE_NAMES, [name for name in FEATURE_NAMES if name not in place]
