"""LOBSTER's pairs of files as a source: the messages of one stock and day, and the book after each of them.

Row k of the book file is the book after message k. Prices are dollars times 10 000, times seconds after midnight in New
York with up to nine decimals; levels that do not exist have the dummy prices +-9999999999 and no size. Messages:
1 new, 2 partly cancelled, 3 deleted, 4 visible execution, 5 hidden execution, 6 cross trade, 7 trading halt (price -1),
quoting resumed (0) or trading resumed (1). The direction of an execution is that of the resting order.

A message gives a record with the book after it (action A, C or M, flag LAST). An execution gives a trade record with
the book before it, the aggressor being the other side, none for a cross; where it changed the book, the change follows
as a record of the same event. A halt begins with a clear record, and until trading resumes every record is marked
MAYBE_BAD_BOOK. Order counts are not published: 0.

Both files are files of the day, so that a change of either is seen; the records come with that of the messages.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NoReturn
from zoneinfo import ZoneInfo

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.lines import LineBlocks
from alpha_pipeline.ingest.lobster_rows import (
    FIELDS,
    HALT,
    Messages,
    RowMaker,
    books_of,
    levels_of,
    messages_of,
    wrong_books,
    wrong_messages,
)
from alpha_pipeline.ingest.one_symbol import OneSymbolFile
from alpha_pipeline.ingest.raw import FileName, iso_day
from alpha_pipeline.instrument import InstrumentSpec

NEW_YORK = ZoneInfo("America/New_York")
BOOK = "_orderbook_"
MESSAGE = "_message_"
BATCH_LINES = 1 << 14
"""Messages read at a time: what bounds the memory."""

MOST_LEVELS = 1000
SHOWN = 80
"""Characters of a wrong line that an error shows."""


class LobsterFile(OneSymbolFile):
    """A pair being read by its messages, front to back, once; of the book file itself nothing is given."""

    def __init__(self, path: Path) -> None:
        match = LobsterSource.NAME.fullmatch(path.name)
        assert match is not None, "the source recognised the name"
        super().__init__(path, match["ticker"])
        self.schema = f"lobster-{match['levels']}"  # files of several depths repeat one another
        self.counts: Counter[str] = Counter()
        self._levels = int(match["levels"])
        midnight = datetime.strptime(match["date"], "%Y-%m-%d").replace(tzinfo=NEW_YORK)
        self._maker = RowMaker(int(midnight.timestamp()) * 10**9)
        other = path.with_name(_other(path.name))
        if not other.is_file():
            raise InputError(f"{path} has no {other.name} beside it: put the pair into one folder")
        self._is_book = BOOK in path.name
        if not 0 < self._levels <= MOST_LEVELS:
            raise InputError(f"{path} has {self._levels} levels by its name, must have 1 to {MOST_LEVELS}")
        self._messages, self._books = LineBlocks(path), LineBlocks(other)

    def __enter__(self) -> "LobsterFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._messages.close()
        self._books.close()

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records in the order of the messages, [n] MBP10_DTYPE, each chunk of its own memory.

        A pair of unequal length was cut: what both have is given.

        Raises:
            InputError: a line is not what the format has there.
        """
        if self._is_book:
            return
        while count := min(self._messages.held(), self._books.held(), BATCH_LINES):
            rows = self._rows(self._messages.take(count), self._books.take(count))
            self.records_read += len(rows)
            for start in range(0, len(rows), chunk_records):
                yield rows[start : start + chunk_records]
        unequal = self._messages.held() > 0 or self._books.held() > 0
        self.truncated = unequal or self._messages.truncated or self._books.truncated
        self.trailing_bytes = self._messages.trailing_bytes

    def _rows(self, messages: bytes, books: bytes) -> np.ndarray:
        try:
            found, levels = self._parsed(messages, books)
        except ValueError as error:  # Arrow's errors are such
            self._refuse_line(messages, books, error)
        self._count_halts(found)
        return self._maker.rows(found, levels)

    def _parsed(self, messages: bytes, books: bytes) -> tuple[Messages, np.ndarray]:
        attributed = messages.partition(b"\n")[0].count(b",") == len(FIELDS)
        columns = len(FIELDS) + attributed
        found, rows = messages_of(messages, columns), books_of(books, self._levels)
        if wrong_messages(found).any():
            raise ValueError("no message has such values")
        if wrong_books(rows).any():
            raise ValueError("no book has such levels")
        return found, levels_of(rows)

    def _refuse_line(self, messages: bytes, books: bytes, error: ValueError) -> NoReturn:
        """Name the first line that cannot be read: the one that ends the shortest part which cannot."""
        pairs = messages.split(b"\n"), books.split(b"\n")
        first = bisect_left(
            range(1, len(pairs[0]) - 1), 1, key=lambda count: self._fails(messages, books, count)
        )
        shown = " with ".join(repr(lines[first][:SHOWN]) for lines in pairs)
        raise InputError(
            f"{self.path} and its book have in line {self._maker.told + first + 1} no message and book "
            f"({error}: {shown}): fetch the pair again"
        ) from error

    def _fails(self, messages: bytes, books: bytes, count: int) -> bool:
        try:
            self._parsed(_head(messages, count), _head(books, count))
        except ValueError:
            return True
        return False

    def _count_halts(self, found: Messages) -> None:
        prices, counts = np.unique(found.price[found.kind == HALT], return_counts=True)
        self.counts.update({f"halt messages {p}": int(n) for p, n in zip(prices, counts, strict=True)})


def _head(block: bytes, count: int) -> bytes:
    """The first lines of a block."""
    return b"".join(line + b"\n" for line in block.split(b"\n")[:count])


def _other(name: str) -> str:
    return name.replace(BOOK, MESSAGE) if BOOK in name else name.replace(MESSAGE, BOOK)


class LobsterSource:
    """Pairs named `<TICKER>_<yyyy-mm-dd>_<start>_<end>_message_<levels>.csv[.gz|.zst]` and `..._orderbook_...`."""

    NAME = re.compile(
        r"(?P<ticker>[A-Z][A-Z.]*)_(?P<date>\d{4}-\d{2}-\d{2})_\d+_\d+_(?:message|orderbook)_(?P<levels>\d{1,9})"
        r"(?i:\.csv(?:\.gz|\.zst)?)",
        re.ASCII,
    )

    def recognises(self, name: str) -> bool:
        """Whether a file of this name is one of a pair."""
        return self.NAME.fullmatch(name) is not None

    def parse(self, name: str) -> FileName | None:
        """What the name of one of a pair says, None for other names."""
        match = self.NAME.fullmatch(name)
        if match is None:
            return None
        return FileName(day=iso_day(match["date"]), until=None, symbol=match["ticker"], usable=True)

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Never asked: the name tells the symbol."""
        return spec.matches(path.name.partition("_")[0])

    def stands_alone(self, path: Path) -> bool:  # noqa: ARG002  no day needs another
        """Always."""
        return True

    def open(
        self,
        path: Path,
        spec: InstrumentSpec,  # noqa: ARG002  the name tells all
        beside: Sequence[Path] = (),  # noqa: ARG002
    ) -> LobsterFile:
        """Begin to read a pair."""
        return LobsterFile(path)
