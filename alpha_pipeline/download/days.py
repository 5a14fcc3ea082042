"""Which days are missing, and each of them as one whole file under its final name, or none."""

import gc
import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from filelock import FileLock

from alpha_core.errors import AlphaError, ConfigError, DataError
from alpha_pipeline.download.config import DownloadConfig
from alpha_pipeline.download.parts import Piece, inspect, join
from alpha_pipeline.download.vendor import BrokenStreamError, NotYetAvailableError, Vendor
from alpha_pipeline.ingest.folder import RawFolder
from alpha_pipeline.ingest.sessions import open_minutes
from alpha_pipeline.ingest.source import find_days
from alpha_pipeline.instrument import InstrumentSpec, safe_name

FETCHED, PRESENT, CLOSED, NOT_YET, FAILED = "fetched", "present", "closed", "not yet available", "failed"


@dataclass(frozen=True, kw_only=True)
class DayResult:
    """What came of one day.

    Attributes:
        day: UTC date.
        outcome: FETCHED, PRESENT (a file of the day lies there already), CLOSED (no session of the calendar touches
            the date), NOT_YET (the vendor does not have the whole day) or FAILED.
        detail: number of records and what the vendor warns of, or why not.
        file: name of the day's file, None where there is none.
    """

    day: str
    outcome: str
    detail: str
    file: str | None = None


def days_between(first: str, last: str) -> list[str]:
    """All dates from the first to the last.

    Raises:
        ConfigError: one is no date, or they are in the wrong order.
    """
    try:
        start, end = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError as error:
        raise ConfigError(
            f"--start and --end were {first!r} and {last!r}, must be dates like 2024-01-31"
        ) from error
    if end < start:
        raise ConfigError(f"--end was {last}, must not lie before --start ({first})")
    return [str(start + timedelta(days=k)) for k in range((end - start).days + 1)]


def day_after(day: str) -> str:
    """The next date."""
    return str(date.fromisoformat(day) + timedelta(days=1))


def file_name(spec: InstrumentSpec, config: DownloadConfig, day: str) -> str:
    """Name of a day's file: the instrument's first symbol, safely encoded, so that the name alone says whose it is."""
    return f"{safe_name(spec.symbols[0])}-{day}.{config.schema}.dbn.zst"


def missing_days(folder: RawFolder, spec: InstrumentSpec, days: Sequence[str]) -> list[str]:
    """The days that have a session and no file of the instrument, whoever put it there."""
    present = _present(folder, spec)
    return [day for day in days if day not in present and open_minutes(spec.calendar, day)]


def fetch_days(
    vendor: Vendor,
    config: DownloadConfig,
    spec: InstrumentSpec,
    folder: RawFolder,
    days: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[DayResult]:
    """Fetch what is missing, oldest first; one day's failure does not stop the next.

    A day is only asked for once the vendor has all of it: a part of a day is never published. A date that no session
    of the market's calendar touches is not asked for; one that the vendor has no records of becomes an empty file.

    Args:
        vendor: the account.
        config: what to ask for.
        spec: the instrument.
        folder: where its raw files lie.
        days: UTC dates.
        say: receives lines for people.

    Raises:
        ConfigError: the key is refused: no day can be fetched.
    """
    present = _present(folder, spec)
    available: datetime | None = None
    for day in days:
        if day in present:
            yield DayResult(day=day, outcome=PRESENT, detail="nothing to do", file=present[day][0].name)
            continue
        if not open_minutes(spec.calendar, day):
            yield DayResult(day=day, outcome=CLOSED, detail=f"no session of {spec.calendar}")
            continue
        available = available or _moment(vendor.available_end())
        if available < _midnight_after(day):
            yield DayResult(
                day=day, outcome=NOT_YET, detail=f"the vendor has data until {available.isoformat()}"
            )
            continue
        yield _fetched(_DayFetch(vendor, config, day, say), folder, file_name(spec, config, day))


def _present(folder: RawFolder, spec: InstrumentSpec) -> dict[str, list[Path]]:
    folder.staging.mkdir(parents=True, exist_ok=True)  # a folder that is not there yet has no files
    return find_days(folder, spec)


def _fetched(fetch: "_DayFetch", folder: RawFolder, name: str) -> DayResult:
    """One day under its final name, unless another process was quicker."""
    try:
        with _alone(folder, name):
            if folder.has(name):
                return DayResult(day=fetch.day, outcome=PRESENT, detail="nothing to do", file=name)
            with _scratch(folder.staging, name) as scratch:
                whole = fetch.run(scratch)
                folder.add(whole, name)
    except NotYetAvailableError as error:
        return DayResult(day=fetch.day, outcome=NOT_YET, detail=str(error))
    except ConfigError:
        raise
    except (AlphaError, OSError) as error:
        return DayResult(day=fetch.day, outcome=FAILED, detail=str(error))
    return DayResult(day=fetch.day, outcome=FETCHED, detail=fetch.told(), file=name)


class _DayFetch:
    """One day's stream, gone on with where it breaks.

    Attributes:
        day: UTC date.
        records: whole records of the day, known at the end.
        warnings: what the vendor warned of.
    """

    def __init__(self, vendor: Vendor, config: DownloadConfig, day: str, say: Callable[[str], None]) -> None:
        self.day = day
        self.records = 0
        self.warnings: list[str] = []
        self._vendor, self._config, self._say = vendor, config, say
        self._parts: list[tuple[Path, int | None]] = []
        self._start: str | int = day

    def told(self) -> str:
        """What came, for people."""
        return "; ".join(
            [f"{self.records} records", *(f"the vendor warns: {text}" for text in self.warnings)]
        )

    def run(self, scratch: Callable[[str], Path]) -> Path:
        """The whole day in a file of its own.

        Args:
            scratch: makes paths of temporary files.

        Raises:
            NotYetAvailableError: the vendor does not have the whole day.
            DataError: the vendor refuses, or streams break too often in a row without bringing anything new.
        """
        fruitless = 0
        while fruitless < self._config.attempts:
            part = scratch("part")
            broken = self._streamed(part)
            piece = inspect(part, self._config.schema) if part.exists() else None
            if piece is not None and piece.whole and not broken and self._follows(piece):
                self._parts.append((part, None))
                return self._joined(piece.records, scratch)
            self._say(f"{self.day}: the stream broke ({broken or 'before its end'}), going on")
            fruitless = 0 if self._kept(part, piece) else fruitless + 1
            if fruitless < self._config.attempts:
                self._vendor.pause(max(1, fruitless))
        raise DataError(f"{self.day}: the stream broke {fruitless} times in a row: try again later")

    def _streamed(self, part: Path) -> str:
        """Stream into a file; returns why it broke, "" when it did not."""
        reason = ""
        try:
            self.warnings += self._vendor.stream(self._start, day_after(self.day), part)
        except BrokenStreamError as error:
            reason = str(error)
        if reason:
            gc.collect()  # the client leaves its file open, with its last bytes still in memory, to the collector
        return reason

    def _follows(self, piece: Piece) -> bool:
        """Whether the piece begins where it was asked to."""
        start = self._start
        return isinstance(start, str) or piece.first_ns is None or piece.first_ns >= start

    def _kept(self, part: Path, piece: Piece | None) -> bool:
        """Keep what a broken stream brought; returns whether that was anything new."""
        if piece is None or piece.latest_ns is None:
            return False
        if not piece.ordered or not self._follows(piece):
            self._parts, self._start = [], self.day
            return False
        if piece.latest_ns == self._start:
            return False
        self._parts.append((part, piece.latest_ns))
        self._start = piece.latest_ns
        return True

    def _joined(self, records: int, scratch: Callable[[str], Path]) -> Path:
        """The one piece as it came, or all of them in one file."""
        self.warnings = list(dict.fromkeys(self.warnings))
        self.records = records
        if len(self._parts) == 1:
            return self._parts[0][0]
        whole = scratch("whole")
        self.records = join(self._parts, self._config.schema, whole)
        return whole


@contextmanager
def _alone(folder: RawFolder, name: str) -> Iterator[None]:
    """Only one process of this machine fetches a file; it also clears away what killed ones left of it."""
    folder.staging.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.staging / f".{name}.lock"):
        for leftover in folder.staging.glob(f".{glob.escape(name)}.*.tmp"):
            leftover.unlink(missing_ok=True)
        yield


@contextmanager
def _scratch(staging: Path, name: str) -> Iterator[Callable[[str], Path]]:
    """Hidden names beside the target, which vanish at the end."""
    made: list[Path] = []

    def path(kind: str) -> Path:
        made.append(staging / f".{name}.{kind}{len(made)}.tmp")
        return made[-1]

    try:
        yield path
    finally:
        for one in made:
            one.unlink(missing_ok=True)


def _moment(text: str) -> datetime:
    """ISO 8601 with up to nine decimals of a second, which the standard library does not read."""
    seconds = text.replace("Z", "+00:00")
    head, dot, rest = seconds.partition(".")
    zone = rest[rest.find("+") :] if "+" in rest else ""
    found = datetime.fromisoformat(head + zone if dot else seconds)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _midnight_after(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day_after(day)), datetime.min.time(), UTC)
