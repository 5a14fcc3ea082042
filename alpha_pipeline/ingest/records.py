"""Byte layout of one MBP-10 record and the constants that go with it.

Source: Databento Binary Encoding, schema `mbp-10` (little endian, 368 bytes, the same in DBN versions 1 to 3).
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

RECORD_BYTES = MBP10_DTYPE.itemsize
LENGTH_UNIT = 4
HEADER_BYTES = 16
TS_OUT_BYTES = 8
"""Live streams may append the server's send time to every record."""

RTYPE_MBP10 = 0x0A
RTYPE_SYMBOL_MAPPING = 0x16
RTYPE_NAMES = {
    0x00: "trades",
    0x01: "mbp-1",
    0x0A: "mbp-10",
    0x12: "status",
    0x13: "definition",
    0x14: "imbalance",
    0x15: "error",
    0x16: "symbol-mapping",
    0x17: "system",
    0x18: "statistics",
    0xA0: "mbo",
}
"""Names of the record types that reports mention; another type is shown as its hexadecimal number."""

ADMINISTRATIVE_RTYPES = frozenset({0x12, 0x13, 0x15, 0x16, 0x17})
"""Types that accompany market data; a file of nothing else is a file without data, not a file of another schema."""

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


ACTIONS = "ACMRTFN"
"""Add, cancel, modify, clear (R), trade, fill, none."""

SIDES = "ABN"
"""Ask, bid, none; for trades the side of the aggressor: B buys, A sells."""


def rtype_name(rtype: int) -> str:
    """Name of a record type as reports show it."""
    return RTYPE_NAMES.get(rtype, f"0x{rtype:02x}")
