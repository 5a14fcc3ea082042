"""From MBO to MBP-10: every order is followed, and the ten levels are shown as a venue would show them.

One MBP-10 record comes of
    * each trade, with the book before it, and each clear,
    * the last record of an event, when the event has shown one of these or changed what the ten levels show.
The other records are folded into their event: `folded` counts them. What cannot be applied is in `counts`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.order_book import (
    COUNTS,
    LADDER_WORDS,
    ORDER_WORDS,
    OWNER_NOW,
    ROW_WORDS,
    SIDE_COLUMNS,
    STATE_COLUMNS,
    Books,
    fold,
    open_book,
    write_unfinished,
)
from alpha_pipeline.ingest.order_table import new_orders, with_room
from alpha_pipeline.ingest.price_levels import FREE, grown_levels, new_levels
from alpha_pipeline.ingest.records import MBP10_DTYPE

MAX_EVENT_RECORDS = 1 << 16
"""Longest event believed, snapshots apart; beyond it the end-of-event flag is not in use."""

PIECE = 1 << 14
"""Records folded at a time: what bounds the memory for rows."""


class BookBuilder:
    """Keeps the books of one file's instruments and gives MBP-10 records.

    Attributes:
        folded: MBO records so far that gave no record of their own.
        unfinished: events in progress when the file ended, after `finish`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._publishers: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._books = _new_books(0)
        self._levels = new_levels(2 * PIECE)
        self._orders = new_orders(4 * PIECE)
        self._counts = np.zeros(len(COUNTS), np.int64)
        # a chunk must hold while the next is made
        self._rows = [np.empty((PIECE, ROW_WORDS), np.int64) for _ in range(2)]
        self.folded = 0
        self.unfinished = 0

    @property
    def counts(self) -> Mapping[str, int]:
        """What was met so far and could not be applied or shown as it stood, by name."""
        counted = (int(count) for count in self._counts)
        return dict(zip(COUNTS, counted, strict=True)) | {"unfinished_events": self.unfinished}

    @property
    def memory_bytes(self) -> int:
        """Memory of orders, levels and books: follows what is open, not how much was read."""
        return sum(array.nbytes for part in (self._books, self._levels, self._orders) for array in part)

    def push(self, records: np.ndarray) -> Iterator[np.ndarray]:
        """MBP-10 records, [m] MBP10_DTYPE, that come of [n] MBO_DTYPE; each holds while the next is made.

        Raises:
            InputError: an instrument has records of two publishers, or an event that never ends.
        """
        for start in range(0, len(records), PIECE):
            piece = records[start : start + PIECE]
            numbers = self._book_numbers(piece)
            words = np.ascontiguousarray(piece).view(np.int64).reshape(len(piece), ORDER_WORDS)
            self._make_room(len(piece))
            self._rows.reverse()
            written = fold(
                self._books,
                self._levels,
                self._orders,
                self._counts,
                words,
                numbers,
                self._rows[0],
                MAX_EVENT_RECORDS,
            )
            if written < 0:
                self._refuse_endless(piece[-1 - written])
            self.folded += len(piece) - written
            if written:
                yield _as_records(self._rows[0][:written])

    def finish(self) -> np.ndarray:
        """The last record of each event that has not ended, by instrument: [m] MBP10_DTYPE, without LAST."""
        rows = np.empty((len(self._numbers), ROW_WORDS), np.int64)
        for _, book in sorted(self._numbers.items()):
            self.unfinished += write_unfinished(
                self._books, self._levels, self._counts, book, rows[self.unfinished]
            )
        self.folded -= self.unfinished
        return _as_records(rows[: self.unfinished])

    def _book_numbers(self, records: np.ndarray) -> np.ndarray:
        """Book of each record, [n] int32; new instruments get a book."""
        keys = records["instrument_id"].astype(np.int64) << 16 | records["publisher_id"]
        if (keys == keys[0]).all():
            return np.full(len(keys), self._number(int(keys[0])), np.int32)
        distinct, inverse = np.unique(keys, return_inverse=True)
        return np.array([self._number(int(key)) for key in distinct], np.int32)[inverse]

    def _number(self, key: int) -> int:
        instrument, publisher = key >> 16, key & 0xFFFF
        known = self._publishers.setdefault(instrument, publisher)
        if publisher != known:
            raise InputError(
                f"{self._path} has orders of instrument {instrument} from the publishers {known} and "
                f"{publisher}, must be of one venue: fetch one venue's data"
            )
        if instrument not in self._numbers:
            self._open(len(self._numbers))
            self._numbers[instrument] = len(self._numbers)
        return self._numbers[instrument]

    def _open(self, number: int) -> None:
        if number == len(self._books.states):
            self._books = _grown_books(self._books, max(4, 2 * number))
        self._make_room(1)
        open_book(self._books, self._levels, number)

    def _make_room(self, more: int) -> None:
        """Room for as many new orders, and for as many new levels and the two heads of a book."""
        if self._levels.pool[FREE] < more + 2:
            self._levels = grown_levels(self._levels, 2 * len(self._levels.nodes) + more)
        self._orders = with_room(self._orders, self._books.sides[:, OWNER_NOW], more)

    def _refuse_endless(self, record: np.void) -> None:
        raise InputError(
            f"{self._path} has an event of more than {MAX_EVENT_RECORDS} records without the end-of-event flag "
            f"(to sequence {record['sequence']}): event ends are not marked there, ask for data that mark them"
        )


def _as_records(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(-1).view(MBP10_DTYPE)


def _new_books(count: int) -> Books:
    return Books(
        sides=np.zeros((2 * count, SIDE_COLUMNS), np.int64),
        states=np.zeros((count, STATE_COLUMNS), np.int64),
        ladders=np.zeros((count, LADDER_WORDS), np.int64),
        last=np.zeros((count, ORDER_WORDS), np.int64),
    )


def _grown_books(books: Books, count: int) -> Books:
    grown = _new_books(count)
    for old, new in zip(books, grown, strict=True):
        new[: len(old)] = old
    return grown
