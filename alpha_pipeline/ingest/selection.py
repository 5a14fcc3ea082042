"""Which records of a day's files are the instrument's: the symbol that counts, and its ids by file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.events import TRADE
from alpha_pipeline.ingest.raw import RawFile
from alpha_pipeline.ingest.records import codes
from alpha_pipeline.ingest.source import open_raw
from alpha_pipeline.ingest.symbology import Activity, Listing, front_symbol, ours, refuse_strangers, select
from alpha_pipeline.instrument import InstrumentSpec


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The symbol used for a day and where it is listed.

    Attributes:
        symbol: raw symbol, None when no file lists one of the instrument's.
        listings: the symbol's listings, by file.
        candidates: what each matching symbol did, when several match.
    """

    symbol: str | None
    listings: Mapping[Path, Sequence[Listing]]
    candidates: Mapping[str, Activity] = field(default_factory=dict)

    @property
    def instrument_ids(self) -> tuple[int, ...]:
        """All ids of the symbol in these files."""
        return tuple(sorted({listing.instrument_id for part in self.listings.values() for listing in part}))


@dataclass
class _Survey:
    """What one file lists, and what the instrument's symbols did in it.

    Attributes:
        schema: what the file's books come from.
        all: every listing of the file.
        ours: those of the instrument.
        activity: by symbol; empty unless the body was read.
        requested: whether the header says that the instrument was asked for.
        records: MBP-10 records met; 0 unless the body was read.
    """

    schema: str
    all: list[Listing]
    ours: list[Listing]
    requested: bool
    activity: dict[str, Activity] = field(default_factory=dict)
    records: int = 0


def choose(paths: Sequence[Path], spec: InstrumentSpec, chunk_records: int) -> Selection:
    """The instrument's symbol of the day and its listings; several symbols are settled by traded volume.

    Raises:
        InputError: a file cannot be read, or lists other instruments only, or repeats what another one tells.
    """
    surveys = {path: _read_header(path, spec, paths) for path in paths}
    symbols = {listing.symbol for survey in surveys.values() for listing in survey.ours}
    if len(symbols) > 1 or not all(survey.all for survey in surveys.values()):
        surveys = {path: _read_body(path, spec, paths, chunk_records) for path in paths}
    for path, survey in surveys.items():
        _refuse_unknown(path, survey, spec)
    _refuse_repeats(surveys)
    return _settle(surveys)


def _settle(surveys: Mapping[Path, _Survey]) -> Selection:
    activity: dict[str, Activity] = {
        listing.symbol: Activity() for survey in surveys.values() for listing in survey.ours
    }
    for survey in surveys.values():
        for symbol, part in survey.activity.items():
            activity[symbol] += part
    symbol = front_symbol(activity) if activity else None
    return Selection(
        symbol=symbol,
        listings={
            path: [listing for listing in survey.ours if listing.symbol == symbol]
            for path, survey in surveys.items()
        },
        candidates=activity if len(activity) > 1 else {},
    )


def _read_header(path: Path, spec: InstrumentSpec, paths: Sequence[Path]) -> _Survey:
    with open_raw(path, spec, paths) as file:
        return _survey(file, spec)


def _read_body(path: Path, spec: InstrumentSpec, paths: Sequence[Path], chunk_records: int) -> _Survey:
    activity: dict[str, Activity] = {}
    count = 0
    with open_raw(path, spec, paths) as file:
        for records in file.chunks(chunk_records):
            count += len(records)
            for listing in ours(file.listings, spec):
                part = _activity(records, listing)
                activity[listing.symbol] = activity.get(listing.symbol, Activity()) + part
        survey = _survey(file, spec)
    survey.activity, survey.records = activity, count
    return survey


def _survey(file: RawFile, spec: InstrumentSpec) -> _Survey:
    return _Survey(
        schema=file.schema,
        all=list(file.listings),
        ours=ours(file.listings, spec),
        requested=any(spec.matches(symbol) for symbol in file.requested),
    )


def _activity(records: np.ndarray, listing: Listing) -> Activity:
    mine = select(records, [listing])
    traded = mine & (codes(records, "action") == TRADE)
    return Activity(
        volume=int(records["size"][traded].sum(dtype=np.int64)), records=int(np.count_nonzero(mine))
    )


def _refuse_unknown(path: Path, survey: _Survey, spec: InstrumentSpec) -> None:
    """A file that asked for the instrument and got nothing is an empty day; one that never did, a mistake."""
    if survey.records and not survey.all:
        raise InputError(
            f"{path} maps no symbol to its {survey.records} records, so that {spec.name} cannot be told from "
            "other instruments: fetch the file again with its symbol mappings"
        )
    if survey.all and not (survey.ours or survey.requested):
        refuse_strangers(path, survey.all, spec)


def _refuse_repeats(surveys: Mapping[Path, _Survey]) -> None:
    """One symbol in files of two schemas, books and the orders that make them, would count twice."""
    seen: dict[str, tuple[Path, str]] = {}
    for path, survey in surveys.items():
        for symbol in sorted({listing.symbol for listing in survey.ours}):
            other, schema = seen.setdefault(symbol, (path, survey.schema))
            if schema != survey.schema:
                raise InputError(
                    f"{path} ({survey.schema}) and {other} ({schema}) both tell the day of {symbol}: "
                    "remove one of them"
                )
