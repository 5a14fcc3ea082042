"""Where raw data come from: the interface of a source, the registry, and the search of a folder.

A further venue is one module that implements `Source` and one entry in `SOURCES`. A source says what a file
is by its name, reads symbols where names do not tell them, and gives records in the layout of MBP10_DTYPE;
events, segments, tables and reports are the same for all.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.databento import SCHEMA, DbnFile
from alpha_pipeline.ingest.symbology import Listing
from alpha_pipeline.instrument import InstrumentSpec, symbol_of

SHOWN_FILES = 3


@dataclass(frozen=True, kw_only=True)
class FileName:
    """What a name says of a file.

    Attributes:
        day: UTC date 'YYYY-MM-DD' of the data.
        until: last date when the file spans several days, else None.
        symbol: the symbol in the name, None when only the content tells it.
        schema: the schema in the name, None when it says none.
    """

    day: str
    until: str | None
    symbol: str | None
    schema: str | None


class OpenFile(Protocol):
    """A file being read."""

    @property
    def listings(self) -> list[Listing]:
        """Symbols and ids known so far."""
        ...

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records in file order, [n] MBP10_DTYPE."""
        ...


class Source(Protocol):
    """One format of raw files."""

    def parse(self, name: str) -> FileName | None:
        """What a file's name says, None when it is no file of this source."""
        ...

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Whether the content, where the name does not tell, may be the instrument's."""
        ...

    def open(self, path: Path) -> OpenFile:
        """Begin to read a file. Raises InputError when it is not what its name claims."""
        ...


class DbnSource:
    """DBN files, one UTC day each.

    Two forms of names: `<symbol>-<date>[.<schema>].dbn[.zst]`, and the vendor's
    `<dataset>-<date>[.<schema>][.<symbol>].dbn[.zst]` with a lower-case dataset such as `glbx-mdp3`, where
    the symbol may lie in the content only. Dates are 2023-12-25 or 20231225.
    """

    NAME = re.compile(
        r"(?P<lead>.+?)-(?P<date>\d{4}-\d{2}-\d{2}|\d{8})(?:-(?P<until>\d{4}-\d{2}-\d{2}|\d{8}))?"
        r"(?P<rest>(?:\..+)?)\.dbn(?:\.zst)?",
        re.DOTALL,
    )
    DATASET = re.compile(r"[a-z]{4,5}-[a-z0-9]+(?:-[a-z0-9]+)?")
    SCHEMAS = re.compile(
        r"mbo|mbp-\d+|tbbo|tcbbo|trades|(?:c|)bbo-\d+[sm]|cmbp-1|ohlcv-\d+[smhd]|definition|statistics|status|imbalance"
    )

    def parse(self, name: str) -> FileName | None:
        """What a file's name says, None when it is no DBN file of one day."""
        match = self.NAME.fullmatch(name)
        day = _iso_day(match["date"]) if match else None
        if match is None or day is None:
            return None
        parts = [part for part in match["rest"].split(".") if part]
        schema = next((part for part in parts if self.SCHEMAS.fullmatch(part)), None)
        inside = ".".join(part for part in parts if part != schema)
        symbol = inside if self.DATASET.fullmatch(match["lead"]) else match["lead"]
        return FileName(day=day, until=match["until"], symbol=symbol_of(symbol) or None, schema=schema)

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Whether the header lists or requests the instrument, or leaves its symbols to the body.

        An unreadable file counts as belonging: its day must fail with the reason rather than look absent.
        """
        try:
            with DbnFile(path) as file:
                named = [listing.symbol for listing in file.listings] + list(file.metadata.symbols)
        except InputError:
            return True
        return not named or any(spec.matches(symbol) for symbol in named)

    def open(self, path: Path) -> DbnFile:
        """Begin to read a file."""
        return DbnFile(path)


SOURCES: tuple[Source, ...] = (DbnSource(),)


def discover(raw: Path, spec: InstrumentSpec) -> dict[str, list[Path]]:
    """The instrument's files below a folder, by UTC day; several files of one day in order of their names.

    Symbols are compared whole (`InstrumentSpec.matches`), never as parts of a name. Files whose name says
    another schema, hidden files and files of other kinds are passed over.

    Args:
        raw: folder, searched with its subfolders.
        spec: the instrument.

    Returns:
        Day 'YYYY-MM-DD' -> files, oldest day first.

    Raises:
        InputError: the folder is absent, holds no file of the instrument, or one of several days.
    """
    if not raw.is_dir():
        raise InputError(f"{raw} is not a folder: put the files of {spec.name} there or name another folder")
    days: dict[str, list[Path]] = defaultdict(list)
    passed: list[Path] = []
    for path in _visible_files(raw):
        day = _day_of(path, spec)
        if day is None:
            passed.append(path)
        else:
            days[day].append(path)
    if not days:
        raise InputError(_nothing_found(raw, spec, passed))
    return {day: days[day] for day in sorted(days)}


def _visible_files(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(
        path for path in paths if not any(p.startswith(".") for p in path.relative_to(folder).parts)
    )


def _day_of(path: Path, spec: InstrumentSpec) -> str | None:
    for source in SOURCES:
        name = source.parse(path.name)
        if name is None or name.schema not in (None, SCHEMA):
            continue
        ours = source.belongs(path, spec) if name.symbol is None else spec.matches(name.symbol)
        if ours and name.until is not None:
            raise InputError(
                f"{path} spans the days {name.day} to {name.until}, must hold one UTC day: fetch it by day"
            )
        if ours:
            return name.day
    return None


def _nothing_found(raw: Path, spec: InstrumentSpec, passed: Sequence[Path]) -> str:
    wanted = f"{spec.name} (symbols {' or '.join(spec.symbols)})"
    if not passed:
        return f"{raw} is empty, must hold MBP-10 files of {wanted}"
    shown = ", ".join(path.name for path in passed[:SHOWN_FILES])
    more = f" and {len(passed) - SHOWN_FILES} more" if len(passed) > SHOWN_FILES else ""
    return (
        f"{raw} holds no MBP-10 file of {wanted}, only {shown}{more}: add files named like "
        f"{spec.symbols[0]}-2024-07-24.mbp-10.dbn.zst or mend `symbols`"
    )


def _iso_day(text: str) -> str | None:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None
