"""LOBSTER's pairs without arrays: random ones, and their records one line at a time."""

from decimal import Decimal

import numpy as np

from alpha_pipeline.ingest.records import UNDEF_PRICE

LAST, SUSPECT = 0x80, 0x04
NOTHING = (UNDEF_PRICE, 0)


def message_pairs(rng: np.random.Generator, levels: int, count: int) -> list[tuple[str, str]]:
    """Random (message, book) lines: real prices, dummies, all types, books that stay as they are."""
    pairs, book, time = [], "", 34_200 * 10**9
    for k in range(count):
        time += int(rng.integers(0, 10**8))
        kind = int(rng.choice(7, p=[0.3, 0.1, 0.2, 0.2, 0.1, 0.05, 0.05])) + 1
        if not book or rng.random() < 0.6:
            numbers = []
            for level in range(levels):
                for sign, dummy in ((1, 9_999_999_999), (-1, -9_999_999_999)):
                    missing = rng.random() < 0.2
                    numbers += (
                        [dummy, 0]
                        if missing
                        else [5_000_000 + sign * 100 * (level + 1), int(rng.integers(1, 2**32))]
                    )
            book = ",".join(map(str, numbers))
        price = int(rng.integers(-1, 2)) if kind == 7 else int(rng.integers(1, 10**9))
        size = 0 if kind == 7 else int(rng.integers(1, 1000))
        seconds = f"{Decimal(time) / 10**9:.9f}".rstrip("0").rstrip(".")
        pairs.append((f"{seconds},{kind},{k},{size},{price},{int(rng.choice([-1, 1]))}", book))
    return pairs


def records(pairs: list[tuple[str, str]], midnight_ns: int) -> list[tuple]:
    """(time, sequence, action, side, price, size, flags, bids, asks) of each record."""
    rows, halted = [], False
    before = ([NOTHING] * 10, [NOTHING] * 10)
    for number, (message, book) in enumerate(pairs, 1):
        seconds, *fields = message.split(",")
        kind, _, size, price, direction = (int(text) for text in fields)
        time = midnight_ns + int(Decimal(seconds) * 10**9)
        after = _book(book)
        began = kind == 7 and price != 1 and not halted
        if kind == 7:
            halted = price != 1
        mark = SUSPECT if halted else 0
        resting = b"B" if direction == 1 else b"A"
        if began:
            nobody = ([NOTHING] * 10, [NOTHING] * 10)
            rows.append((time, number, b"R", b"N", UNDEF_PRICE, 0, mark | LAST, *nobody))
        elif kind == 7:
            rows.append((time, number, b"N", b"N", UNDEF_PRICE, 0, mark | LAST, *after))
        else:
            event = (price * 100_000, size)
            if kind in (4, 5, 6):
                taking = b"N" if kind == 6 else b"A" if direction == 1 else b"B"
                end = LAST if before == after else 0
                rows.append((time, number, b"T", taking, *event, mark | end, *before))
            if kind in (1, 2, 3) or before != after:
                action = {1: b"A", 3: b"C"}.get(kind, b"M")
                rows.append((time, number, action, resting, *event, mark | LAST, *after))
        before = after
    return rows


def told(rows: np.ndarray) -> list[tuple]:
    """The same of records as they were read."""
    names = ("ts_recv", "sequence", "action", "side", "price", "size", "flags")
    levels = rows["levels"]
    bids = np.stack([levels["bid_px"], levels["bid_sz"].astype(np.int64)], axis=2).tolist()
    asks = np.stack([levels["ask_px"], levels["ask_sz"].astype(np.int64)], axis=2).tolist()
    assert not levels["bid_ct"].any() and not levels["ask_ct"].any()
    assert (rows["ts_recv"] == rows["ts_event"]).all()
    columns = [rows[name].tolist() for name in names]
    return [
        (*row, [tuple(level) for level in bid], [tuple(level) for level in ask])
        for *row, bid, ask in zip(*columns, bids, asks, strict=True)
    ]


def _book(line: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Ten bids and ten asks as (price, size)."""
    numbers = [int(text) for text in line.split(",")]
    pairs = [
        NOTHING if abs(price) == 9_999_999_999 else (price * 100_000, size)
        for price, size in zip(numbers[0::2], numbers[1::2], strict=True)
    ]
    fill = [NOTHING] * 10
    return (pairs[1::2] + fill)[:10], (pairs[0::2] + fill)[:10]
