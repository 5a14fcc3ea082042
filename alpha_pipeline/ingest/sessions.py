"""Trading sessions as nanosecond intervals, with the halts that the calendar library does not know."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from alpha_core.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

ALWAYS_OPEN = "24/7"
DAY_NS = 86_400 * 10**9
MARGIN_DAYS = 10
"""Calendar days looked at on either side of the data: longer than any holiday closure."""

GLOBEX = "CMES"
GLOBEX_DAILY_HALT = "16:00"
GLOBEX_HOLIDAY_HALT = "12:00"
GLOBEX_EVE_HALT = "12:15"
"""Central time. exchange_calendars 4.13 lets CMES run to 17:00 and knows only some of the holidays' noon halts;
CME halts equity index futures when New York is closed (noon) or closes early (12:15)."""


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
        starts, ends = self.edges[0::2], self.edges[1::2]
        touched = (starts <= last_ns) & (ends > first_ns)
        return [date for date, hit in zip(self.dates, touched, strict=True) if hit]


def sessions_around(calendar: str, first_ns: int, last_ns: int) -> Sessions:
    """The sessions of `calendar` that [first_ns, last_ns] may touch; none for "24/7", which has no breaks.

    Raises:
        ConfigError: the calendar is not one of exchange_calendars.
    """
    if calendar == ALWAYS_OPEN:
        return Sessions()
    pairs = list(_intervals(calendar, first_ns, last_ns))
    edges = np.array([edge for _, start, end in pairs for edge in (start, end)], dtype=np.int64)
    return Sessions(edges=edges, dates=tuple(date for date, _, _ in pairs))


def _intervals(calendar: str, first_ns: int, last_ns: int) -> Iterator[tuple[str, int, int]]:
    """(session date, open ns, close ns), a session with a lunch break giving two."""
    schedule = _schedule(calendar, first_ns, last_ns)
    halts = _globex_halts(first_ns, last_ns) if calendar == GLOBEX else {}
    for row in schedule.itertuples():
        date = f"{row.Index:%Y-%m-%d}"
        close = _close(date, row.close, halts) if calendar == GLOBEX else row.close
        stops = [row.open, close] if row.break_start != row.break_start else _with_break(row, close)
        for start, end in zip(stops[0::2], stops[1::2], strict=True):
            yield date, _ns(start), _ns(end)


def _with_break(row: "pd.Series", close: "pd.Timestamp") -> list["pd.Timestamp"]:
    return [row.open, row.break_start, row.break_end, close]


def _schedule(calendar: str, first_ns: int, last_ns: int) -> "pd.DataFrame":
    import exchange_calendars
    import pandas as pd

    margin = MARGIN_DAYS * DAY_NS
    start, end = (pd.Timestamp(ns).normalize() for ns in (first_ns - margin, last_ns + margin))
    try:
        return exchange_calendars.get_calendar(calendar, start=start, end=end).schedule
    except exchange_calendars.errors.InvalidCalendarName as error:
        raise ConfigError(
            f"calendar was {calendar!r}, must be '24/7' or a code of exchange_calendars such as 'CMES' or 'XNYS'"
        ) from error


def _globex_halts(first_ns: int, last_ns: int) -> dict[str, str]:
    """New York's session dates, each with the Central time at which Globex stops because of it."""
    schedule = _schedule("XNYS", first_ns, last_ns)
    halts = {}
    for date, close in schedule["close"].items():
        early = close.tz_convert("America/New_York").hour < 16
        halts[f"{date:%Y-%m-%d}"] = GLOBEX_EVE_HALT if early else GLOBEX_DAILY_HALT
    return halts


def _close(date: str, listed: "pd.Timestamp", halts: dict[str, str]) -> "pd.Timestamp":
    import pandas as pd

    halt = pd.Timestamp(f"{date} {halts.get(date, GLOBEX_HOLIDAY_HALT)}", tz="America/Chicago")
    return min(listed, halt)


def _ns(moment: "pd.Timestamp") -> int:
    return moment.as_unit("ns").value
