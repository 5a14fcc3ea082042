"""Recordings of an exchange's depth and trade streams (Binance style) as a source: one JSON message a line.

A line is `<receive time> <message>`, the time in microseconds or nanoseconds since 1970. Read are the streams `depth`
(differences with absolute quantities) and `trade`, and snapshots, the answers to requests; other streams are counted.
Every difference that changes the ten levels gives a record (action M, no side, no price), every trade one with the book
before it. Order counts are not published and 0.

A log with a snapshot near its beginning says nothing before it. Another one goes on from the logs of the days before,
where the folder has them; where it has not, its book starts empty and out of sync, so that its trades are told and no
book is believed until a snapshot comes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from alpha_core.errors import InputError
from alpha_core.shapes import LEVELS
from alpha_pipeline.ingest.depth_message import DEPTH, SHOWN, SNAPSHOT, TRADE, nano, parsed, reason, whole
from alpha_pipeline.ingest.diff_book import DiffBook, Difference, Level
from alpha_pipeline.ingest.lines import Lines
from alpha_pipeline.ingest.one_symbol import INSTRUMENT_ID, OneSymbolFile
from alpha_pipeline.ingest.raw import FileName, iso_day
from alpha_pipeline.ingest.records import LENGTH_UNIT, MBP10_DTYPE, RTYPE_MBP10, UNDEF_PRICE, Flag
from alpha_pipeline.instrument import InstrumentSpec

MAX_LOTS = 2**32 - 1
MOST_TYPES = 32
UNTOLD = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError)
"""What a line raises that is no message of the format: other words, other types, numbers or nesting without end."""

BEGINNING = 1000
"""Lines among which a log of its own has its snapshot: a recorder asks for it when it starts."""

NANOS_PER_DAY = 86_400 * 10**9


class DepthLog(OneSymbolFile):
    """One log being read, front to back, once."""

    schema = "depth-log"

    def __init__(self, path: Path, spec: InstrumentSpec, beside: Sequence[Path] = ()) -> None:
        """`beside` are the files of the day: earlier logs lead to this one, and to a later one this one leads."""
        super().__init__(path, symbol_in(path.name))
        self._odd_sizes = self._sizeless = self._elsewhere = 0
        self._shown = b""
        self._lot_nanos = spec.lot_nanos
        self._day = day_in(path.name)
        days = {other: day_in(other.name) for other in beside if symbol_in(other.name) == self._symbol}
        earlier = [(day, other) for other, day in days.items() if 0 <= day < self._day]
        self._leads = [other for _, other in sorted(earlier)]
        self._is_lead = any(day > self._day >= 0 for day in days.values())
        self._book = DiffBook(awaits_snapshot=stands_alone((self._leads or [path])[0]))
        self._lines = Lines(path)

    def __enter__(self) -> "DepthLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    @property
    def counts(self) -> Mapping[str, int]:
        """What the book counted, see DiffBook, and what else a log may hold, see docs/sources.md."""
        more = {
            "sizes_between_lots": self._odd_sizes,
            "trades_without_size": self._sizeless,
            "rows_of_other_days": self._elsewhere,
        }
        return dict(self._book.counts) | {name: count for name, count in more.items() if count}

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records in the order of the lines, [n] MBP10_DTYPE, each chunk of its own memory.

        A log that leads to a later one gives none: it is there for that one's book.

        Raises:
            InputError: a line is not what the format has there.
        """
        if self._is_lead:
            return
        self._follow_leads()
        rows: list[np.ndarray] = []
        for row in self._rows():
            rows.append(row)
            if len(rows) == chunk_records:
                yield np.concatenate(rows)
                rows = []
        if rows:
            yield np.concatenate(rows)
        self.truncated, self.trailing_bytes = self._lines.truncated, self._lines.trailing_bytes

    def _follow_leads(self) -> None:
        """Bring the book to where the log begins; what was counted meanwhile belongs to the earlier days."""
        for path in self._leads:
            with Lines(path) as lines:
                for _ in self._told(path, lines, shown=False):
                    pass
        if self._leads:
            self._book.counts = Counter(continued_from_earlier_logs=len(self._leads))
            self._odd_sizes = 0

    def _rows(self) -> Iterator[np.ndarray]:
        for kind, row in self._told(self.path, self._lines, shown=True):
            self.records_read += 1
            if row is None:
                known = kind in self.skipped_by_type or len(self.skipped_by_type) < MOST_TYPES
                self.skipped_by_type[kind if known else "other"] += 1
            else:
                self._elsewhere += int(row["ts_recv"][0]) // NANOS_PER_DAY != self._day
                yield row

    def _told(self, path: Path, lines: Lines, *, shown: bool) -> Iterator[tuple[str, np.ndarray | None]]:
        """Kind of each message and, where it gives one and is to be shown, its record."""
        for number, line in lines:
            try:
                received, symbol, kind, message = parsed(line)
                if symbol not in (self._symbol, None):
                    yield "other_symbol", None
                    continue
                if kind == TRADE and not shown:
                    continue
                row = self._row(received, kind, message, shown=shown)
            except UNTOLD as error:
                raise InputError(
                    f"{path} has in line {number} no message of a depth or trade stream ({reason(error)}): "
                    "mend or remove the line"
                ) from error
            yield kind, row

    def _row(self, received: int, kind: str, message: Mapping[str, Any], *, shown: bool) -> np.ndarray | None:
        if kind == SNAPSHOT:
            levels = self._levels(message["bids"]), self._levels(message["asks"])
            self._book.snapshot(whole(message["lastUpdateId"], "lastUpdateId"), *levels)
            return None
        if kind == DEPTH:
            if not self._book.apply(self._difference(message)) or not shown:
                return None
            row = self._record(received, whole(message["E"], "E"))
            return row if self._changed(row) else None
        if kind == TRADE:
            return self._trade(received, message)
        return None

    def _difference(self, message: Mapping[str, Any]) -> Difference:
        first, last = whole(message["U"], "U"), whole(message["u"], "u")
        if first > last:
            raise ValueError(f"the first id U {first} is above the last id u {last}")
        return Difference(first, last, self._levels(message["b"]), self._levels(message["a"]))

    def _trade(self, received: int, message: Mapping[str, Any]) -> np.ndarray | None:
        price, lots, time = _price(message["p"]), self._lots(message["q"]), whole(message["T"], "T")
        if type(message["m"]) is not bool:
            raise ValueError(f"m is {str(message['m'])[:20]!r}, must be true or false")
        if not lots:
            self._sizeless += 1
        if not lots or not self._book.started:
            return None
        row = self._record(received, time)
        row["action"], row["side"] = b"T", b"A" if message["m"] else b"B"
        row["price"], row["size"] = price, lots
        return row

    def _changed(self, row: np.ndarray) -> bool:
        """Whether the ten levels, or what is known of them, differ from those of the last difference shown."""
        shown = row["levels"].tobytes() + row["flags"].tobytes()
        if shown == self._shown:
            self._book.counts["updates_below_the_levels_shown"] += 1
            return False
        self._shown = shown
        return True

    def _levels(self, pairs: list[list[str]]) -> list[Level]:
        return [(_price(price), self._lots(lots)) for price, lots in pairs]

    def _lots(self, text: str) -> int:
        """Whole lots; a size between two numbers of lots becomes the nearest one, but never nothing, and is counted."""
        nanos = nano(text)
        lots, rest = divmod(nanos, self._lot_nanos)
        if rest:
            self._odd_sizes += 1
            lots = max(1, lots + (2 * rest >= self._lot_nanos))
        if nanos < 0 or lots > MAX_LOTS:
            raise ValueError(f"size {text[:SHOWN]} is not in [0, {MAX_LOTS}] lots: use another lot_size")
        return lots

    def _record(self, received: int, milliseconds: int) -> np.ndarray:
        """The book as it stands, as the record of a difference; the exchange's time is in milliseconds."""
        row = np.zeros(1, MBP10_DTYPE)
        event = milliseconds * 10**6
        row["length"], row["rtype"] = MBP10_DTYPE.itemsize // LENGTH_UNIT, RTYPE_MBP10
        row["instrument_id"], row["ts_event"], row["ts_recv"] = INSTRUMENT_ID, event, received
        row["price"], row["action"], row["side"] = UNDEF_PRICE, b"M", b"N"
        row["flags"] = Flag.LAST | Flag.MBP | (0 if self._book.synced else Flag.MAYBE_BAD_BOOK)
        row["ts_in_delta"] = max(min(received - event, 2**31 - 1), -(2**31))
        row["sequence"] = self._book.last_id % 2**32
        levels = row["levels"][0]
        levels["bid_px"] = levels["ask_px"] = UNDEF_PRICE
        for name, side in (("bid", self._book.bids), ("ask", self._book.asks)):
            for k, (price, lots) in enumerate(side.best(LEVELS)):
                levels[f"{name}_px"][k], levels[f"{name}_sz"][k] = price, lots
        return row


def symbol_in(name: str) -> str:
    """The symbol of a log's name, in capitals as exchanges write them."""
    return name.partition("_")[0].upper()


def day_in(name: str) -> int:
    """Days since 1970 of the date in a log's name, -1 for the names of other files."""
    match = DepthLogSource.NAME.fullmatch(name)
    try:
        return (date.fromisoformat(match["date"]) - date(1970, 1, 1)).days if match else -1
    except ValueError:
        return -1


def stands_alone(path: Path) -> bool:
    """Whether a log has a snapshot near its beginning, so that it needs no earlier one."""
    with Lines(path) as lines:
        return any(b'"lastUpdateId"' in line for _, line in islice(lines, BEGINNING))


def _price(text: object) -> int:
    price = nano(text)
    if not 0 < price < UNDEF_PRICE:
        raise ValueError(f"{str(text)[:SHOWN]!r} is no price")
    return price


class DepthLogSource:
    """Logs named `<symbol>_<yyyymmdd>[.dat|.log|.json|.jsonl][.gz|.zst]`; the day is that of the name."""

    NAME = re.compile(
        r"(?P<symbol>[A-Za-z0-9]+)_(?P<date>[0-9]{8})(?i:(?P<kind>\.dat|\.log|\.jsonl?)?(?P<packed>\.gz|\.zst)?)"
    )

    def recognises(self, name: str) -> bool:
        """Whether a file of this name is a log."""
        match = self.NAME.fullmatch(name)
        return match is not None and bool(match["kind"] or match["packed"])

    def parse(self, name: str) -> FileName | None:
        """What a log's name says, None for other names."""
        match = self.NAME.fullmatch(name) if self.recognises(name) else None
        if match is None:
            return None
        return FileName(
            day=iso_day(match["date"]), until=None, symbol=symbol_in(name), usable=True, goes_on=True
        )

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Never asked: the name tells the symbol."""
        return spec.matches(symbol_in(path.name))

    def stands_alone(self, path: Path) -> bool:
        """Whether a log needs no earlier one; one that cannot be read fails when it is, not here."""
        try:
            return stands_alone(path)
        except InputError:
            return True

    def open(self, path: Path, spec: InstrumentSpec, beside: Sequence[Path] = ()) -> DepthLog:
        """Begin to read a log."""
        return DepthLog(path, spec, beside)
