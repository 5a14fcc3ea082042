"""Identity of an instrument: its grid, its symbols, its name as a path."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alpha_core.errors import ConfigError
from alpha_pipeline.instrument import MAX_SYMBOL, InstrumentSpec, safe_name, symbol_of

SYMBOLS = ["EUR/USD", "BRK.A", "BRK.B", "ES.c.0", "../x", "a b", ".", "..", "~", "%2E", "a%b", "NUL\0", "Ω"]


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbol_in_path_is_one_safe_component(symbol):
    name = safe_name(symbol)
    assert symbol_of(name) == symbol
    assert PurePosixPath(name).parts == (name,)
    assert not set(name) & set("./\\\0 ~")


def test_symbol_in_path_names_differ_where_symbols_do():
    assert len({safe_name(symbol) for symbol in SYMBOLS}) == len(SYMBOLS)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=MAX_SYMBOL // 4))
def test_symbol_in_path_round_trips(symbol):
    assert symbol_of(safe_name(symbol)) == symbol


@pytest.mark.parametrize("symbol", ["", "x" * (MAX_SYMBOL + 1)])
def test_symbol_in_path_refuses_what_no_file_can_hold(symbol):
    with pytest.raises(ConfigError, match="must have 1 to 71"):
        safe_name(symbol)


@pytest.mark.parametrize(
    ("symbol", "listed", "expected"),
    [
        ("ESH4", "ES", True),
        ("ESM24", "ES", True),
        ("ES.c.0", "ES", True),
        ("ES", "ES", True),
        ("ESH4", "ESH4", True),
        ("MESH4", "ES", False),
        ("ESH4-ESM4", "ES", False),
        ("ESA4", "ES", False),
        ("ESH4", "MES", False),
        ("ABCXYZ", "XYZ", False),
        ("XYZ", "ABCXYZ", False),
        ("esh4", "ES", False),
    ],
)
def test_symbol_is_never_matched_by_substring(symbol, listed, expected):
    assert InstrumentSpec(symbols=(listed,)).matches(symbol) is expected


@pytest.mark.parametrize(
    ("tick", "nanos"),
    [("0.25", 250_000_000), ("0.015625", 15_625_000), ("0.00390625", 3_906_250), ("5", 5 * 10**9)],
)
def test_price_scale_of_the_tick_is_exact(tick, nanos):
    assert InstrumentSpec(tick_size=tick).tick_nanos == nanos


def test_all_bad_fields_are_listed_at_once():
    with pytest.raises(ConfigError) as caught:
        InstrumentSpec(
            name="../x",
            symbols=("A", "A"),
            tick_size="0.0000000001",
            multiplier=0.0,
            currency="usd",
            calendar="",
        )
    text = str(caught.value)
    for part in (
        "name was",
        "symbols was",
        "tick_size was",
        "multiplier was 0.0",
        "currency was",
        "calendar was",
    ):
        assert part in text


@pytest.mark.parametrize("tick", ["", "abc", "0", "-0.25", "NaN", "Infinity", "1e400"])
def test_tick_size_must_be_a_positive_decimal(tick):
    with pytest.raises(ConfigError, match="tick_size was"):
        InstrumentSpec(tick_size=tick)
