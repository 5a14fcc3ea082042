"""Books built from orders in plain Python: a dictionary of orders, levels summed anew for every row."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from alpha_pipeline.ingest.records import MBP10_DTYPE, UNDEF_PRICE

LAST, TOB, SNAPSHOT, MAYBE_BAD = 0x80, 0x40, 0x20, 0x04
MAX_SIZE = 2**32 - 1
Level = tuple[int, int, int]


@dataclass
class Book:
    """One instrument.

    Attributes:
        orders: side, price and size of each order by id.
        tob: price and size of a side that a top-of-book record states.
        shown: the ten levels and the bad-book flag that the last event end showed.
        told: whether the event in progress gave a row.
        bad: whether a record of it is marked as of a bad book, as that flag.
        last: last record of the event in progress, when it is no snapshot's.
    """

    orders: dict[int, tuple[bytes, int, int]] = field(default_factory=dict)
    tob: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    shown: tuple[list[tuple[Level, Level]], int] | None = None
    told: bool = False
    bad: int = 0
    last: np.void | None = None


class Oracle:
    """Rows and counts of a stream of MBO records."""

    def __init__(self) -> None:
        self.books: dict[int, Book] = {}
        self.rows: list[np.ndarray] = []
        self.counts: Counter[str] = Counter()

    def run(self, records: Iterable[np.void]) -> np.ndarray:
        for record in records:
            self.push(record)
        for _, book in sorted(self.books.items()):
            if book.last is not None:
                self.rows.append(self.row(book, book.last))
                self.counts["unfinished_events"] += 1
        return np.concatenate([*self.rows, np.empty(0, MBP10_DTYPE)])

    def push(self, record: np.void) -> None:
        book = self.books.setdefault(int(record["instrument_id"]), self.new_book())
        flags, action = int(record["flags"]), record["action"]
        self.apply(book, record)
        book.bad |= flags & MAYBE_BAD
        if action in (b"T", b"R"):
            self.rows.append(self.row(book, record))
            book.told = True
        if not flags & LAST:
            book.last = record if not flags & SNAPSHOT else (record if book.last is not None else None)
            return
        shown = (self.levels(book, count=False), book.bad)
        if action not in (b"T", b"R"):
            if book.told or shown != book.shown:
                self.rows.append(self.row(book, record))
            else:
                self.levels(book)
                self.counts["events_without_visible_change"] += 1
                shown = book.shown
        book.shown, book.told, book.bad, book.last = shown, False, 0, None

    def new_book(self) -> Book:
        return Book(shown=(self.levels(Book()), 0))

    def apply(self, book: Book, record: np.void) -> None:
        flags, action = int(record["flags"]), record["action"]
        side, price, size = record["side"], int(record["price"]), int(record["size"])
        order_id = int(record["order_id"])
        if action == b"R":
            book.orders.clear()
            book.tob.clear()
        elif action not in (b"A", b"C", b"M"):
            return
        elif flags & TOB and (action != b"C" or price == UNDEF_PRICE):
            self.top_of_book(book, side, price, size)
        elif action == b"C":
            self.cancel(book, order_id, size)
        else:
            self.place(book, order_id, action, side, price, size)

    def top_of_book(self, book: Book, side: bytes, price: int, size: int) -> None:
        if side not in (b"A", b"B"):
            self.counts["orders_without_side"] += 1
            return
        book.orders = {key: order for key, order in book.orders.items() if order[0] != side}
        book.tob.pop(side, None)
        if price == UNDEF_PRICE:
            return
        if size == 0:
            self.counts["orders_without_size"] += 1
            return
        book.tob[side] = (price, size)

    def cancel(self, book: Book, order_id: int, size: int) -> None:
        if order_id not in book.orders:
            self.counts["unknown_orders_cancelled"] += 1
            return
        side, price, open_size = book.orders[order_id]
        self.counts["cancelled_beyond_size"] += size > open_size
        if size < open_size:
            book.orders[order_id] = (side, price, open_size - size)
        else:
            del book.orders[order_id]

    def place(self, book: Book, order_id: int, action: bytes, side: bytes, price: int, size: int) -> None:
        known = book.orders.pop(order_id, None)
        self.counts["known_orders_added"] += action == b"A" and known is not None
        self.counts["unknown_orders_modified"] += action == b"M" and known is None
        if side not in (b"A", b"B") and known is not None:
            side = known[0]
        if side not in (b"A", b"B"):
            self.counts["orders_without_side"] += 1
        elif price == UNDEF_PRICE:
            self.counts["orders_without_price"] += 1
        elif size == 0:
            self.counts["orders_without_size"] += 1
        else:
            book.orders[order_id] = (side, price, size)

    def levels(self, book: Book, count: bool = True) -> list[tuple[Level, Level]]:
        sides = [self.side(book, b"B")[:10], self.side(book, b"A")[:10]]
        if count:
            self.counts["level_sizes_beyond_32_bits"] += sum(
                size > MAX_SIZE for side in sides for _, size, _ in side
            )
        cut = [[(price, min(size, MAX_SIZE), n) for price, size, n in side] for side in sides]
        bids, asks = ([*side, *[(UNDEF_PRICE, 0, 0)] * (10 - len(side))] for side in cut)
        return list(zip(bids, asks, strict=True))

    def side(self, book: Book, side: bytes) -> list[Level]:
        sizes: Counter[int] = Counter()
        orders: Counter[int] = Counter()
        for where, price, size in book.orders.values():
            if where == side:
                sizes[price] += size
                orders[price] += 1
        if side in book.tob:
            price, size = book.tob[side]
            sizes[price] += size
        prices = sorted(sizes, reverse=side == b"B")
        return [(price, sizes[price], orders[price]) for price in prices]

    def row(self, book: Book, record: np.void) -> np.ndarray:
        row = np.zeros(1, MBP10_DTYPE)
        for name in set(MBP10_DTYPE.names) - {"levels", "depth", "length", "rtype", "flags"}:
            row[name] = record[name]
        row["length"], row["rtype"] = 92, 10
        row["flags"] = int(record["flags"]) | book.bad
        row["depth"] = self.depth(book, record)
        for k, (bid, ask) in enumerate(self.levels(book)):
            row["levels"][0, k] = (bid[0], ask[0], bid[1], ask[1], bid[2], ask[2])
        return row

    def depth(self, book: Book, record: np.void) -> int:
        side, price = record["side"], int(record["price"])
        if record["action"] not in (b"A", b"C", b"M") or side not in (b"A", b"B") or price == UNDEF_PRICE:
            return 0
        better = [p for p, _, _ in self.side(book, side) if (p > price if side == b"B" else p < price)]
        return min(len(better), 10)
