"""Recordings of an exchange's depth and trade streams (Binance style) as a source: one JSON message a line.

A line is `<receive time> <message>`, the time in microseconds or nanoseconds since 1970. Read are the streams `depth`
(differences with absolute quantities) and `trade`, and snapshots, the answers to requests; other streams are counted.
Every difference that changes the ten levels gives a record (action M, no side, no price), every trade one with the book
before it. Order counts are not published and 0.

A log without a snapshot of its own goes on from the log of the day before when that lies beside it and its ids
connect; otherwise its book is not known, and nothing is given, until the first snapshot.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from alpha_core.errors import InputError
from alpha_core.shapes import LEVELS
from alpha_pipeline.ingest.diff_book import DiffBook, Difference, Level
from alpha_pipeline.ingest.lines import Lines
from alpha_pipeline.ingest.raw import FileName
from alpha_pipeline.ingest.records import LENGTH_UNIT, MBP10_DTYPE, RTYPE_MBP10, UNDEF_PRICE, Flag
from alpha_pipeline.ingest.symbology import Listing
from alpha_pipeline.instrument import InstrumentSpec

INSTRUMENT_ID = 1
NEVER = 2**64 - 1
NANO_FROM = 10**17
"""Receive times from here on are nanoseconds (since 1973), below microseconds (until 5138)."""

DEPTH, TRADE, SNAPSHOT = "depth", "trade", "snapshot"
MAX_LOTS = 2**32 - 1
UNTOLD = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError)
"""What a line raises that is no message of the format: other words, other types, numbers or nesting without end."""


def nano(text: object) -> int:
    """A decimal in units of 1e-9, exactly.

    Raises:
        ValueError: it is no text, or no decimal of at most nine places.
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no decimal in quotes")
    whole, _, fraction = text.partition(".")
    if not (whole.lstrip("-").isdecimal() and (fraction or "0").isdecimal()):
        raise ValueError(f"{text!r} is no decimal")
    if len(fraction.rstrip("0")) > 9:
        raise ValueError(f"{text!r} has more than nine decimals")
    return int(whole + fraction.ljust(9, "0")[:9])


class DepthLog:
    """One log being read, front to back, once; the attributes are those of `raw.RawFile`."""

    version = 1
    schema = "depth-log"

    def __init__(self, path: Path, spec: InstrumentSpec) -> None:
        self.path = path
        self.records_read = 0
        self.trailing_bytes = 0
        self.truncated = False
        self.skipped_by_type: Counter[str] = Counter()
        self._book = DiffBook()
        self._odd_sizes = 0
        self._shown = b""
        self._lot_nanos = spec.lot_nanos
        self._symbol = symbol_in(path.name)
        self._lines = Lines(path)

    def __enter__(self) -> "DepthLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    @property
    def requested(self) -> list[str]:
        """The symbol in the file's name."""
        return [self._symbol]

    @property
    def listings(self) -> list[Listing]:
        """The one instrument of the log."""
        return [Listing(symbol=self._symbol, instrument_id=INSTRUMENT_ID, start_ns=0, end_ns=NEVER)]

    @property
    def counts(self) -> Mapping[str, int]:
        """What the book counted, see DiffBook, and sizes that are no whole number of lots."""
        odd = {"sizes_between_lots": self._odd_sizes} if self._odd_sizes else {}
        return dict(self._book.counts) | odd

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records in the order of the lines, [n] MBP10_DTYPE, each chunk of its own memory.

        Raises:
            InputError: a line is not what the format has there.
        """
        self._continue_from_yesterday()
        rows: list[np.ndarray] = []
        for row in self._rows():
            rows.append(row)
            if len(rows) == chunk_records:
                yield np.concatenate(rows)
                rows = []
        if rows:
            yield np.concatenate(rows)
        self.truncated, self.trailing_bytes = self._lines.truncated, self._lines.trailing_bytes

    def _continue_from_yesterday(self) -> None:
        """Take over the book of the log before, when this one has no snapshot and its ids connect."""
        before = _log_before(self.path)
        if before is None:
            return
        first = _first_ids(self.path)
        if first is None:
            return
        with DepthLog(before, _spec_of(self._lot_nanos)) as earlier:
            for _ in earlier.chunks(1 << 16):
                pass
            if earlier._book.synced and first[0] <= earlier._book.last_id + 1 <= first[1] + 1:
                self._book = earlier._book
                self._book.counts = Counter(continued_from_the_log_before=1)

    def _rows(self) -> Iterator[np.ndarray]:
        for number, line in self._lines:
            try:
                received, kind, message = parsed(line)
                row = self._row(received, kind, message)
            except UNTOLD as error:
                raise InputError(
                    f"{self.path} has in line {number} no message of a depth or trade stream ({error}): "
                    "mend or remove the line"
                ) from error
            self.records_read += 1
            if row is None:
                self.skipped_by_type[kind] += 1
            else:
                yield row

    def _row(self, received: int, kind: str, message: Mapping[str, Any]) -> np.ndarray | None:
        if kind == SNAPSHOT:
            levels = self._levels(message["bids"]), self._levels(message["asks"])
            self._book.snapshot(int(message["lastUpdateId"]), *levels)
            return None
        if kind == DEPTH:
            change = Difference(
                int(message["U"]), int(message["u"]), self._levels(message["b"]), self._levels(message["a"])
            )
            if not self._book.apply(change):
                return None
            row = self._record(received, message["E"])
            return row if self._changed(row) else None
        if kind == TRADE and self._book.started:
            row = self._record(received, message["T"])
            row["action"], row["side"] = b"T", b"A" if message["m"] else b"B"
            row["price"], row["size"] = nano(message["p"]), self._lots(message["q"])
            return row
        return None

    def _changed(self, row: np.ndarray) -> bool:
        """Whether the ten levels, or what is known of them, differ from those of the last difference shown."""
        shown = row["levels"].tobytes() + row["flags"].tobytes()
        if shown == self._shown:
            self._book.counts["updates_below_the_levels_shown"] += 1
            return False
        self._shown = shown
        return True

    def _levels(self, pairs: list[list[str]]) -> list[Level]:
        return [(nano(price), self._lots(lots)) for price, lots in pairs]

    def _lots(self, text: str) -> int:
        """Whole lots; a size between two numbers of lots becomes the nearest one, but never nothing, and is counted."""
        lots, rest = divmod(nano(text), self._lot_nanos)
        if rest:
            self._odd_sizes += 1
            lots = max(1, lots + (2 * rest >= self._lot_nanos))
        if not 0 <= lots <= MAX_LOTS:
            raise ValueError(f"a size of {lots} lots, must be in [0, {MAX_LOTS}]: use a larger lot_size")
        return lots

    def _record(self, received: int, milliseconds: int) -> np.ndarray:
        """The book as it stands, as the record of a difference; the exchange's time is in milliseconds."""
        row = np.zeros(1, MBP10_DTYPE)
        event = int(milliseconds) * 10**6
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


def parsed(line: bytes) -> tuple[int, str, Mapping[str, Any]]:
    """Receive time in ns, kind of message and its content.

    Raises:
        ValueError, KeyError: the line is not of the format.
    """
    stamp, _, text = line.partition(b" ")
    received = int(stamp)
    message = json.loads(text)
    kind = SNAPSHOT
    if "lastUpdateId" not in message:
        kind = str(message["stream"]).partition("@")[2].partition("@")[0]
        message = message["data"]
    return received if received >= NANO_FROM else received * 1000, kind, message


def symbol_in(name: str) -> str:
    """The symbol of a log's name, in capitals as exchanges write them."""
    return name.partition("_")[0].upper()


def _spec_of(lot_nanos: int) -> InstrumentSpec:
    return InstrumentSpec(lot_size=f"{lot_nanos / 1e9:.9f}")


def _log_before(path: Path) -> Path | None:
    """The log of the day before in the same folder, whatever its compression."""
    match = DepthLogSource.NAME.fullmatch(path.name)
    if match is None:
        return None
    day = date.fromisoformat(match["date"]) - timedelta(days=1)
    for other in sorted(path.parent.glob(f"{match['symbol']}_{day:%Y%m%d}*")):
        if DepthLogSource.NAME.fullmatch(other.name):
            return other
    return None


def _first_ids(path: Path) -> tuple[int, int] | None:
    """Ids of the first difference, None when a snapshot comes before it or there is neither."""
    with Lines(path) as lines:
        for _, line in lines:
            try:
                _, kind, message = parsed(line)
                if kind == SNAPSHOT:
                    return None
                if kind == DEPTH:
                    return int(message["U"]), int(message["u"])
            except UNTOLD:
                return None
    return None


class DepthLogSource:
    """Logs named `<symbol>_<yyyymmdd>[.dat|.log|.json|.jsonl][.gz|.zst]`; the day is that of the name."""

    NAME = re.compile(
        r"(?P<symbol>[A-Za-z0-9]+)_(?P<date>\d{8})(?P<kind>\.dat|\.log|\.jsonl?)?(?P<packed>\.gz|\.zst)?"
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
        try:
            day = date.fromisoformat(match["date"]).isoformat()
        except ValueError:
            return None
        return FileName(day=day, until=None, symbol=symbol_in(name), usable=True)

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Never asked: the name tells the symbol."""
        return spec.matches(symbol_in(path.name))

    def open(self, path: Path, spec: InstrumentSpec) -> DepthLog:
        """Begin to read a log."""
        return DepthLog(path, spec)
