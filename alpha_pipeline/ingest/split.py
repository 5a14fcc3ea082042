"""A DBN file of several days as one file per UTC day, its records copied as they are."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard

from alpha_core.durable import publish
from alpha_core.errors import InputError
from alpha_pipeline.ingest.databento import DbnSource
from alpha_pipeline.ingest.dbn_bodies import Bodies
from alpha_pipeline.ingest.dbn_file import KINDS
from alpha_pipeline.ingest.dbn_header import read_header
from alpha_pipeline.ingest.records import UNDEF_TIMESTAMP
from alpha_pipeline.ingest.sessions import DAY_NS
from alpha_pipeline.ingest.stream import ByteStream
from alpha_pipeline.paths import writable_folder

if TYPE_CHECKING:
    from databento_dbn import Metadata

LEVEL = 3
MAX_DAYS = 100
"""Files written at a time; each takes some megabytes of memory for its compression."""


@dataclass(kw_only=True)
class _Day:
    """One day's file in the making."""

    partial: Path
    target: Path
    frame: zstandard.ZstdCompressionWriter
    records: int = 0


def split(path: Path, out: Path) -> dict[Path, int]:
    """Write one file per UTC day of receive time; all of them or none.

    The header of each is the file's own with the day's bounds, encoded by the official library. A record without a
    receive time goes with the one before it.

    Args:
        path: a file of MBP-10 or MBO records whose name holds a date, as the vendor's do.
        out: folder for `<lead>-<day>...dbn.zst`, made when absent.

    Returns:
        Files by day, with their number of records.

    Raises:
        ConfigError: `out` is no folder.
        InputError: the file is cut or damaged, holds other records, or a day's file is there already.
    """
    writable_folder(out)
    with ByteStream(path) as stream:
        metadata = read_header(stream)[0]
    _refuse(path, metadata)
    days: dict[int, _Day] = {}
    with ExitStack() as cleaning:
        with ExitStack() as files, ByteStream(path) as stream:
            bodies, last = Bodies(stream, str(metadata.schema)), -1
            for records in bodies:
                for number, part in _runs(records, last):
                    if number not in days:
                        days[number] = _begin(path, out, number, metadata, files, cleaning, len(days))
                    days[number].frame.write(part.tobytes())
                    days[number].records += len(part)
                    last = number
            _refuse_rest(path, stream, bodies)
        for day in days.values():
            publish(day.partial, day.target)
    return {day.target: day.records for _, day in sorted(days.items())}


def _refuse(path: Path, metadata: "Metadata") -> None:
    match = DbnSource.NAME.fullmatch(path.name)
    if match is None:
        raise InputError(
            f"{path} has no date in its name, must be like glbx-mdp3-20240101-20240131.mbp-10.dbn.zst"
        )
    if str(metadata.schema) not in {kind.schema for kind in KINDS} or metadata.ts_out:
        raise InputError(
            f"{path} holds {metadata.schema or 'a live capture'}, must hold MBP-10 or MBO records as downloaded"
        )


def _refuse_rest(path: Path, stream: ByteStream, bodies: Bodies) -> None:
    if bodies.others:
        raise InputError(
            f"{path} holds {bodies.others} records of other types, must hold one schema: fetch by day"
        )
    if stream.truncated or bodies.trailing_bytes:
        raise InputError(f"{path} ends inside a record or a compressed frame: fetch it again")


def _runs(records: np.ndarray, last: int) -> Iterator[tuple[int, np.ndarray]]:
    """Stretches of records of one day, with the day's number since 1970; one without a time follows its forerunner."""
    times = np.ascontiguousarray(records["ts_recv"])
    days = np.where(times == np.uint64(UNDEF_TIMESTAMP), -1, (times // np.uint64(DAY_NS)).astype(np.int64))
    known = np.maximum.accumulate(np.where(days >= 0, np.arange(len(days)), -1))
    days = np.where(known >= 0, days[known], last)
    bounds = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for start, end in pairwise(bounds):
        yield int(days[start]), records[start:end]


def _begin(
    path: Path,
    out: Path,
    number: int,
    metadata: "Metadata",
    files: ExitStack,
    cleaning: ExitStack,
    begun: int,
) -> _Day:
    """Open a day's file under a hidden name and write its header."""
    if number < 0:
        raise InputError(f"{path} begins with a record without a receive time: its day is not known")
    if begun >= MAX_DAYS:
        raise InputError(f"{path} spans more than {MAX_DAYS} days, must be split by month first")
    target = out / _name(path, number)
    if target.exists():
        raise InputError(f"{target} is there already: remove it or name another folder")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    cleaning.callback(partial.unlink, missing_ok=True)
    file = files.enter_context(partial.open("wb"))
    frame = files.enter_context(zstandard.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False))
    frame.write(_header(metadata, number))
    return _Day(partial=partial, target=target, frame=frame)


def _name(path: Path, number: int) -> str:
    """The file's name with one day in the place of its dates."""
    match = DbnSource.NAME.fullmatch(path.name)
    assert match is not None, "refused before"
    day = datetime.fromtimestamp(number * 86_400, UTC)
    text = f"{day:%Y-%m-%d}" if "-" in match["date"] else f"{day:%Y%m%d}"
    return f"{match['lead']}-{text}{match['rest']}.dbn.zst"


def _header(metadata: "Metadata", number: int) -> bytes:
    """The header of one day: the file's own, with other bounds."""
    import databento_dbn

    mappings: Any = [
        _Mapping(symbol, tuple(_Interval(**interval) for interval in found))
        for symbol, found in metadata.mappings.items()
    ]
    schema: Any = metadata.schema
    return databento_dbn.Metadata(
        dataset=metadata.dataset,
        start=number * DAY_NS,
        end=(number + 1) * DAY_NS,
        stype_in=metadata.stype_in,
        stype_out=metadata.stype_out,
        schema=schema,
        symbols=metadata.symbols,
        partial=metadata.partial,
        not_found=metadata.not_found,
        mappings=mappings,
        version=metadata.version,
    ).encode()


@dataclass(frozen=True)
class _Interval:
    """What the official encoder wants of one interval of a symbol's mapping."""

    start_date: date
    end_date: date
    symbol: str


@dataclass(frozen=True)
class _Mapping:
    """What the official encoder wants of one symbol's mapping."""

    raw_symbol: str
    intervals: tuple[_Interval, ...]
