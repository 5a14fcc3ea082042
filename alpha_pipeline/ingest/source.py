"""Where raw data come from: the registry of sources and the search of a folder.

A further venue is one module that implements `raw.Source` and one entry in `SOURCES`. It gives records in the
layout of MBP10_DTYPE; selection, events, segments, tables and reports are the same for all.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractContextManager
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from alpha_core.errors import InputError
from alpha_pipeline.ingest.databento import DbnSource
from alpha_pipeline.ingest.depth_log import DepthLogSource
from alpha_pipeline.ingest.folder import RawFolder
from alpha_pipeline.ingest.lobster import LobsterSource
from alpha_pipeline.ingest.raw import FileName, RawFile, Source
from alpha_pipeline.instrument import InstrumentSpec

SHOWN_FILES = 3

REMEDIES = {"a folder": "move what it holds", "a broken link": "mend what it points to"}

SOURCES: tuple[Source, ...] = (DbnSource(), DepthLogSource(), LobsterSource())


def open_raw(
    path: Path, spec: InstrumentSpec, beside: Sequence[Path] = ()
) -> AbstractContextManager[RawFile]:
    """Begin to read a raw file with the source that its name belongs to; `beside` are all files of its day.

    Raises:
        InputError: no source reads such files, or the file is not what its name claims.
    """
    for source in SOURCES:
        if source.recognises(path.name):
            return source.open(path, spec, beside)
    raise InputError(
        f"{path} has a name that no source knows, must end like .dbn.zst, or be like btcusdt_20240808.gz: rename or "
        "remove it"
    )


def discover(raw: RawFolder, spec: InstrumentSpec) -> dict[str, list[Path]]:
    """The instrument's files below a folder, by UTC day; several files of one day in order of their names.

    Symbols are compared whole (`InstrumentSpec.matches`), never as parts of a name. Files whose name says
    another schema, hidden files and files of other kinds are passed over. So are files of single orders on a
    day that also has files of books, unless both names tell a symbol and not the same one: the books that a
    venue made come before those that would be built here, and nothing is read twice. Files of earlier days that a
    day's files go on from come first among its files: they give no records, and a change of them changes the day.

    Args:
        raw: folder, searched with its subfolders.
        spec: the instrument.

    Returns:
        Day 'YYYY-MM-DD' -> files, oldest day first.

    Raises:
        InputError: the folder is absent, holds no file of the instrument, one of several days or of a day that is no
            date, or something else where a file is expected.
    """
    days = find_days(raw, spec)
    if not days:
        raise InputError(_nothing_found(raw, spec, raw.files()))
    return days


def find_days(raw: RawFolder, spec: InstrumentSpec) -> dict[str, list[Path]]:
    """As `discover`, but a folder without a file of the instrument is an answer too."""
    files = raw.files()
    _refuse_others(raw, spec)
    ours = _ours(raw, files, spec)
    days: dict[str, dict[Path, FileName]] = defaultdict(dict)
    for path, name in ours.items():
        _refuse_impossible(path, name.day)
        if name.until is not None:
            raise InputError(
                f"{path} spans the days {name.day} to {name.until}, must hold one UTC day: split it with `alpha split`"
            )
        days[name.day][path] = name
    leads = _leads(raw, days)
    return {day: [*leads.get(day, ()), *_read_once(days[day])] for day in sorted(days)}


def _leads(raw: RawFolder, days: Mapping[str, Mapping[Path, FileName]]) -> dict[str, list[Path]]:
    """Files of earlier days that a day's files go on from, oldest first, back to one that stands alone."""
    before: dict[Path, list[Path]] = {}
    for day, files in days.items():
        eve = days.get(f"{date.fromisoformat(day) - timedelta(days=1)}", {})
        for path, name in files.items():
            if name.goes_on:
                before[path] = [p for p, n in eve.items() if n.goes_on and n.symbol == name.symbol]
    asked = [path for path, earlier in before.items() if earlier]
    alone = raw.peek(asked, "stands alone", _stands_alone)
    needs = {path: before[path] for path, yes in zip(asked, alone, strict=True) if not yes}
    leads: dict[str, list[Path]] = {}
    for day in sorted(days):
        direct = [lead for path in days[day] for lead in needs.get(path, ())]
        eve = f"{date.fromisoformat(day) - timedelta(days=1)}"
        further = leads.get(eve, []) if any(path in needs for path in direct) else []
        if direct:
            leads[day] = list(dict.fromkeys([*further, *direct]))
    return leads


def _stands_alone(path: Path) -> bool:
    return next(source for source in SOURCES if source.recognises(path.name)).stands_alone(path)


def _refuse_impossible(path: Path, day: str) -> None:
    """A day that no calendar has is a slip of the pen, and the day that was meant would be missing."""
    try:
        date.fromisoformat(day)
    except ValueError as error:
        raise InputError(
            f"{path} says the day {day} in its name, must be a date of the calendar ({error}): give it its right name"
        ) from error


def _refuse_others(raw: RawFolder, spec: InstrumentSpec) -> None:
    """What is named like a raw file and is none (a half copy, a link to nothing): its day would be missing."""
    for path, what in raw.others().items():
        names = [name for source in SOURCES if (name := source.parse(path.name)) is not None]
        if any(name.usable and (name.symbol is None or spec.matches(name.symbol)) for name in names):
            raise InputError(
                f"{path} is {what}, must be a file as its name says: {REMEDIES.get(what, 'remove it')}, or give it "
                "another name"
            )


def _ours(raw: RawFolder, files: Sequence[Path], spec: InstrumentSpec) -> dict[Path, FileName]:
    """The files of the instrument and what their names say, in order."""
    named: dict[Path, FileName] = {}
    for source in SOURCES:
        parsed = {path: source.parse(path.name) for path in files if path not in named}
        usable = {path: name for path, name in parsed.items() if name is not None and name.usable}
        silent = [path for path, name in usable.items() if name.symbol is None]
        belong = raw.peek(silent, f"belongs to {'|'.join(spec.symbols)}", partial(source.belongs, spec=spec))
        inside = {path for path, yes in zip(silent, belong, strict=True) if yes}
        named |= {
            path: name
            for path, name in usable.items()
            if path in inside or (name.symbol is not None and spec.matches(name.symbol))
        }
    return {path: named[path] for path in files if path in named}


def _read_once(files: Mapping[Path, FileName]) -> list[Path]:
    """The files of one day without those of orders which files of books may repeat."""
    books = {name.symbol for name in files.values() if not name.orders}
    return [path for path, name in files.items() if not (name.orders and _may_repeat(name.symbol, books))]


def _may_repeat(symbol: str | None, others: Set[str | None]) -> bool:
    return bool(others) and (symbol is None or symbol in others or None in others)


def _nothing_found(raw: RawFolder, spec: InstrumentSpec, passed: Sequence[Path]) -> str:
    wanted = f"{spec.name} (symbols {' or '.join(spec.symbols)})"
    if not passed:
        return f"{raw} is empty, must hold MBP-10 files of {wanted}"
    shown = ", ".join(path.name for path in passed[:SHOWN_FILES])
    more = f" and {len(passed) - SHOWN_FILES} more" if len(passed) > SHOWN_FILES else ""
    return (
        f"{raw} holds no MBP-10 file of {wanted}, only {shown}{more}: add files named like "
        f"{spec.symbols[0]}-2024-07-24.mbp-10.dbn.zst or mend `symbols`"
    )
