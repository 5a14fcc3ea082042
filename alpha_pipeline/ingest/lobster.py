"""LOBSTER's pairs of files as a source: the messages of one stock and day, and the book after each of them.

Row k of the book file is the book after message k. Prices are dollars times 10 000, times seconds after midnight in New
York with up to nine decimals; levels that do not exist have the dummy prices +-9999999999 and no size. Messages:
1 new, 2 partly cancelled, 3 deleted, 4 visible execution, 5 hidden execution, 6 cross trade, 7 trading halt (price -1),
quoting resumed (0) or trading resumed (1). The direction of an execution is that of the resting order.

Every message gives a record with the book after it (action A, C or M, flag LAST); an execution is preceded by a trade
record with the book before it, in the same event, the aggressor being the other side. A halt begins with a clear
record, and until trading resumes every record is marked MAYBE_BAD_BOOK. Order counts are not published: 0.

Both files are files of the day, so that a change of either is seen; the records come with that of the messages.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from alpha_core.errors import InputError
from alpha_core.shapes import LEVELS
from alpha_pipeline.ingest.lines import Lines
from alpha_pipeline.ingest.raw import FileName
from alpha_pipeline.ingest.records import LENGTH_UNIT, MBP10_DTYPE, RTYPE_MBP10, UNDEF_PRICE, Flag
from alpha_pipeline.ingest.symbology import Listing
from alpha_pipeline.instrument import InstrumentSpec

NEW_YORK = ZoneInfo("America/New_York")
INSTRUMENT_ID = 1
NEVER = 2**64 - 1
PRICE_NANOS = 100_000
DUMMY_PRICE = 9_999_999_999
NEW, PARTIAL, DELETE, VISIBLE, HIDDEN, CROSS, HALT = range(1, 8)
ACTIONS = {NEW: b"A", PARTIAL: b"M", DELETE: b"C", VISIBLE: b"M", HIDDEN: b"N", CROSS: b"N", HALT: b"N"}


TRADES = (VISIBLE, HIDDEN, CROSS)
HALTED, RESUMED = -1, 1
BOOK = "_orderbook_"
MESSAGE = "_message_"


def nanoseconds(text: str) -> int:
    """Seconds with up to nine decimals as whole nanoseconds. Raises ValueError for anything else."""
    whole, _, fraction = text.partition(".")
    if not whole.isdecimal() or len(fraction) > 9 or not (fraction or "0").isdecimal():
        raise ValueError(f"{text!r} is no time in seconds")
    return int(whole) * 10**9 + int(fraction.ljust(9, "0"))


class LobsterFile:
    """A pair being read by its messages, front to back, once; of the book file itself nothing is given.

    The attributes are those of `raw.RawFile`.
    """

    version = 1
    schema = "lobster"

    def __init__(self, path: Path) -> None:
        match = LobsterSource.NAME.fullmatch(path.name)
        assert match is not None, "the source recognised the name"
        self.path = path
        self.records_read = 0
        self.trailing_bytes = 0
        self.truncated = False
        self.skipped_by_type: Counter[str] = Counter()
        self.counts: Mapping[str, int] = Counter()
        self._symbol = match["ticker"]
        midnight = datetime.strptime(match["date"], "%Y-%m-%d").replace(tzinfo=NEW_YORK)
        self._midnight_ns = int(midnight.timestamp()) * 10**9
        self._halted = False
        self._book = _empty_levels()
        other = path.with_name(_other(path.name))
        if not other.is_file():
            raise InputError(f"{path} has no {other.name} beside it: put the pair into one folder")
        self._is_book = BOOK in path.name
        self._messages, self._books = Lines(path), Lines(other)

    def __enter__(self) -> "LobsterFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._messages.close()
        self._books.close()

    @property
    def requested(self) -> list[str]:
        """The ticker in the file's name."""
        return [self._symbol]

    @property
    def listings(self) -> list[Listing]:
        """The one instrument of the pair."""
        return [Listing(symbol=self._symbol, instrument_id=INSTRUMENT_ID, start_ns=0, end_ns=NEVER)]

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records in the order of the messages, [n] MBP10_DTYPE, each chunk of its own memory.

        A pair of unequal length was cut: what both have is given.

        Raises:
            InputError: a line is not what the format has there.
        """
        if self._is_book:
            return
        rows: list[np.ndarray] = []
        books = iter(self._books)
        for number, message in self._messages:
            _, book = next(books, (0, None))
            if book is None:
                self.truncated = True
                break
            rows += self._event(number, message, book)
            if len(rows) >= chunk_records:
                yield np.concatenate(rows)
                rows = []
        if rows:
            yield np.concatenate(rows)
        self.truncated |= self._messages.truncated or self._books.truncated or next(books, None) is not None
        self.trailing_bytes = self._messages.trailing_bytes

    def _event(self, number: int, message: bytes, book: bytes) -> list[np.ndarray]:
        try:
            time, kind, _, size, price, direction = message.decode("ascii").split(",")[:6]
            levels = _levels(book)
            rows = self._records(nanoseconds(time), int(kind), int(size), int(price), int(direction), levels)
        except (ValueError, KeyError, OverflowError) as error:
            raise InputError(
                f"{self.path} and its book have in line {number} no message and book ({error}): fetch the pair again"
            ) from error
        self.records_read += len(rows)
        self._book = levels
        return rows

    def _records(
        self, time: int, kind: int, size: int, price: int, direction: int, levels: np.ndarray
    ) -> list[np.ndarray]:
        ts, rows = self._midnight_ns + time, []
        began = kind == HALT and price == HALTED and not self._halted
        if kind == HALT:
            self._halted = price != RESUMED
            assert isinstance(self.counts, Counter)
            self.counts[f"halt messages {price}"] += 1
        if kind in TRADES:
            rows.append(self._record(ts, b"T", direction, price, size, self._book))
            rows[-1]["flags"] &= ~np.uint8(Flag.LAST)
        if began:
            return [self._record(ts, b"R", 0, None, 0, _empty_levels())]
        shown = None if kind == HALT else price
        rows.append(self._record(ts, ACTIONS[kind], direction, shown, 0 if kind == HALT else size, levels))
        return rows

    def _record(
        self, ts: int, action: bytes, direction: int, price: int | None, size: int, levels: np.ndarray
    ) -> np.ndarray:
        """One record; `direction` is 1 for a resting buy order, whose execution a seller caused, -1 for the other."""
        row = np.zeros(1, MBP10_DTYPE)
        row["length"], row["rtype"] = MBP10_DTYPE.itemsize // LENGTH_UNIT, RTYPE_MBP10
        row["instrument_id"], row["ts_event"], row["ts_recv"] = INSTRUMENT_ID, ts, ts
        row["price"] = UNDEF_PRICE if price is None else price * PRICE_NANOS
        row["action"], row["size"] = action, size
        resting = {1: b"B", -1: b"A"}.get(direction, b"N")
        taking = {1: b"A", -1: b"B"}.get(direction, b"N")
        row["side"] = taking if action == b"T" else resting
        row["flags"] = Flag.LAST | (Flag.MAYBE_BAD_BOOK if self._halted else 0)
        row["sequence"] = (self.records_read + 1) % 2**32
        row["levels"] = levels
        return row


def _other(name: str) -> str:
    return name.replace(BOOK, MESSAGE) if BOOK in name else name.replace(MESSAGE, BOOK)


def _empty_levels() -> np.ndarray:
    levels = np.zeros(LEVELS, MBP10_DTYPE["levels"].base)
    levels["bid_px"] = levels["ask_px"] = UNDEF_PRICE
    return levels


def _levels(line: bytes) -> np.ndarray:
    """Ten levels of a book row: ask price, ask size, bid price, bid size, level by level; deeper ones are cut."""
    numbers = [int(part) for part in line.decode("ascii").split(",")]
    if len(numbers) % 4 or not numbers:
        raise ValueError(f"a book of {len(numbers)} numbers, must be a multiple of 4")
    levels = _empty_levels()
    for k in range(min(LEVELS, len(numbers) // 4)):
        ask, ask_size, bid, bid_size = numbers[4 * k : 4 * k + 4]
        if abs(ask) != DUMMY_PRICE:
            levels["ask_px"][k], levels["ask_sz"][k] = ask * PRICE_NANOS, ask_size
        if abs(bid) != DUMMY_PRICE:
            levels["bid_px"][k], levels["bid_sz"][k] = bid * PRICE_NANOS, bid_size
    return levels


class LobsterSource:
    """Pairs named `<TICKER>_<yyyy-mm-dd>_<start>_<end>_message_<levels>.csv[.gz|.zst]` and `..._orderbook_...`."""

    NAME = re.compile(
        r"(?P<ticker>[A-Z][A-Z.]*)_(?P<date>\d{4}-\d{2}-\d{2})_\d+_\d+_(?:message|orderbook)_\d+\.csv(?:\.gz|\.zst)?"
    )

    def recognises(self, name: str) -> bool:
        """Whether a file of this name is one of a pair."""
        return self.NAME.fullmatch(name) is not None

    def parse(self, name: str) -> FileName | None:
        """What the name of one of a pair says, None for other names."""
        match = self.NAME.fullmatch(name)
        if match is None:
            return None
        try:
            day = datetime.strptime(match["date"], "%Y-%m-%d").date().isoformat()
        except ValueError:
            return None
        return FileName(day=day, until=None, symbol=match["ticker"], usable=True)

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
