"""Which days are missing, and each of them as one whole file under its final name, or none."""

import gc
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from alpha_core.errors import AlphaError, ConfigError, DataError
from alpha_pipeline.download.config import DownloadConfig
from alpha_pipeline.download.parts import inspect, join
from alpha_pipeline.download.vendor import BrokenStreamError, NotYetAvailableError, Vendor
from alpha_pipeline.ingest.sessions import open_minutes

FETCHED, PRESENT, CLOSED, NOT_YET, FAILED = "fetched", "present", "closed", "not yet available", "failed"


@dataclass(frozen=True, kw_only=True)
class DayResult:
    """What came of one day.

    Attributes:
        day: UTC date.
        outcome: FETCHED, PRESENT (its file lies there already), CLOSED (no session of the calendar touches the
            date), NOT_YET (the vendor does not have the whole day) or FAILED.
        detail: number of records, or why not.
        file: the day's file, None where there is none.
    """

    day: str
    outcome: str
    detail: str
    file: Path | None = None


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


def missing_days(folder: Path, config: DownloadConfig, calendar: str, days: Sequence[str]) -> list[str]:
    """The days that have a session and no file yet."""
    return [
        day for day in days if not (folder / config.file_name(day)).exists() and open_minutes(calendar, day)
    ]


def fetch_days(
    vendor: Vendor,
    config: DownloadConfig,
    calendar: str,
    folder: Path,
    days: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[DayResult]:
    """Fetch what is missing, oldest first; one day's failure does not stop the next.

    A day is only asked for once the vendor has all of it: a part of a day is never published.

    Args:
        vendor: the account.
        config: what to ask for.
        calendar: sessions of the market; a date that none touches is not asked for.
        folder: where the instrument's raw files lie.
        days: UTC dates.
        say: receives lines for people.

    Raises:
        ConfigError: the key is refused: no day can be fetched.
    """
    available: datetime | None = None
    for day in days:
        target = folder / config.file_name(day)
        if target.exists():
            yield DayResult(day=day, outcome=PRESENT, detail="nothing to do", file=target)
            continue
        if not open_minutes(calendar, day):
            yield DayResult(day=day, outcome=CLOSED, detail=f"no session of {calendar}")
            continue
        available = available or _moment(vendor.available_end())
        if available < _midnight_after(day):
            yield DayResult(
                day=day, outcome=NOT_YET, detail=f"the vendor has data until {available.isoformat()}"
            )
            continue
        yield _fetched(vendor, config, target, day, say)


def _fetched(
    vendor: Vendor, config: DownloadConfig, target: Path, day: str, say: Callable[[str], None]
) -> DayResult:
    try:
        count = fetch_day(vendor, config, target, day, say)
    except NotYetAvailableError as error:
        return DayResult(day=day, outcome=NOT_YET, detail=str(error))
    except ConfigError:
        raise
    except AlphaError as error:
        return DayResult(day=day, outcome=FAILED, detail=str(error))
    say(f"{day}: {count} records")
    return DayResult(day=day, outcome=FETCHED, detail=f"{count} records", file=target)


def fetch_day(
    vendor: Vendor, config: DownloadConfig, target: Path, day: str, say: Callable[[str], None]
) -> int:
    """Stream one day, going on where a stream breaks, and publish it under its final name; returns its records.

    Raises:
        DataError: the vendor refuses, or the stream breaks more often than attempts are allowed.
    """
    start: str | int = day
    end = day_after(day)
    parts: list[tuple[Path, int | None]] = []
    with _scratch(target) as name:
        for number in range(config.attempts):
            part = name(f"part{number}")
            broken = _streamed(vendor, start, end, part)
            piece = inspect(part, config.schema) if part.exists() else None
            if piece is not None and piece.whole and not broken:
                parts.append((part, None))
                return _published(parts, piece.records, config.schema, name("whole"), target)
            say(f"{day}: the stream broke ({broken or 'inside a compressed frame'}), going on")
            if piece is not None and piece.latest_ns is not None:
                parts.append((part, piece.latest_ns))
                start = piece.latest_ns
        raise DataError(f"{day}: the stream broke {config.attempts} times: try again later")


def _streamed(vendor: Vendor, start: str | int, end: str, part: Path) -> str:
    """Stream into a file; returns why it broke, "" when it did not."""
    reason = ""
    try:
        vendor.stream(start, end, part)
    except BrokenStreamError as error:
        reason = str(error)
    if reason:
        gc.collect()  # the client leaves its file open, with its last bytes still in memory, to the collector
    return reason


def _published(
    parts: list[tuple[Path, int | None]], records: int, schema: str, scratch: Path, target: Path
) -> int:
    """Publish the one piece as it came, or all of them joined; returns the number of records."""
    if len(parts) == 1:
        _publish(parts[0][0], target)
        return records
    count = join(parts, schema, scratch)
    _publish(scratch, target)
    return count


@contextmanager
def _scratch(target: Path) -> Iterator[Callable[[str], Path]]:
    """Hidden names beside the target, which vanish at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    token = f"{os.getpid()}-{secrets.token_hex(4)}"
    made: list[Path] = []

    def name(kind: str) -> Path:
        made.append(target.with_name(f".{target.name}.{token}.{kind}.tmp"))
        return made[-1]

    try:
        yield name
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def _publish(whole: Path, target: Path) -> None:
    with whole.open("rb") as file:
        os.fsync(file.fileno())
    whole.replace(target)
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _moment(text: str) -> datetime:
    """ISO 8601 with up to nine decimals of a second, which the standard library does not read."""
    seconds = text.replace("Z", "+00:00")
    head, dot, rest = seconds.partition(".")
    zone = rest[rest.find("+") :] if "+" in rest else ""
    found = datetime.fromisoformat(head + zone if dot else seconds)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _midnight_after(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day_after(day)), datetime.min.time(), UTC)
