"""From records to rows: one snapshot at each event's end, one trade per T record. Integers throughout.

A record ends an event when its flag LAST is set; the records before it fold into that event. A trade record
shows the book before the trade, so its own first level is the touch that the trade met. A record that would show
a price between two ticks in a table is left out.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from alpha_core.errors import InputError
from alpha_pipeline.ingest.event_columns import (
    RECV,
    move_trades,
    snapshot_batch,
    snapshot_columns,
    trade_batch,
    trade_columns,
)
from alpha_pipeline.ingest.records import ACTIONS, SIDES, words
from alpha_pipeline.ingest.segments import Stretches
from alpha_pipeline.ingest.tables import SNAPSHOTS, TRADES

TRADE = ord("T")
GOOD, EMPTY_SIDE, LOCKED, CROSSED, SUSPECT, CLOSED = range(6)
"""Values of `book_state`: `SUSPECT` books are marked as possibly wrong by their source, `CLOSED` ones lie
outside of any session. Only `GOOD` ones can be decided on, whatever a bad one looks like."""

STATE_NAMES = ("good", "one-sided", "locked", "crossed", "suspect", "outside of any session")

BATCH_ROWS = 16384
"""Rows of a batch: few enough to be still in the processor's cache when they are written."""


def _letter_index(letters: str) -> np.ndarray:
    table = np.full(256, -1, dtype=np.int8)
    table[[ord(letter) for letter in letters]] = np.arange(len(letters), dtype=np.int8)
    return table


ACTION_INDEX = _letter_index(ACTIONS)
SIDE_INDEX = _letter_index(SIDES)
AGGRESSOR = np.zeros(256, dtype=np.int8)
AGGRESSOR[ord("B")], AGGRESSOR[ord("A")] = 1, -1


class EventFolder:
    """Turns chunks of one instrument's records into batches of the two tables.

    What is in which batch depends on the records only, not on how they are cut into chunks. A batch shares memory
    with the folder and holds until the next one of the same table has been taken.

    Attributes:
        times: receive times of the first and the last snapshot taken, None before.
    """

    def __init__(self, tick_nanos: int, max_event_records: int, label: str) -> None:
        """`label` names the input in errors."""
        from alpha_pipeline.ingest import event_kernel

        self._kernel = event_kernel
        self._grid = event_kernel.Grid.of(tick_nanos)
        self._max_event_records = max_event_records
        self._label = label
        self._progress = np.zeros(event_kernel.COUNTERS, dtype=np.int64)
        self._progress[[event_kernel.SEGMENT, event_kernel.EPOCH]] = -1
        self._snapshots, self._other_snapshots = snapshot_columns(BATCH_ROWS), snapshot_columns(BATCH_ROWS)
        self._trade_rows = BATCH_ROWS
        self._trades, self._other_trades = trade_columns(BATCH_ROWS), trade_columns(BATCH_ROWS)
        self.times: tuple[int, int] | None = None

    @property
    def snapshots(self) -> int:
        """Rows of the snapshot table so far."""
        return int(self._progress[self._kernel.SNAPSHOTS])

    @property
    def trades(self) -> int:
        """Rows of the trade tape so far."""
        return int(self._progress[self._kernel.TRADES])

    @property
    def trades_without_price(self) -> int:
        """Trade records that say no price and so are in no tape."""
        return int(self._progress[self._kernel.PRICELESS])

    @property
    def segments(self) -> int:
        """Number of segments so far."""
        return int(self._progress[self._kernel.SEGMENT]) + 1

    @property
    def skipped(self) -> Counter[str]:
        """Records left out, by reason; those of an event that has not ended are among them."""
        off_grid, unfinished, waiting = self._progress[
            [self._kernel.OFF_GRID, self._kernel.UNFINISHED, self._kernel.OPEN]
        ].tolist()
        return Counter(off_tick=off_grid, unfinished_event=unfinished + waiting)

    def rows_in(self, state: int) -> int:
        """Snapshots so far whose book is in that state."""
        return int(self._progress[self._kernel.STATES + state])

    def push(self, records: np.ndarray, stretches: Stretches) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The batches that the next records fill, each with the name of its table.

        Args:
            records: [n] MBP10_DTYPE.
            stretches: where each of them lies, see Segmenter.

        Raises:
            InputError: an event does not end.
        """
        raw, done = words(records, np.int64), 0
        while True:
            done = self._fold(raw, stretches, done)
            if done == len(raw):
                return
            if self._progress[self._kernel.ROWS] == BATCH_ROWS:
                yield from self._take_snapshots()
            elif self._progress[self._kernel.TAPE]:
                yield from self._take_trades()
            else:
                self._lengthen_trades()

    def finish(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The last batches, not full; what belongs to an event that never ended is in none."""
        if self._progress[self._kernel.ROWS]:
            yield from self._take_snapshots()
        if self._progress[self._kernel.TAPE]:
            yield from self._take_trades()

    def _fold(self, raw: np.ndarray, stretches: Stretches, done: int) -> int:
        done = self._kernel.fold(
            raw,
            stretches.epochs,
            stretches.closed,
            done,
            self._snapshots,
            self._trades,
            (BATCH_ROWS, self._trade_rows),
            self._progress,
            self._grid,
            self._max_event_records,
        )
        if done == self._kernel.TOO_LONG:
            raise InputError(
                f"{self._label} has an event of more than {self._max_event_records} records without the "
                f"end-of-event flag (from sequence {self._progress[self._kernel.OPENED]}): event ends are not "
                "marked there, ask for data that mark them"
            )
        return done

    def _take_snapshots(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        rows = int(self._progress[self._kernel.ROWS])
        recv = self._snapshots.times[RECV]
        self.times = (self.times[0] if self.times else int(recv[0]), int(recv[rows - 1]))
        yield SNAPSHOTS, snapshot_batch(self._snapshots, rows)
        self._snapshots, self._other_snapshots = self._other_snapshots, self._snapshots
        self._progress[self._kernel.ROWS] = 0

    def _take_trades(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Trades of ended events; those behind them move to the other columns, free now that the batch is taken."""
        rows, pending = self._progress[[self._kernel.TAPE, self._kernel.PENDING]].tolist()
        yield TRADES, trade_batch(self._trades, rows)
        move_trades(self._trades, slice(rows, rows + pending), self._other_trades)
        self._trades, self._other_trades = self._other_trades, self._trades
        self._progress[self._kernel.TAPE] = 0

    def _lengthen_trades(self) -> None:
        """One event has more trades than the columns have rows."""
        rows = self._trade_rows
        self._trade_rows *= 2
        self._other_trades = trade_columns(self._trade_rows)
        move_trades(self._trades, slice(0, rows), self._other_trades)
        self._trades, self._other_trades = self._other_trades, trade_columns(self._trade_rows)
