"""Trading sessions as nanosecond intervals, with the halts that the calendar library does not know."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from alpha_core.errors import ConfigError, DataError

ALWAYS_OPEN = "24/7"
NANOS = 10**9
DAY_NS = 86_400 * NANOS
MINUTE_NS = 60 * NANOS
MARGIN_DAYS = 10
"""Calendar days looked at on either side of the data: longer than any holiday closure."""

GLOBEX = "CMES"
CHICAGO = ZoneInfo("America/Chicago")
NEW_YORK = ZoneInfo("America/New_York")
GLOBEX_DAILY_HALT = time(16, 0)
GLOBEX_HOLIDAY_HALT = time(12, 0)
GLOBEX_EVE_HALT = time(12, 15)
"""Chicago time. exchange_calendars 4.13 lets CMES run to 17:00 and knows only some of the shortened days:
equity index futures stop at noon when New York is closed, and at 12:15 when it closes early."""


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """Alternating openings and closings in nanoseconds UTC.

    Attributes:
        edges: [2 S] int64, open, close, open, close, ...; every interval is half-open.
        dates: [S] session dates 'YYYY-MM-DD', which may differ from the UTC date of the data.
    """

    edges: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    dates: tuple[str, ...] = ()

    def index(self, ts: np.ndarray) -> np.ndarray:
        """Interval of each time, int64: 2 s + 1 inside session s, even numbers between sessions.

        Args:
            ts: [n] int64 ns UTC.
        """
        return np.searchsorted(self.edges, ts, side="right")

    def dates_of(self, first_ns: int, last_ns: int) -> list[str]:
        """Dates of the sessions that [first_ns, last_ns] touches."""
        touched = (self.edges[0::2] <= last_ns) & (self.edges[1::2] > first_ns)
        return [date for date, hit in zip(self.dates, touched, strict=True) if hit]


def check_calendar(calendar: str) -> None:
    """Refuse a calendar that nobody knows. Raises ConfigError."""
    if calendar == ALWAYS_OPEN:
        return
    import exchange_calendars

    if calendar not in exchange_calendars.get_calendar_names():
        raise ConfigError(_unknown(calendar))


def _unknown(calendar: str) -> str:
    return f"calendar was {calendar!r}, must be '24/7' or a code of exchange_calendars like 'CMES' or 'XNYS'"


def midnight_ns(day: str) -> int:
    """Beginning of a UTC date 'YYYY-MM-DD' in nanoseconds."""
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * NANOS


def sessions_of(calendar: str, day: str) -> Sessions:
    """The sessions that a UTC date may touch."""
    first = midnight_ns(day)
    return sessions_around(calendar, first, first + DAY_NS - 1)


def minutes_in_session(calendar: str, day: str) -> np.ndarray:
    """Mask [1440] of the minutes of a UTC date in which the market is open.

    Args:
        calendar: "24/7" or a code of exchange_calendars.
        day: UTC date 'YYYY-MM-DD'.
    """
    first = midnight_ns(day)
    minutes = np.arange(first, first + DAY_NS, MINUTE_NS)
    if calendar == ALWAYS_OPEN:
        return np.ones(len(minutes), dtype=bool)
    return sessions_of(calendar, day).index(minutes) % 2 == 1


def open_minutes(calendar: str, day: str) -> int:
    """Minutes of a UTC date in which the market is open, see `minutes_in_session`."""
    return int(np.count_nonzero(minutes_in_session(calendar, day)))


@dataclass(frozen=True, kw_only=True)
class _Listed:
    """One session as the calendar library has it, ns UTC; `lunch` is empty or (start, end)."""

    date: str
    opens: int
    closes: int
    lunch: tuple[int, ...]


def sessions_around(calendar: str, first_ns: int, last_ns: int) -> Sessions:
    """The sessions of `calendar` that [first_ns, last_ns] may touch; none for "24/7", which has no breaks.

    Raises:
        ConfigError: the calendar is not one of exchange_calendars.
        DataError: the calendar does not reach that far.
    """
    if calendar == ALWAYS_OPEN:
        return Sessions()
    pairs = list(_intervals(calendar, first_ns, last_ns))
    edges = np.array([edge for _, start, end in pairs for edge in (start, end)], dtype=np.int64)
    return Sessions(edges=edges, dates=tuple(date for date, _, _ in pairs))


def _intervals(calendar: str, first_ns: int, last_ns: int) -> Iterator[tuple[str, int, int]]:
    """(session date, open ns, close ns); a session with a lunch break gives two."""
    halts = _globex_halts(first_ns, last_ns) if calendar == GLOBEX else {}
    for listed in _schedule(calendar, first_ns, last_ns):
        closes = listed.closes
        if calendar == GLOBEX:
            halt = halts.get(listed.date, GLOBEX_HOLIDAY_HALT)
            closes = min(closes, _local_ns(listed.date, halt))
        stops = (listed.opens, *listed.lunch, closes)
        for start, end in zip(stops[0::2], stops[1::2], strict=True):
            yield listed.date, start, end


def _globex_halts(first_ns: int, last_ns: int) -> dict[str, time]:
    """Dates of New York's sessions, each with the Chicago time at which Globex stops; holidays are absent."""
    halts = {}
    for listed in _schedule("XNYS", first_ns, last_ns):
        closes = datetime.fromtimestamp(listed.closes // NANOS, NEW_YORK).time()
        halts[listed.date] = GLOBEX_EVE_HALT if closes < time(16, 0) else GLOBEX_DAILY_HALT
    return halts


def _schedule(calendar: str, first_ns: int, last_ns: int) -> list[_Listed]:
    import exchange_calendars
    from exchange_calendars.errors import InvalidCalendarName

    margin = timedelta(days=MARGIN_DAYS)
    start, end = (datetime.fromtimestamp(ns // NANOS, UTC).date() for ns in (first_ns, last_ns))
    try:
        found = exchange_calendars.get_calendar(
            calendar, start=f"{start - margin:%Y-%m-%d}", end=f"{end + margin:%Y-%m-%d}"
        )
    except InvalidCalendarName as error:
        raise ConfigError(_unknown(calendar)) from error
    except ValueError as error:
        raise DataError(
            f"calendar {calendar} does not cover the data from {start} to {end}: {error}"
        ) from error
    dates = found.sessions.strftime("%Y-%m-%d")
    columns = (found.opens_nanos, found.closes_nanos, found.break_starts_nanos, found.break_ends_nanos)
    return [
        _Listed(date=date, opens=opens, closes=closes, lunch=(start, end) if start > 0 else ())
        for date, opens, closes, start, end in zip(dates, *(c.tolist() for c in columns), strict=True)
    ]


def _local_ns(date: str, moment: time) -> int:
    day = datetime.fromisoformat(date).date()
    return int(datetime.combine(day, moment, CHICAGO).timestamp()) * NANOS
