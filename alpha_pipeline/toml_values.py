"""Values of an instrument's file: which of them no setting takes, and how one of the wrong form is mended."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

WIDEST = 2**32 - 1
"""Largest whole number of any setting: an instrument id of the raw files. No count of rows or bytes comes near it."""


def unfit_values(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """One phrase for each value that no setting takes.

    Args:
        values: a table of the file.
        above: its name with a dot behind it, empty for the whole file.
    """
    for key, value in values.items():
        yield from _unfit(f"{above}{key}", value)


def _unfit(where: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from unfit_values(value, f"{where}.")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unfit(f"{where}.{number}", item)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"{where} was {value}, must be a finite number of at most 1.8e308"
    elif isinstance(value, str):
        if any(ord(letter) < ord(" ") or letter == "\x7f" for letter in value):
            yield f"{where} was {value!r}, must be text of one line without control characters"
    elif not isinstance(value, int):
        yield f'{where} was {value} without quotes, must be text in quotes: "{value}"'
    elif abs(value) > WIDEST:
        yield f"{where} was {_short(value)}, must be a whole number of at most {WIDEST}"


def _short(value: int) -> str:
    """Python refuses to write out a number of thousands of digits."""
    return str(value) if value.bit_length() <= 100 else f"a number of {value.bit_length()} bits"


def with_tuples(value: Any) -> Any:
    """The same value with tuples in the place of lists, which is what settings hold."""
    if isinstance(value, Mapping):
        return {key: with_tuples(item) for key, item in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, (list, tuple)) else value


def mended(kind: str, value: Any) -> str | None:
    """What a value must be instead, and how it is written, None for an error that is not one of form.

    Args:
        kind: pydantic's name of the error.
        value: as the file has it.
    """
    if kind not in _FORMS:
        return None
    asked, rewritten = _FORMS[kind]
    written = None if isinstance(value, (Mapping, list, tuple)) else rewritten(value)
    return f"was {json.dumps(value)}, {asked}" + (f": {written}" if written else "")


def _number(value: Any) -> str | None:
    """The number that a text holds, or a float that is whole."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else None
    return f"{value} without quotes" if isinstance(value, str) and _is_number(value) else None


def _truth(value: Any) -> str | None:
    known = {"1": "true", "true": "true", "0": "false", "false": "false"}
    return known.get(str(value).lower())


def _nothing(_: Any) -> None:
    """A number has no form as a section."""


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


_FORMS: dict[str, tuple[str, Callable[[Any], str | None]]] = {
    "string_type": ("must be text in quotes", lambda value: json.dumps(json.dumps(value))),
    "tuple_type": ("must be a list", lambda value: json.dumps([value])),
    "int_type": ("must be a whole number", _number),
    "int_from_float": ("must be a whole number", _number),
    "float_type": ("must be a number", _number),
    "bool_type": ("must be true or false", _truth),
    "dataclass_type": ("must be a section of its own", _nothing),
    "model_type": ("must be a section of its own", _nothing),
}
"""By pydantic's name of an error: what it asks for in words of the file, and how the same value is written so."""
