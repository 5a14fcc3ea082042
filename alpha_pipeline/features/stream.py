"""Runs a day, or a live feed, through all trackers: events in, rows with features, labels and tape out."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alpha_core.shapes import LEVELS
from alpha_pipeline.features.bars import TIME, IntervalTracker
from alpha_pipeline.features.catalogue import compute
from alpha_pipeline.features.columns import COLUMNS, LABELS, PRESENCES
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.features.dynamics import DynamicsTracker
from alpha_pipeline.features.events import EventAssembler, EventBlock
from alpha_pipeline.features.labels import Labels, LabelTracker
from alpha_pipeline.features.order_flow import FLOWS, FlowTracker
from alpha_pipeline.features.rows import Rows
from alpha_pipeline.features.samplers import make_sampler
from alpha_pipeline.features.tables import BLOCK_ROWS, BOOK_COLUMNS, KEY_COLUMNS, TradeFeed, iter_batches
from alpha_pipeline.features.tape import TapeTracker


class RowStream:
    """Turns event blocks into decision points; its output does not depend on where blocks are cut."""

    def __init__(self, config: FeatureConfig) -> None:
        self._sampler = make_sampler(config.sampler)
        self._flows = FlowTracker()
        self._intervals = IntervalTracker()
        self._dynamics = DynamicsTracker(config)

    def push(self, block: EventBlock) -> tuple[Rows, NDArray[np.bool_]]:
        """The rows of the next events, and [M] bool marking those events."""
        marks = self._sampler.mark(block)
        flows = self._flows.push(block, marks)
        interval = self._intervals.push(block, marks)
        at = np.flatnonzero(marks)
        mid2, first = block.mid2[at], block.first[at]
        duration = np.ascontiguousarray(interval[:, TIME])
        trades = np.ascontiguousarray(flows[:, 2 * FLOWS])
        whole = len(at) == block.size
        rows = Rows(
            ts=block.ts[at],
            ts_event=block.ts_event[at],
            segment=block.segment[at],
            first=first,
            event_index=block.start + at,
            book=block.book if whole else block.book[at],
            orders=block.orders if whole else block.orders[at],
            mid2=mid2,
            interval=interval,
            flows=flows[:, :FLOWS],
            flow_changes=flows[:, FLOWS : 2 * FLOWS],
            dynamics=self._dynamics.push(mid2, first, duration, trades),
        )
        return rows, marks


class ColumnSink(Protocol):
    """Receives columns piece by piece, each in row order; one may be ahead of another."""

    def append(self, name: str, values: NDArray) -> None:
        """The next values [K] or [K, width] of a column."""
        ...


@dataclass(frozen=True, kw_only=True)
class DayCounts:
    """What a day held.

    Attributes:
        counts: snapshots, good_snapshots, rows, segments, trades, dropped_trades.
        ties: valid labels without change, by horizon.
        nulls: labels whose horizon leaves the segment, by horizon.
    """

    counts: dict[str, int]
    ties: dict[int, int]
    nulls: dict[int, int]


def stream_day(
    snapshots: pa.Table | Path,
    trades: pa.Table | Path,
    config: FeatureConfig,
    sink: ColumnSink,
    *,
    batch_rows: int = BLOCK_ROWS,
) -> DayCounts:
    """Computes every column of a day's cache from nothing but that day's tables, in bounded memory.

    The sink gets the columns of `columns.COLUMNS`, integers perhaps wider than there, and those of `PRESENCES`.

    Args:
        snapshots: canonical snapshot table or its Arrow IPC file.
        trades: trade tape table or its file.
        config: sampler and smoothing.
        sink: takes the columns.
        batch_rows: snapshots handled at once; changes memory, never values.

    Raises:
        InputError: a file is unreadable or lacks a column.
        DataError: values out of range, or out of order.
    """
    feed = TradeFeed(trades)
    assembler = EventAssembler(feed)
    stream, tapes, labels = RowStream(config), TapeTracker(), LabelTracker()
    rows_made = segments = 0
    for batch in iter_batches(snapshots, (*KEY_COLUMNS, *BOOK_COLUMNS), batch_rows):
        block = assembler.push(batch)
        rows, marks = stream.push(block)
        _put(sink, _row_columns(rows))
        sink.append("tape", tapes.push(block, marks))
        _put(sink, _label_columns(labels.push(block.mid2, block.first, rows.event_index)))
        rows_made += rows.size
        segments += int(np.count_nonzero(block.first))
    assembler.finish()
    sink.append("tape", tapes.finish())
    _put(sink, _label_columns(labels.finish()))
    counts = {
        "snapshots": assembler.snapshots,
        "good_snapshots": assembler.events,
        "rows": rows_made,
        "segments": segments,
        "trades": feed.count,
        "dropped_trades": assembler.dropped_trades,
    }
    return DayCounts(counts=counts, ties=labels.ties, nulls=labels.nulls)


def _put(sink: ColumnSink, columns: Iterator[tuple[str, NDArray]]) -> None:
    for name, values in columns:
        sink.append(name, values)


def _row_columns(rows: Rows) -> Iterator[tuple[str, NDArray]]:
    for name in ("ts", "ts_event", "segment", "event_index", "mid2"):
        yield name, getattr(rows, name)
    yield "features", compute(rows)
    yield "book", rows.book.reshape(rows.size, 4 * LEVELS)
    interval = dict(zip(IntervalTracker.COLUMNS, rows.interval.T, strict=True))
    yield "has_last_trade", interval.pop("has_last").astype(np.bool_)
    yield "has_trades", interval["trades"] > 0
    yield from interval.items()


def _label_columns(labels: Labels) -> Iterator[tuple[str, NDArray]]:
    for k, name in enumerate(LABELS):
        yield name, labels.change[:, k]
        yield f"has_{name}", labels.valid[:, k]


@dataclass(frozen=True, kw_only=True)
class Day:
    """All rows of one day as arrays in memory, for tests and small experiments.

    Attributes:
        columns: `columns.COLUMNS` and `PRESENCES`.
        labels: change of the mid over each horizon.
        counts: see DayCounts.
    """

    columns: dict[str, NDArray]
    labels: Labels
    counts: dict[str, int]

    @property
    def present(self) -> dict[str, NDArray[np.bool_]]:
        """Presence [R] bool of last_trade and raw_open."""
        return {"last_trade": self.columns["has_last_trade"], "raw_open": self.columns["has_trades"]}


class _Memory:
    """Keeps the pieces of each column."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray]] = {column.name: [column.empty()] for column in COLUMNS}
        self._parts |= {name: [np.empty(0, np.bool_)] for name in PRESENCES}

    def append(self, name: str, values: NDArray) -> None:
        self._parts[name].append(values)

    def columns(self) -> dict[str, NDArray]:
        return {name: np.concatenate(parts).astype(parts[0].dtype) for name, parts in self._parts.items()}


def compute_day(
    snapshots: pa.Table | Path,
    trades: pa.Table | Path,
    config: FeatureConfig,
    *,
    batch_rows: int = BLOCK_ROWS,
) -> Day:
    """`stream_day` with all columns in memory; arguments and errors are the same."""
    memory = _Memory()
    found = stream_day(snapshots, trades, config, memory, batch_rows=batch_rows)
    columns = memory.columns()
    labels = Labels(
        change=np.stack([columns[name] for name in LABELS], axis=1),
        valid=np.stack([columns[f"has_{name}"] for name in LABELS], axis=1),
    )
    return Day(columns=columns, labels=labels, counts=found.counts)
