"""Assembles good events: books whose state is 0, with every trade attached to the event that first shows it.

A snapshot is good when its book_state is 0. Other snapshots are never decision points, and enter no flow,
label or fill; their trades go to the next good event of the same segment, or are counted as dropped when
there is none.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alpha_core.errors import DataError
from alpha_core.shapes import LEVELS, UNDEFINED_TICKS
from alpha_pipeline.features.tables import TradeFeed, Trades, lots, nanoseconds, ticks

BID_PX, ASK_PX, BID_SZ, ASK_SZ = range(4)


class Prints(NamedTuple):
    """A block's trades as compiled code takes them.

    Attributes:
        price: [T] int32 ticks.
        size: [T] int64 lots.
        side: [T] int8, +1 buy aggressor, -1 sell aggressor, 0 unknown.
        start: [M + 1] int64; event j has trades start[j] .. start[j + 1].
    """

    price: NDArray[np.int32]
    size: NDArray[np.int64]
    side: NDArray[np.int8]
    start: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class EventBlock:
    """Consecutive good events.

    Attributes:
        ts: [M] int64, ts_recv in ns.
        ts_event: [M] int64 ns.
        segment: [M] int32.
        first: [M] bool, whether the event opens its segment.
        start: number of good events of the day before this block.
        book: [M, 10, 4] int32, per level (bid price, ask price, bid size, ask size); an absent level has
            price UNDEFINED_TICKS and size 0.
        orders: [M, 10, 2] int32, order counts (bid, ask), to be ignored where the size is 0.
        trades: the block's trades in event order.
        trade_start: [M + 1] int64; event j has trades trade_start[j] .. trade_start[j + 1].
    """

    ts: NDArray[np.int64]
    ts_event: NDArray[np.int64]
    segment: NDArray[np.int32]
    first: NDArray[np.bool_]
    start: int
    book: NDArray[np.int32]
    orders: NDArray[np.int32]
    trades: Trades
    trade_start: NDArray[np.int64]

    @property
    def size(self) -> int:
        return len(self.ts)

    @property
    def mid2(self) -> NDArray[np.int32]:
        """[M] int32, the mid in half ticks."""
        return self.book[:, 0, BID_PX] + self.book[:, 0, ASK_PX]

    @property
    def prints(self) -> Prints:
        """The trades, and which event has which."""
        return Prints(self.trades.price, self.trades.size, self.trades.side, self.trade_start)


class EventAssembler:
    """Turns snapshot batches into event blocks; what it yields does not depend on where batches are cut.

    Attributes:
        snapshots: snapshots seen so far, good or not.
        events: good ones among them.
        dropped_trades: trades after the last good event of their segment.
    """

    def __init__(self, trades: TradeFeed) -> None:
        self.snapshots = 0
        self.events = 0
        self.dropped_trades = 0
        self._feed = trades
        self._waiting = Trades.none()
        self._last_segment: int | None = None
        self._last_good: tuple[int, int] | None = None

    def push(self, batch: pa.RecordBatch) -> EventBlock:
        """The good events of the next snapshots.

        Args:
            batch: rows with the columns KEY_COLUMNS and BOOK_COLUMNS, following those pushed before.

        Raises:
            DataError: segments or, inside a segment, times of good snapshots run backwards.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        good = np.flatnonzero(columns["book_state"].to_numpy() == 0)
        segment = np.array(columns["segment"].to_numpy(), np.int32)
        self._check_segments(segment)
        trades, trade_start = self._attach(segment, good)
        ts = nanoseconds(columns["ts_recv"], "ts_recv")[good]
        first = self._mark_first(ts, segment[good])
        book, orders = _decode_book(columns, good, self.snapshots)
        self._check_touch(book)
        block = EventBlock(
            ts=ts,
            ts_event=nanoseconds(columns["ts_event"], "ts_event")[good],
            segment=segment[good],
            first=first,
            start=self.events,
            book=book,
            orders=orders,
            trades=trades,
            trade_start=trade_start,
        )
        self.snapshots += len(segment)
        self.events += block.size
        return block

    def finish(self) -> None:
        """Settles trades that no good event followed.

        Raises:
            DataError: a trade points beyond the last snapshot.
        """
        rest = self._feed.rest()
        if len(rest):
            raise DataError(
                f"trades.snapshot_row was {rest.row[-1]}, must be below the {self.snapshots} snapshots; "
                "ingest the day again"
            )
        self.dropped_trades += len(self._waiting)
        self._waiting = Trades.none()

    def _check_segments(self, segment: NDArray[np.int32]) -> None:
        before = segment[:1] if self._last_segment is None else np.int32(self._last_segment)
        if (np.diff(segment, prepend=before) < 0).any():
            raise DataError(
                f"segment decreases after snapshot {self.snapshots}, must never do; ingest the day again"
            )

    def _mark_first(self, ts: NDArray[np.int64], segment: NDArray[np.int32]) -> NDArray[np.bool_]:
        first = np.ones(len(ts), np.bool_)
        if not len(ts):
            return first
        first[1:] = segment[1:] != segment[:-1]
        backwards = np.zeros(len(ts), np.bool_)
        backwards[1:] = ts[1:] < ts[:-1]
        if self._last_good is not None:
            first[0] = self._last_good[0] != segment[0]
            backwards[0] = ts[0] < self._last_good[1]
        if (backwards & ~first).any():
            raise DataError(
                f"ts_recv decreases at good snapshot {self.events + int(np.argmax(backwards & ~first))}, "
                "must not do so inside a segment; ingest the day again"
            )
        self._last_good = (int(segment[-1]), int(ts[-1]))
        return first

    def _check_touch(self, book: NDArray[np.int32]) -> None:
        bid, ask = book[:, 0, BID_PX], book[:, 0, ASK_PX]
        wrong = (bid >= ask) | (bid == UNDEFINED_TICKS)
        if wrong.any():
            raise DataError(
                f"good snapshot {self.events + int(np.argmax(wrong))} has an empty, locked or crossed touch, "
                "book_state must then not be 0; ingest the day again"
            )

    def _attach(
        self, segment: NDArray[np.int32], good: NDArray[np.int64]
    ) -> tuple[Trades, NDArray[np.int64]]:
        """Trades by good event of this batch; keeps back those whose next good event is still to come."""
        trades = self._waiting + self._feed.until(self.snapshots + len(segment))
        local = trades.row - self.snapshots
        waiting = -1 if self._last_segment is None else self._last_segment
        home = np.where(local < 0, waiting, segment[np.maximum(local, 0)]) if len(segment) else local
        event = np.searchsorted(good, local)
        padded = np.append(segment[good], np.int32(-1)) if len(good) else np.full(1, -1, np.int32)
        attached = (event < len(good)) & (padded[event] == home)
        if len(segment):
            self._last_segment = int(segment[-1])
        pending = (event == len(good)) & (home == self._last_segment)
        self._waiting = trades.take(np.flatnonzero(pending)) if len(segment) else trades
        self.dropped_trades += int((~attached & ~pending).sum()) if len(segment) else 0
        counts = np.bincount(event[attached], minlength=len(good))
        trade_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        return trades.take(np.flatnonzero(attached)), trade_start


def _decode_book(
    columns: dict[str, pa.Array], good: NDArray[np.int64], row: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    book = np.empty((len(good), LEVELS, 4), np.int32)
    orders = np.empty((len(good), LEVELS, 2), np.int32)
    keep = slice(None) if len(good) == len(columns["segment"]) else good
    absent = False
    for side, (px, sz) in {"bid": (BID_PX, BID_SZ), "ask": (ASK_PX, ASK_SZ)}.items():
        for level in range(LEVELS):
            prices, sizes, counts = (f"{side}_{kind}_{level:02d}" for kind in ("px", "sz", "ct"))
            absent = absent or columns[prices].null_count > 0
            book[:, level, px] = ticks(columns[prices], f"snapshots.{prices}", row)[keep]
            book[:, level, sz] = lots(columns[sizes], f"snapshots.{sizes}", row)[keep]
            orders[:, level, px] = lots(columns[counts], f"snapshots.{counts}", row)[keep]
    if absent:
        hole = book[:, :, BID_PX : ASK_PX + 1] == UNDEFINED_TICKS
        book[:, :, BID_SZ:][hole] = 0
    return book, orders
