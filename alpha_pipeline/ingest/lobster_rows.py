"""Messages and books of LOBSTER in bulk: blocks of both files become arrays, and these become MBP-10 records."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyarrow import csv

from alpha_core.shapes import LEVELS
from alpha_pipeline.ingest.one_symbol import INSTRUMENT_ID
from alpha_pipeline.ingest.records import LENGTH_UNIT, MBP10_DTYPE, RTYPE_MBP10, UNDEF_PRICE, Flag

PRICE_NANOS = 100_000
DUMMY_PRICE = 9_999_999_999
MAX_PRICE = UNDEF_PRICE // PRICE_NANOS
MAX_SIZE = 2**32 - 1
MAX_TIME = 2 * 86_400 * 10**9
NEW, PARTIAL, DELETE, VISIBLE, HIDDEN, CROSS, HALT = range(1, 8)
HALTED, QUOTING, TRADING = -1, 0, 1
"""Prices of a halt message."""

PLAIN = b"0123456789,.-\r\n"
"""All that numbers are written with; Arrow would take exponents, hexadecimals and blanks as well."""

ACTIONS = np.array([b"N", b"A", b"M", b"C", b"M", b"M", b"M", b"N"], "S1")
RESTING = np.array([b"A", b"N", b"B"], "S1")
TAKING = RESTING[::-1]
"""By direction + 1: a resting buy order (1) is executed by a seller."""

FIELDS = ("time", "kind", "order", "size", "price", "direction")


@dataclass(frozen=True)
class Messages:
    """Some messages, [n] int64 each.

    Attributes:
        time: nanoseconds after midnight.
        kind, size, price, direction: as in the file.
    """

    time: np.ndarray
    kind: np.ndarray
    size: np.ndarray
    price: np.ndarray
    direction: np.ndarray


def messages_of(block: bytes, columns: int) -> Messages:
    """Messages of whole lines.

    Raises:
        ValueError: a line is none.
    """
    if columns == len(FIELDS):
        _refuse_other_letters(block)
    types: dict[str, pa.DataType] = dict.fromkeys(FIELDS, pa.int64())
    types["time"] = pa.decimal128(18, 9)
    further = [f"more{k}" for k in range(columns - len(FIELDS))]
    table = _table(block, [*FIELDS, *further], types)
    low_words = np.frombuffer(table["time"].combine_chunks().buffers()[1], np.int64)[::2]
    rest = {name: table[name].to_numpy() for name in ("kind", "size", "price", "direction")}
    return Messages(time=low_words[: table.num_rows], **rest)


def books_of(block: bytes, levels: int) -> np.ndarray:
    """Book rows of whole lines, [n, 4 levels] int64: ask price, ask size, bid price, bid size, level by level.

    Raises:
        ValueError: a line is none.
    """
    _refuse_other_letters(block)
    names = [f"{k}" for k in range(4 * levels)]
    table = _table(block, names, dict.fromkeys(names[: 4 * LEVELS], pa.int64()))
    return np.stack([table[name].to_numpy() for name in names[: 4 * LEVELS]], axis=1)


def wrong_messages(found: Messages) -> np.ndarray:
    """Which messages say what no message can, [n] bool."""
    halt = found.kind == HALT
    directed = (found.direction == 1) | (found.direction == -1)
    right = np.where(halt, np.abs(found.price) <= 1, (found.price > 0) & (found.price < MAX_PRICE))
    right &= (found.kind >= NEW) & (found.kind <= HALT) & (found.time >= 0) & (found.time < MAX_TIME)
    right &= (found.size >= 0) & (found.size <= MAX_SIZE)
    right &= directed | ((found.direction == 0) & (found.kind >= CROSS))
    return ~right


def wrong_books(rows: np.ndarray) -> np.ndarray:
    """Which book rows, [n, 4 levels], have a level that is neither real nor a dummy, [n] bool."""
    price, size = rows[:, 0::2], rows[:, 1::2]
    dummy = (np.abs(price) == DUMMY_PRICE) & (size == 0)
    real = (price > 0) & (price < MAX_PRICE) & (price != DUMMY_PRICE) & (size > 0) & (size <= MAX_SIZE)
    return ~(dummy | real).all(axis=1)


def levels_of(rows: np.ndarray) -> np.ndarray:
    """The ten best levels, [n, 10] of the records' level type; what the rows do not have is undefined."""
    levels = empty_levels(len(rows))
    shown = min(LEVELS, rows.shape[1] // 4)
    for k, (price, size) in enumerate((("ask_px", "ask_sz"), ("bid_px", "bid_sz"))):
        prices = rows[:, 2 * k :: 4][:, :shown]
        levels[price][:, :shown] = np.where(np.abs(prices) == DUMMY_PRICE, UNDEF_PRICE, prices * PRICE_NANOS)
        levels[size][:, :shown] = rows[:, 2 * k + 1 :: 4][:, :shown]
    return levels


def empty_levels(count: int) -> np.ndarray:
    """Ten levels of nothing, [count, 10]."""
    levels = np.zeros((count, LEVELS), MBP10_DTYPE["levels"].base)
    levels["bid_px"] = levels["ask_px"] = UNDEF_PRICE
    return levels


@dataclass
class RowMaker:
    """Makes records of messages and the books after them, in the order of the file.

    Attributes:
        midnight_ns: where the times of the messages begin.
        told: messages so far.
        halted: whether trading is halted.
        book: [1, 10] levels after the last message.
    """

    midnight_ns: int
    told: int = 0
    halted: bool = False
    book: np.ndarray = field(default_factory=lambda: empty_levels(1))

    def rows(self, found: Messages, after: np.ndarray) -> np.ndarray:
        """The records of n > 0 messages and the [n, 10] levels after each, [m] MBP10_DTYPE."""
        before = np.concatenate([self.book, after[:-1]])
        halted, began = self._halts(found)
        trade = (found.kind >= VISIBLE) & (found.kind <= CROSS)
        same = (before.view(np.int64) == after.view(np.int64)).all(axis=1)
        shown_twice = trade & ~same
        last = np.cumsum(1 + shown_twice) - 1
        rows = _template(int(last[-1]) + 1)
        which = np.repeat(np.arange(len(trade)), 1 + shown_twice)
        first = last - shown_twice
        rows["ts_event"] = rows["ts_recv"] = (found.time + self.midnight_ns)[which]
        rows["sequence"] = (self.told + 1 + which) % 2**32
        priced = found.kind != HALT
        rows["price"] = np.where(priced, found.price * PRICE_NANOS, UNDEF_PRICE)[which]
        rows["size"] = np.where(priced, found.size, 0)[which]
        rows["action"], rows["side"] = ACTIONS[found.kind][which], RESTING[found.direction + 1][which]
        rows["levels"] = after[which]
        rows["side"][last[~priced]] = b"N"
        rows["flags"] = np.where(halted, Flag.MAYBE_BAD_BOOK, 0)[which]
        rows["flags"][last] |= np.uint8(Flag.LAST)
        at = first[trade]
        rows["action"][at], rows["levels"][at] = b"T", before[trade]
        uncrossed = np.where(found.kind == CROSS, 0, found.direction)[trade]
        rows["side"][at] = TAKING[uncrossed + 1]
        rows["action"][last[began]], rows["levels"][last[began]] = b"R", empty_levels(1)
        self.told, self.halted, self.book = self.told + len(trade), bool(halted[-1]), after[-1:].copy()
        return rows

    def _halts(self, found: Messages) -> tuple[np.ndarray, np.ndarray]:
        """Whether trading is halted after each message, and which messages begin a halt, [n] bool each."""
        tells = found.kind == HALT
        latest = np.maximum.accumulate(np.where(tells, np.arange(len(tells)), -1))
        halted = np.where(latest >= 0, found.price[latest] != TRADING, self.halted)
        earlier = np.concatenate([[self.halted], halted[:-1]])
        return halted, tells & halted & ~earlier


def _template(count: int) -> np.ndarray:
    rows = np.zeros(count, MBP10_DTYPE)
    rows["length"], rows["rtype"] = MBP10_DTYPE.itemsize // LENGTH_UNIT, RTYPE_MBP10
    rows["instrument_id"] = INSTRUMENT_ID
    return rows


def _refuse_other_letters(block: bytes) -> None:
    if block.translate(None, PLAIN):
        raise ValueError("other characters than those of numbers")


def _table(block: bytes, names: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    table = csv.read_csv(
        pa.BufferReader(block),
        csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
        csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
    )
    if table.num_rows != block.count(b"\n"):
        raise ValueError("line ends of several kinds")
    return table
