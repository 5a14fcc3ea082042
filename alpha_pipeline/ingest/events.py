"""From records to rows: one snapshot at each event's end, one trade per T record. Integers throughout.

A record ends an event when its flag LAST is set; the records before it fold into that event. A trade record
shows the book before the trade, so its own first level is the touch that the trade met.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from alpha_core.errors import InputError
from alpha_core.shapes import LEVELS
from alpha_pipeline.ingest.records import (
    ACTIONS,
    LENGTH_UNIT,
    MBP10_DTYPE,
    RECORD_BYTES,
    SIDES,
    UNDEF_PRICE,
    Flag,
    codes,
    take,
    words,
)
from alpha_pipeline.ingest.segments import Stretches
from alpha_pipeline.ingest.tables import SNAPSHOT_SCHEMA, TIME, TRADE_SCHEMA

TRADE = ord("T")
GOOD, EMPTY_SIDE, LOCKED, CROSSED, SUSPECT, CLOSED = range(6)
"""Values of `book_state`: `SUSPECT` books are marked as possibly wrong by their source, `CLOSED` ones lie
outside of any session. Only `GOOD` ones can be decided on, whatever a bad one looks like."""

STATE_NAMES = ("good", "one-sided", "locked", "crossed", "suspect", "outside of any session")

LEVEL_OFFSET = RECORD_BYTES - 32 * LEVELS
SIZE_OFFSETS = (16, 20, 24, 28)
"""Where bid_sz, ask_sz, bid_ct and ask_ct lie within a level."""


def _letter_index(letters: str) -> np.ndarray:
    table = np.full(256, -1, dtype=np.int8)
    table[[ord(letter) for letter in letters]] = np.arange(len(letters), dtype=np.int8)
    return table


ACTION_INDEX = _letter_index(ACTIONS)
SIDE_INDEX = _letter_index(SIDES)
AGGRESSOR = np.zeros(256, dtype=np.int8)
AGGRESSOR[ord("B")], AGGRESSOR[ord("A")] = 1, -1


@dataclass(frozen=True)
class Ticks:
    """Prices on the instrument's grid.

    Attributes:
        values: [K, n] int64 ticks; meaningless where undefined.
        undefined: mask [n] bool of each of the K rows that has an undefined price; other rows have no entry.
        off_grid: [n] bool, a defined price lies between two ticks.
    """

    values: np.ndarray
    undefined: Mapping[int, np.ndarray]
    off_grid: np.ndarray

    def is_undefined(self, row: int) -> np.ndarray:
        """Mask [n] of one row."""
        return self.undefined.get(row, np.zeros(self.values.shape[1], dtype=bool))

    def keep(self, mask: np.ndarray) -> "Ticks":
        """The columns where `mask` [n] holds."""
        undefined = {row: gone[mask] for row, gone in self.undefined.items()}
        return Ticks(self.values[:, mask], undefined, self.off_grid[mask])


def to_ticks(nanos: np.ndarray, tick_nanos: int) -> Ticks:
    """Exact division of raw prices by the tick; floor division keeps negative prices on their tick.

    Row by row, so that what is computed in between stays in the processor's cache.

    Args:
        nanos: [K, n] int64, units of 1e-9; its memory is reused for the result.
        tick_nanos: price increment in the same units.
    """
    undefined: dict[int, np.ndarray] = {}
    off_grid = np.zeros(nanos.shape[1], dtype=bool)
    for row, prices in enumerate(nanos):
        values = prices // tick_nanos
        off = values * tick_nanos != prices
        if prices.max(initial=0) == UNDEF_PRICE:
            undefined[row] = prices == UNDEF_PRICE
            off &= ~undefined[row]
        off_grid |= off
        prices[:] = values
    return Ticks(nanos, undefined, off_grid)


def book_prices(records: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Raw prices of [n] records, put into `out` [21, n] int64: the event's, ten bids, ten asks."""
    raw = words(records, np.int64)
    first = LEVEL_OFFSET // 8
    out[0] = records["price"]
    out[1 : 1 + LEVELS] = raw[:, first::4].T
    out[1 + LEVELS :] = raw[:, first + 1 :: 4].T
    return out


def touch_prices(records: np.ndarray) -> np.ndarray:
    """Raw prices [3, n] int64 of [n] records: the event's, best bid, best ask."""
    touch = records["levels"][:, 0]
    return np.stack([records["price"], touch["bid_px"], touch["ask_px"]])


def book_sizes(records: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Sizes of [n] records, put into `out` [40, n] uint32: bid sizes, ask sizes, bid counts, ask counts."""
    raw = words(records, np.uint32)
    for group, offset in enumerate(SIZE_OFFSETS):
        first = (LEVEL_OFFSET + offset) // LENGTH_UNIT
        out[group * LEVELS : (group + 1) * LEVELS] = raw[:, first::8].T
    return out


def book_states(ticks: Ticks, sizes: np.ndarray, flags: np.ndarray, closed: np.ndarray) -> np.ndarray:
    """State [n] uint8 of each book; a side is empty without a price or without a size at the touch.

    Args:
        ticks: prices [21, n] of the event and the levels.
        sizes: [40, n] uint32.
        flags: [n] uint8.
        closed: [n] bool, outside of any session.
    """
    bid, ask = 1, 1 + LEVELS
    suspect = (flags & Flag.MAYBE_BAD_BOOK) != 0
    empty = ticks.is_undefined(bid) | ticks.is_undefined(ask) | (sizes[0] == 0) | (sizes[LEVELS] == 0)
    spread = ticks.values[ask] - ticks.values[bid]
    masks = [closed, suspect, empty, spread < 0, spread == 0]
    return np.select(masks, [CLOSED, SUSPECT, EMPTY_SIDE, CROSSED, LOCKED], default=GOOD).astype(np.uint8)


class _Scratch:
    """Memory that is used again for every chunk: fresh pages would cost more than the work done in them."""

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, int], kind: type[np.integer]) -> np.ndarray:
        """Contiguous array of undefined content, valid until the same name is asked for again."""
        size = shape[0] * shape[1]
        if name not in self._memory or len(self._memory[name]) < size:
            self._memory[name] = np.empty(size, dtype=kind)
        return self._memory[name][:size].reshape(shape)


class EventFolder:
    """Turns chunks of one instrument's records into batches of the two tables.

    What lies behind the last event end of a chunk waits for the next chunk. A batch shares memory with the
    folder and holds until the next call of `push`.

    Attributes:
        snapshots: rows made so far.
        trades: rows of the trade tape made so far.
        trades_without_price: trade records that say no price and so are in no tape.
        skipped: records left out, by reason.
        states: rows by book state.
        segments: number of segments so far.
    """

    def __init__(self, tick_nanos: int, max_event_records: int, label: str) -> None:
        """`label` names the input in errors."""
        self._tick_nanos = tick_nanos
        self._max_event_records = max_event_records
        self._label = label
        self._waiting = np.empty(0, dtype=MBP10_DTYPE)
        self._waiting_in = Stretches.none()
        self._epoch: int | None = None
        self._scratch = _Scratch()
        self.snapshots = 0
        self.trades = 0
        self.trades_without_price = 0
        self.segments = 0
        self.skipped: Counter[str] = Counter()
        self.states: Counter[int] = Counter()

    def push(self, records: np.ndarray, stretches: Stretches) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
        """Snapshot and trade rows that the next records complete, None when they complete no event.

        Args:
            records: [n] MBP10_DTYPE.
            stretches: where each of them lies, see Segmenter.
        """
        if len(self._waiting):
            records = np.concatenate([self._waiting, records])
            stretches = self._waiting_in + stretches
        ends = np.flatnonzero(records["flags"] & Flag.LAST)
        trades = np.flatnonzero(codes(records, "action") == TRADE)
        rows = self._rows(records, ends)
        prices = self._scratch.array("prices", (1 + 2 * LEVELS, len(rows)), np.int64)
        row_ticks = to_ticks(book_prices(rows, prices), self._tick_nanos)
        trade_ticks = to_ticks(touch_prices(take(records, trades)), self._tick_nanos)
        off = np.zeros(len(records), dtype=bool)
        off[ends] = row_ticks.off_grid
        off[trades] |= trade_ticks.off_grid
        if off.any():
            self.skipped["off_tick"] += int(np.count_nonzero(off))
            return self._retry(take(records, np.flatnonzero(~off)), stretches[~off])
        self._wait(records, stretches, int(ends[-1]) + 1 if len(ends) else 0)
        if not len(ends):
            return None
        tape = self._tape(records, stretches.epochs, ends, trades, trade_ticks)
        return self._snapshots(rows, row_ticks, stretches[ends]), tape

    def finish(self) -> None:
        """Count the records of an event that never ended."""
        self.skipped["unfinished_event"] += len(self._waiting)
        self._waiting = self._waiting[:0]

    def _retry(
        self, records: np.ndarray, stretches: Stretches
    ) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
        """The same records without those that lie off the price grid."""
        self._waiting, self._waiting_in = self._waiting[:0], Stretches.none()
        return self.push(records, stretches) if len(records) else None

    def _wait(self, records: np.ndarray, stretches: Stretches, start: int) -> None:
        self._waiting, self._waiting_in = records[start:].copy(), stretches[start:]
        if len(self._waiting) > self._max_event_records:
            raise InputError(
                f"{self._label} has an event of more than {self._max_event_records} records without the "
                f"end-of-event flag (from sequence {self._waiting['sequence'][0]}): event ends are not "
                "marked there, ask for data that mark them"
            )

    def _rows(self, records: np.ndarray, ends: np.ndarray) -> np.ndarray:
        if len(ends) == len(records):
            return records
        out = self._scratch.array("rows", (len(ends), RECORD_BYTES // 8), np.int64)
        return take(records, ends, out)

    def _snapshots(self, rows: np.ndarray, ticks: Ticks, stretches: Stretches) -> pa.RecordBatch:
        sizes = book_sizes(rows, self._scratch.array("sizes", (4 * LEVELS, len(rows)), np.uint32))
        states = book_states(ticks, sizes, rows["flags"], stretches.closed)
        for state, count in enumerate(np.bincount(states)):
            self.states[state] += int(count)
        self.snapshots += len(rows)
        prices = _price_arrays(ticks)
        columns = [
            _times(rows["ts_event"]),
            _times(rows["ts_recv"]),
            _column(rows["sequence"]),
            _column(rows["instrument_id"]),
            _letters(ACTION_INDEX[codes(rows, "action")], ACTIONS),
            _letters(SIDE_INDEX[codes(rows, "side")], SIDES),
            prices[0],
            _column(rows["size"]),
            *prices[1:],
            *_columns(pa.uint32(), sizes),
            _column(rows["flags"]),
            _column(states),
            _column(self._segments(stretches.epochs)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SNAPSHOT_SCHEMA)

    def _segments(self, epochs: np.ndarray) -> np.ndarray:
        """Segment [n] int32 of each row: epochs renumbered without holes."""
        before = epochs[0] if self._epoch is None else self._epoch
        started = np.diff(epochs, prepend=before) != 0
        first = max(self.segments - 1, 0)
        segments = (first + np.cumsum(started)).astype(np.int32)
        self._epoch, self.segments = int(epochs[-1]), int(segments[-1]) + 1
        return segments

    def _tape(
        self, records: np.ndarray, epochs: np.ndarray, ends: np.ndarray, at: np.ndarray, ticks: Ticks
    ) -> pa.RecordBatch:
        """Trades whose event ended; one that a break separates from that end is counted, not kept."""
        event = np.searchsorted(ends, at)
        complete = event < len(ends)
        end = ends[np.minimum(event, len(ends) - 1)]
        lost = complete & (epochs[at] != epochs[end])
        priceless = complete & ~lost & ticks.is_undefined(0)
        self.skipped["unfinished_event"] += int(np.count_nonzero(lost))
        self.trades_without_price += int(np.count_nonzero(priceless))
        keep = complete & ~lost & ~priceless
        trades = take(records, at[keep])
        price, bid, ask = _price_arrays(ticks.keep(keep))
        self.trades += len(trades)
        columns = [
            _times(trades["ts_event"]),
            _times(trades["ts_recv"]),
            price,
            _column(trades["size"]),
            _column(AGGRESSOR[codes(trades, "side")]),
            bid,
            ask,
            _column(trades["sequence"]),
            _column(self.snapshots + event[keep]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=TRADE_SCHEMA)


def _times(stamps: np.ndarray) -> pa.Array:
    return _columns(TIME, stamps.astype(np.int64)[None])[0]


def _column(values: np.ndarray) -> pa.Array:
    return pa.array(np.ascontiguousarray(values))


def _price_arrays(ticks: Ticks) -> list[pa.Array]:
    """One int64 column per row of `ticks`, null where undefined; no bitmap where nothing is."""
    bitmaps = {
        row: pa.py_buffer(np.packbits(~gone, bitorder="little").tobytes())
        for row, gone in ticks.undefined.items()
    }
    return _columns(pa.int64(), ticks.values, bitmaps)


def _letters(index: np.ndarray, letters: str) -> pa.Array:
    return pa.DictionaryArray.from_arrays(index, pa.array(list(letters)))


def _columns(
    kind: pa.DataType, values: np.ndarray, bitmaps: Mapping[int, pa.Buffer] | None = None
) -> list[pa.Array]:
    """Rows of [K, n] integers as K columns that share the memory of one buffer."""
    count, bitmaps = values.shape[1], bitmaps or {}
    whole = pa.py_buffer(np.ascontiguousarray(values).data)
    size = count * values.itemsize
    return [
        pa.Array.from_buffers(kind, count, [bitmaps.get(k), whole.slice(k * size, size)])
        for k in range(len(values))
    ]
