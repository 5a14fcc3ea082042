"""What an instrument is: its names, its grid of prices, its calendar. No file access here."""

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import ClassVar
from urllib.parse import quote, unquote

from alpha_core.errors import ConfigError

NANO = 10**9
"""Raw prices count units of 1e-9."""

CONTRACT = re.compile(r"[FGHJKMNQUVXZ]\d{1,2}|\.[cnv]\.\d+")
"""What follows the root in a futures contract's name: month letter and last one or two digits of the year, or
rule and rank of a continuous contract."""

MAX_SYMBOL = 71
"""Longest symbol of the file format (a C string of 71 bytes)."""


@dataclass(frozen=True, kw_only=True)
class InstrumentSpec:
    """One market as the pipeline sees it.

    Attributes:
        name: short lower-case name, used for folders and titles.
        symbols: raw symbols ("ESH4", "NEXOUSDT"), continuous ones ("ES.c.0") or futures roots ("ES", which
            stands for ESH4, ESM4, ... and never for MESH4).
        tick_size: price increment in price points, as an exact decimal ("0.25", "0.00390625").
        lot_size: quantity of one lot, an exact decimal; for sources whose sizes are decimals ("0.00001").
        multiplier: account currency per price point and lot.
        currency: account currency, three to five capital letters.
        calendar: "24/7" or a code of exchange_calendars ("CMES", "XNYS").
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str = "demo"
    symbols: tuple[str, ...] = ("DEMO",)
    tick_size: str = "0.25"
    lot_size: str = "1"
    multiplier: float = 50.0
    currency: str = "USD"
    calendar: str = "24/7"

    def __post_init__(self) -> None:
        problems = [*_name_problems(self), *_price_problems(self)]
        if problems:
            raise ConfigError("instrument: " + "; ".join(problems))

    @property
    def tick_nanos(self) -> int:
        """Price increment in units of 1e-9, exact."""
        return int(Decimal(self.tick_size) * NANO)

    @property
    def lot_nanos(self) -> int:
        """Quantity of one lot in units of 1e-9, exact."""
        return int(Decimal(self.lot_size) * NANO)

    def matches(self, symbol: str) -> bool:
        """Whether a raw symbol is this instrument: a listed symbol, or a contract of a listed root."""
        return any(_is_symbol_or_contract(symbol, listed) for listed in self.symbols)


def safe_name(symbol: str) -> str:
    """A symbol as one path component, from which `symbol_of` recovers it exactly.

    Letters, digits, `_` and `-` stay; everything else, the dot included, is percent-encoded, so that no
    symbol can name a parent folder, a hidden file or an extension.

    Raises:
        ConfigError: the symbol is empty or longer than a file system takes.
    """
    if not symbol or len(symbol.encode()) > MAX_SYMBOL:
        raise ConfigError(f"symbol {symbol!r} has {len(symbol.encode())} bytes, must have 1 to {MAX_SYMBOL}")
    return quote(symbol, safe="").replace(".", "%2E").replace("~", "%7E")


def symbol_of(name: str) -> str:
    """The symbol that `safe_name` encoded."""
    return unquote(name)


def _is_symbol_or_contract(symbol: str, listed: str) -> bool:
    if symbol == listed:
        return True
    return symbol.startswith(listed) and CONTRACT.fullmatch(symbol[len(listed) :]) is not None


def _name_problems(spec: InstrumentSpec) -> list[str]:
    problems = []
    if not re.fullmatch(r"[a-z0-9_][a-z0-9_-]{0,40}", spec.name):
        problems.append(f"name was {spec.name!r}, must be 1 to 41 of a-z, 0-9, _ and -")
    if not spec.symbols or not all(0 < len(symbol.encode()) <= MAX_SYMBOL for symbol in spec.symbols):
        problems.append(
            f"symbols was {spec.symbols!r}, must list at least one symbol of 1 to {MAX_SYMBOL} bytes"
        )
    if len(set(spec.symbols)) != len(spec.symbols):
        problems.append(f"symbols was {spec.symbols!r}, must not repeat")
    if not re.fullmatch(r"[A-Z]{3,5}", spec.currency):
        problems.append(f"currency was {spec.currency!r}, must be 3 to 5 capital letters")
    if not spec.calendar:
        problems.append("calendar was '', must be '24/7' or a code of exchange_calendars such as 'CMES'")
    return problems


def _price_problems(spec: InstrumentSpec) -> list[str]:
    problems = []
    problems += [
        f"{name} was {value!r}, must be a positive decimal of at most nine places like '0.25'"
        for name, value in (("tick_size", spec.tick_size), ("lot_size", spec.lot_size))
        if not _is_tick(value)
    ]
    if not 0 < spec.multiplier < float("inf"):
        problems.append(f"multiplier was {spec.multiplier}, must be positive and finite")
    return problems


def _is_tick(text: str) -> bool:
    try:
        nanos = Decimal(text) * NANO
    except InvalidOperation:
        return False
    return nanos.is_finite() and nanos > 0 and nanos == nanos.to_integral_value() and nanos < 2**62
