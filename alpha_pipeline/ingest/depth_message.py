"""One line of a depth or trade log: `<receive time> <message>`, read strictly and in whole numbers."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

MICRO_FROM, NANO_FROM, NEVER_FROM = 10**14, 10**17, 2**63
"""Receive times in [MICRO_FROM, NANO_FROM) are microseconds (1973 to 5138), those up to 2262 nanoseconds."""

DEPTH, TRADE, SNAPSHOT = "depth", "trade", "snapshot"
SHOWN = 40
"""Characters of a wrong value that an error shows."""


def nano(text: object) -> int:
    """A decimal in units of 1e-9, exactly.

    Raises:
        ValueError: it is no decimal of at most nine places.
    """
    if not isinstance(text, str) or not text.isascii():
        raise ValueError(f"{str(text)[:SHOWN]!r} is no decimal in quotes")
    whole, _, fraction = text.partition(".")
    if not (whole.removeprefix("-").isdecimal() and (fraction or "0").isdecimal()):
        raise ValueError(f"{text[:SHOWN]!r} is no decimal")
    if len(fraction.rstrip("0")) > 9:
        raise ValueError(f"{text[:SHOWN]!r} has more than nine decimals")
    return int(whole + fraction.ljust(9, "0")[:9])


def whole(value: object, name: str) -> int:
    """An id or a time, which must be a whole number. Raises ValueError for anything else."""
    if type(value) is not int or not 0 <= value < NEVER_FROM:
        raise ValueError(f"{name} is {str(value)[:SHOWN]!r}, must be a whole number below 2^63")
    return value


class Message(NamedTuple):
    """One line of a log.

    Attributes:
        received: receive time in ns.
        symbol: the symbol of its stream in capitals, None for a snapshot, which says none.
        kind: "snapshot", or the stream's name: "depth", "trade", "bookTicker", ...
        content: its fields.
    """

    received: int
    symbol: str | None
    kind: str
    content: Mapping[str, Any]


def parsed(line: bytes) -> Message:
    """A line without its end.

    Raises:
        ValueError, KeyError, TypeError, RecursionError: the line is not of the format.
    """
    stamp, _, text = line.partition(b" ")
    received = int(stamp) if stamp.isdigit() and len(stamp) < 20 else 0
    if not MICRO_FROM <= received < NEVER_FROM:
        raise ValueError(
            f"the time {stamp[:SHOWN]!r} is neither in microseconds nor in nanoseconds since 1970"
        )
    received *= 1 if received >= NANO_FROM else 1000
    message = json.loads(text)
    if "lastUpdateId" in message:
        return Message(received, None, SNAPSHOT, message)
    symbol, _, stream = str(message["stream"]).partition("@")
    return Message(received, symbol.upper(), stream.partition("@")[0], message["data"])


def reason(error: Exception) -> str:
    """What is wrong with a line, in words."""
    if isinstance(error, KeyError):
        return f"no field {error}"
    if isinstance(error, RecursionError):
        return "brackets within brackets without end"
    return str(error)[:200]
