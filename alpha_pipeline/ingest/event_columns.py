"""Column buffers of the two tables: filled by the compiled folding, given to Arrow without a copy, used again."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from alpha_core.shapes import LEVELS
from alpha_pipeline.ingest.records import ACTIONS, SIDES, UNDEF_PRICE
from alpha_pipeline.ingest.tables import SNAPSHOT_SCHEMA, TIME, TRADE_SCHEMA

PAD_BYTES = 64
"""Lies between columns. At a distance of a power of two, one row of all columns would meet in few lines of the
processor's cache and push itself out of it."""

EVENT, RECV = range(2)
PRICE, BID, ASK = 0, 1, 1 + LEVELS
BID_SZ, ASK_SZ, BID_CT, ASK_CT = range(0, 4 * LEVELS, LEVELS)
SEQUENCE, INSTRUMENT_ID, SIZE = range(3)
ACTION, SIDE, FLAGS, STATE = range(4)
TOUCH_BID, TOUCH_ASK = 1, 2
"""Columns within a block; the trades' blocks have the first ones of the snapshots' where the names agree."""


class SnapshotColumns(NamedTuple):
    """Rows of the snapshot table, each block [columns, rows and padding].

    Attributes:
        times: int64, ts_event and ts_recv.
        prices: int64 ticks, the event's, bids, asks; UNDEF_PRICE where there is none.
        numbers: uint32, sequence, instrument_id, size.
        sizes: uint32, bid and ask sizes, bid and ask counts.
        bytes: uint8, index of action and of side, flags, book state.
        segments: int32.
    """

    times: np.ndarray
    prices: np.ndarray
    numbers: np.ndarray
    sizes: np.ndarray
    bytes: np.ndarray
    segments: np.ndarray


class TradeColumns(NamedTuple):
    """Rows of the trade tape, each block [columns, rows and padding].

    Attributes:
        times: int64, ts_event and ts_recv.
        prices: int64 ticks, the trade's, best bid, best ask; UNDEF_PRICE where there is none.
        numbers: uint32, sequence, instrument_id (not in the table), size.
        aggressors: int8.
        rows: int64, row of the event in the snapshot table.
        epochs: int64, stretch in which the trade lies (not in the table).
    """

    times: np.ndarray
    prices: np.ndarray
    numbers: np.ndarray
    aggressors: np.ndarray
    rows: np.ndarray
    epochs: np.ndarray


def snapshot_columns(rows: int) -> SnapshotColumns:
    """Buffers of undefined content for so many rows."""
    return SnapshotColumns(
        times=_block(2, rows, np.int64),
        prices=_block(1 + 2 * LEVELS, rows, np.int64),
        numbers=_block(3, rows, np.uint32),
        sizes=_block(4 * LEVELS, rows, np.uint32),
        bytes=_block(4, rows, np.uint8),
        segments=_block(1, rows, np.int32),
    )


def trade_columns(rows: int) -> TradeColumns:
    """Buffers of undefined content for so many rows."""
    return TradeColumns(
        times=_block(2, rows, np.int64),
        prices=_block(3, rows, np.int64),
        numbers=_block(3, rows, np.uint32),
        aggressors=_block(1, rows, np.int8),
        rows=_block(1, rows, np.int64),
        epochs=_block(1, rows, np.int64),
    )


def _block(columns: int, rows: int, kind: type[np.integer]) -> np.ndarray:
    width = np.dtype(kind).itemsize
    return np.empty((columns, rows + PAD_BYTES // width), dtype=kind)


def move_trades(source: TradeColumns, rows: slice, target: TradeColumns) -> None:
    """Copy rows of one set of buffers to the start of another."""
    for theirs, ours in zip(source, target, strict=True):
        ours[:, : rows.stop - rows.start] = theirs[:, rows]


def snapshot_batch(columns: SnapshotColumns, rows: int) -> pa.RecordBatch:
    """The first `rows` rows; the batch shares the buffers' memory."""
    times, prices = _arrays(TIME, columns.times, rows), _prices(columns.prices, rows)
    numbers = _arrays(pa.uint32(), columns.numbers, rows)
    action, side, flags, state = _arrays(pa.uint8(), columns.bytes, rows)
    arrays = [
        *times,
        numbers[SEQUENCE],
        numbers[INSTRUMENT_ID],
        _letters(action, ACTIONS),
        _letters(side, SIDES),
        prices[PRICE],
        numbers[SIZE],
        *prices[BID:],
        *_arrays(pa.uint32(), columns.sizes, rows),
        flags,
        state,
        *_arrays(pa.int32(), columns.segments, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SNAPSHOT_SCHEMA)


def trade_batch(columns: TradeColumns, rows: int) -> pa.RecordBatch:
    """The first `rows` rows; the batch shares the buffers' memory."""
    times, prices = _arrays(TIME, columns.times, rows), _prices(columns.prices, rows)
    numbers = _arrays(pa.uint32(), columns.numbers, rows)
    arrays = [
        *times,
        prices[PRICE],
        numbers[SIZE],
        *_arrays(pa.int8(), columns.aggressors, rows),
        *prices[TOUCH_BID:],
        numbers[SEQUENCE],
        *_arrays(pa.int64(), columns.rows, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=TRADE_SCHEMA)


def _prices(block: np.ndarray, rows: int) -> list[pa.Array]:
    """Columns that are null where no price is defined; no bitmap where all are."""
    return _arrays(pa.int64(), block, rows, [_bitmap(column) for column in block[:, :rows]])


def _bitmap(prices: np.ndarray) -> pa.Buffer | None:
    if prices.max(initial=0) != UNDEF_PRICE:
        return None
    return pa.py_buffer(np.packbits(prices != UNDEF_PRICE, bitorder="little").tobytes())


def _letters(index: pa.Array, letters: str) -> pa.Array:
    """A column of letters by their indices. The dictionary comes from buffers: `pa.array` would import pandas."""
    ends = np.arange(len(letters) + 1, dtype=np.int32)
    names = pa.StringArray.from_buffers(len(letters), pa.py_buffer(ends), pa.py_buffer(letters.encode()))
    return pa.DictionaryArray.from_arrays(index.view(pa.int8()), names, safe=False)


def _arrays(
    kind: pa.DataType, block: np.ndarray, rows: int, bitmaps: Sequence[pa.Buffer | None] | None = None
) -> list[pa.Array]:
    """The columns of a block without their padding."""
    whole, step, size = pa.py_buffer(block.data), block.strides[0], rows * block.itemsize
    return [
        pa.Array.from_buffers(kind, rows, [bitmaps[k] if bitmaps else None, whole.slice(k * step, size)])
        for k in range(len(block))
    ]
