"""Runs a day, or a live feed, through all trackers: events in, rows with features and tape out."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alpha_core.market.data import TAPE_WIDTH
from alpha_core.shapes import FEATURES, LEVELS
from alpha_pipeline.features.bars import IntervalTracker, make_sampler
from alpha_pipeline.features.catalogue import compute
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.features.dynamics import DynamicsTracker
from alpha_pipeline.features.events import EventAssembler, EventBlock
from alpha_pipeline.features.labels import Labels, compute_labels
from alpha_pipeline.features.order_flow import FLOWS, FlowTracker
from alpha_pipeline.features.rows import Rows
from alpha_pipeline.features.tables import BLOCK_ROWS, BOOK_COLUMNS, KEY_COLUMNS, iter_batches, read_trades
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
        duration = np.ascontiguousarray(interval[:, 5])
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


@dataclass(frozen=True, kw_only=True)
class Day:
    """All rows of one day as arrays; column names and meaning as in the cache
    (`alpha_pipeline.fxcache.format`).

    Attributes:
        columns: ts, ts_event, segment, event_index, features, mid2, last_trade, raw_open, mid_open,
            duration_ns, book [R, 40], tape.
        present: for the nullable columns last_trade and raw_open, [R] bool.
        labels: change of the mid over each horizon.
        counts: snapshots, good_snapshots, rows, segments, trades, dropped_trades.
    """

    columns: dict[str, NDArray]
    present: dict[str, NDArray[np.bool_]]
    labels: Labels
    counts: dict[str, int]


def compute_day(
    snapshots: pa.Table | Path,
    trades: pa.Table | Path,
    config: FeatureConfig,
    *,
    batch_rows: int = BLOCK_ROWS,
) -> Day:
    """Computes every column of a day's cache from nothing but that day's tables.

    Args:
        snapshots: canonical snapshot table or its Arrow IPC file, which is memory-mapped.
        trades: trade tape table or its file.
        config: sampler and smoothing.
        batch_rows: snapshots handled at once; changes memory, never values.

    Raises:
        InputError: a file is unreadable or lacks a column.
        DataError: values out of range, or out of order.
    """
    tape = read_trades(trades)
    assembler = EventAssembler(tape)
    table = _Table(_count_good(snapshots))
    stream, tapes = RowStream(config), TapeTracker()
    for batch in iter_batches(snapshots, (*KEY_COLUMNS, *BOOK_COLUMNS), batch_rows):
        block = assembler.push(batch)
        rows, marks = stream.push(block)
        table.append(_row_columns(rows))
        table.append({"tape": tapes.push(block, marks), "good_mid2": block.mid2})
        table.append({"starts": block.start + np.flatnonzero(block.first)})
    assembler.finish()
    table.append({"tape": tapes.finish()})
    return _finish(
        table.columns(),
        {
            "snapshots": assembler.snapshots,
            "good_snapshots": assembler.events,
            "trades": len(tape.row),
            "dropped_trades": assembler.dropped_trades,
        },
    )


def _count_good(snapshots: pa.Table | Path) -> int:
    batches = iter_batches(snapshots, ("book_state",), 1 << 20)
    return sum(int(np.count_nonzero(batch.column(0).to_numpy() == 0)) for batch in batches)


def _finish(columns: dict[str, NDArray], counts: dict[str, int]) -> Day:
    starts = columns.pop("starts")
    labels = compute_labels(columns.pop("good_mid2"), starts, columns["event_index"])
    present = {name: columns.pop(f"has_{name}") for name in ("last_trade", "raw_open")}
    counts = counts | {"rows": len(columns["ts"]), "segments": len(starts)}
    return Day(columns=columns, present=present, labels=labels, counts=counts)


class _Table:
    """Columns that grow inside room for one row per good event; room that is never used costs no memory."""

    WIDTHS: ClassVar[dict[str, int]] = {"features": FEATURES, "book": 4 * LEVELS, "tape": TAPE_WIDTH}
    KINDS: ClassVar[dict[type, tuple[str, ...]]] = {
        np.int64: ("ts", "ts_event", "event_index", "duration_ns", "starts"),
        np.int32: ("segment", "mid2", "last_trade", "raw_open", "mid_open", "book", "tape", "good_mid2"),
        np.float32: ("features",),
        np.bool_: ("has_last_trade", "has_raw_open"),
    }

    def __init__(self, room: int) -> None:
        self._room = {
            name: np.empty((room, self.WIDTHS[name]) if name in self.WIDTHS else room, kind)
            for kind, names in self.KINDS.items()
            for name in names
        }
        self._used = dict.fromkeys(self._room, 0)

    def append(self, parts: dict[str, NDArray]) -> None:
        for name, values in parts.items():
            end = self._used[name] + len(values)
            self._room[name][self._used[name] : end] = values
            self._used[name] = end

    def columns(self) -> dict[str, NDArray]:
        return {name: self._room[name][:used] for name, used in self._used.items()}


def _row_columns(rows: Rows) -> dict[str, NDArray]:
    interval = dict(zip(IntervalTracker.COLUMNS, rows.interval.T, strict=True))
    return {
        "ts": rows.ts,
        "ts_event": rows.ts_event,
        "segment": rows.segment,
        "event_index": rows.event_index,
        "features": compute(rows),
        "mid2": rows.mid2,
        "last_trade": interval["last_trade"],
        "has_last_trade": interval["has_last"],
        "raw_open": interval["raw_open"],
        "has_raw_open": interval["has_open"],
        "mid_open": interval["mid_open"],
        "duration_ns": interval["duration_ns"],
        "book": rows.book.reshape(rows.size, 4 * LEVELS),
    }
