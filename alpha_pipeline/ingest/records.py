"""Byte layout of MBP-10 and MBO records and the constants that go with them.

Source: Databento Binary Encoding, schemas `mbp-10` (368 bytes) and `mbo` (56 bytes), little endian, the same in
DBN versions 1 to 3.
"""

from enum import IntFlag

import numpy as np

LEVEL_DTYPE = np.dtype(
    [
        ("bid_px", "<i8"),
        ("ask_px", "<i8"),
        ("bid_sz", "<u4"),
        ("ask_sz", "<u4"),
        ("bid_ct", "<u4"),
        ("ask_ct", "<u4"),
    ]
)
"""One book level, 32 bytes; prices in units of 1e-9."""

MBP10_DTYPE = np.dtype(
    [
        ("length", "u1"),
        ("rtype", "u1"),
        ("publisher_id", "<u2"),
        ("instrument_id", "<u4"),
        ("ts_event", "<u8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("action", "S1"),
        ("side", "S1"),
        ("flags", "u1"),
        ("depth", "u1"),
        ("ts_recv", "<u8"),
        ("ts_in_delta", "<i4"),
        ("sequence", "<u4"),
        ("levels", LEVEL_DTYPE, (10,)),
    ]
)
"""One record, 368 bytes; `length` counts 4-byte words, times are nanoseconds since 1970 UTC."""

MBO_DTYPE = np.dtype(
    [
        ("length", "u1"),
        ("rtype", "u1"),
        ("publisher_id", "<u2"),
        ("instrument_id", "<u4"),
        ("ts_event", "<u8"),
        ("order_id", "<u8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("flags", "u1"),
        ("channel_id", "u1"),
        ("action", "S1"),
        ("side", "S1"),
        ("ts_recv", "<u8"),
        ("ts_in_delta", "<i4"),
        ("sequence", "<u4"),
    ]
)
"""One order event, 56 bytes; fields as above."""

ID_WORD, EVENT_WORD, PRICE_WORD, WHAT_WORD, RECV_WORD, SEQUENCE_WORD, LEVEL_WORD = range(7)
"""Words of 8 bytes of an MBP-10 record; instrument id and sequence are the upper halves of theirs."""

LEVEL_WORDS = 4
ACTION_BIT, SIDE_BIT, FLAGS_BIT, UPPER_BIT = 32, 40, 48, 32
"""Where action, side and flags begin in `WHAT_WORD`, behind the size; and the upper half of any word."""

BYTE = 0xFF
RECORD_BYTES = MBP10_DTYPE.itemsize
LENGTH_UNIT = 4
HEADER_BYTES = 16
TS_OUT_BYTES = 8
"""Live streams may append the server's send time to every record."""

RTYPE_MBP10 = 0x0A
RTYPE_MBO = 0xA0
RTYPE_SYMBOL_MAPPING = 0x16
RTYPE_NAMES = {
    0x00: "trades",
    0x01: "mbp-1",
    0x0A: "mbp-10",
    0x11: "ohlcv",
    0x12: "status",
    0x13: "definition",
    0x14: "imbalance",
    0x15: "error",
    0x16: "symbol-mapping",
    0x17: "system",
    0x18: "statistics",
    0x20: "ohlcv-1s",
    0x21: "ohlcv-1m",
    0x22: "ohlcv-1h",
    0x23: "ohlcv-1d",
    0x24: "ohlcv-eod",
    0xA0: "mbo",
    0xB1: "cmbp-1",
    0xC0: "cbbo-1s",
    0xC1: "cbbo-1m",
    0xC2: "tcbbo",
    0xC3: "bbo-1s",
    0xC4: "bbo-1m",
}
"""Every record type of the format; bytes that claim another one are damage, not a record."""


ADMINISTRATIVE_RTYPES = frozenset({0x12, 0x13, 0x15, 0x16, 0x17})
"""Types that accompany market data: a file of nothing else has no data, but is not of another schema."""

UNDEF_PRICE = 2**63 - 1
UNDEF_TIMESTAMP = 2**64 - 1


class Flag(IntFlag):
    """Bits of the `flags` field."""

    LAST = 0x80
    TOB = 0x40
    SNAPSHOT = 0x20
    MBP = 0x10
    BAD_TS_RECV = 0x08
    MAYBE_BAD_BOOK = 0x04


CODE_OFFSETS = {"action": 28, "side": 29}

ACTIONS = "ACMRTFN"
"""Add, cancel, modify, clear (R), trade, fill, none."""

SIDES = "ABN"
"""Ask, bid, none; for trades the side of the aggressor: B buys, A sells."""


def codes(records: np.ndarray, field: str) -> np.ndarray:
    """Character code of a one-letter field of each record, [n] uint8, a view.

    Args:
        records: [n] MBP10_DTYPE.
        field: "action" or "side".
    """
    return records.getfield(np.uint8, CODE_OFFSETS[field])


def words(records: np.ndarray, kind: type[np.integer]) -> np.ndarray:
    """The same bytes as [n, words] integers of one width, copied only when the records are not contiguous.

    Args:
        records: [n] MBP10_DTYPE.
        kind: integer type of 4 or 8 bytes.
    """
    records = np.ascontiguousarray(records)
    return records.view(np.uint8).reshape(len(records), RECORD_BYTES).view(kind)


def take(records: np.ndarray, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Copy of some records; numpy moves rows of plain words far faster than structured elements.

    Args:
        records: [n] MBP10_DTYPE.
        index: [m] positions, all within [0, n).
        out: [m, 46] int64, memory to use.
    """
    # "clip" lets numpy write into `out` without a buffer of its own
    moved = np.take(
        words(records, np.int64), index, axis=0, out=out, mode="clip" if out is not None else "raise"
    )
    return moved.view(MBP10_DTYPE).reshape(-1)
