"""Counters over a day's two tables, slice by slice: what quality rules and charts need of them.

Their size does not depend on the tables: an hour, a minute, a spread has its place, a silence must be among the
longest.
"""

from typing import TYPE_CHECKING

import numpy as np

from alpha_pipeline.ingest.events import CLOSED, STATE_NAMES
from alpha_pipeline.ingest.sessions import DAY_NS, MINUTE_NS, midnight_ns, minutes_in_session, sessions_of

if TYPE_CHECKING:
    import polars as pl

HOURS, MINUTES, STATES = 24, 1440, len(STATE_NAMES)
HOUR_NS = DAY_NS // HOURS
WIDEST_SPREAD = 1000
"""Spreads in ticks beyond this, on either side of zero, are counted together."""

SILENCES_KEPT = 100


class SnapshotTally:
    """What the snapshots of one day are.

    Attributes:
        midnight_ns: beginning of the UTC date.
        rows: snapshots.
        backward: rows received before the row above them.
        states: [6] int64, rows by book state.
        states_by_hour: [24, 6] int64, rows of the UTC date by hour and book state.
        minutes: [1440] int64, rows in session by minute of the UTC date.
        spreads: [2001] int64, rows in session with both sides by spread in ticks, from -WIDEST_SPREAD on.
        silences: the longest times between two snapshots of one session as (length ns, beginning ns UTC),
            longest first.
    """

    def __init__(self, calendar: str, day: str) -> None:
        """The session `calendar` and the UTC date say when there could be rows."""
        self.midnight_ns = midnight_ns(day)
        self._in_session = minutes_in_session(calendar, day)
        self._sessions = sessions_of(calendar, day)
        self._last_ns: int | None = None
        self.rows = 0
        self.backward = 0
        self.states = np.zeros(STATES, dtype=np.int64)
        self.states_by_hour = np.zeros((HOURS, STATES), dtype=np.int64)
        self.minutes = np.zeros(MINUTES, dtype=np.int64)
        self.spreads = np.zeros(2 * WIDEST_SPREAD + 1, dtype=np.int64)
        self.silences: list[tuple[int, int]] = []

    @property
    def holiday(self) -> bool:
        """Whether the market has no session on the date."""
        return not self._in_session.any()

    @property
    def open_rows(self) -> int:
        """Rows in session."""
        return self.rows - int(self.states[CLOSED])

    @property
    def coverage(self) -> float:
        """Share of the date's minutes in session that have a snapshot; 1 when there is no such minute."""
        return 1.0 if self.holiday else float((self.minutes[self._in_session] > 0).mean())

    def see(self, snapshots: "pl.DataFrame") -> None:
        """Count the next rows of the canonical table."""
        if snapshots.is_empty():
            return
        ts = snapshots["ts_recv"].to_physical().to_numpy()
        state = snapshots["book_state"].to_numpy()
        self.rows += len(ts)
        self._see_states(ts - self.midnight_ns, state)
        spread = (snapshots["ask_px_00"] - snapshots["bid_px_00"]).filter(snapshots["book_state"] != CLOSED)
        place = spread.drop_nulls().clip(-WIDEST_SPREAD, WIDEST_SPREAD).to_numpy() + WIDEST_SPREAD
        self.spreads += np.bincount(place, minlength=len(self.spreads))
        self._see_steps(ts if self._last_ns is None else np.concatenate([[self._last_ns], ts]))
        self._last_ns = int(ts[-1])

    def _see_states(self, since_midnight: np.ndarray, state: np.ndarray) -> None:
        known = state < STATES
        self.states += np.bincount(state[known], minlength=STATES)
        known &= (since_midnight >= 0) & (since_midnight < DAY_NS)
        moment, state = since_midnight[known], state[known]
        hourly = np.bincount(moment // HOUR_NS * STATES + state, minlength=HOURS * STATES)
        self.states_by_hour += hourly.reshape(HOURS, STATES)
        self.minutes += np.bincount(moment[state != CLOSED] // MINUTE_NS, minlength=MINUTES)

    def _see_steps(self, ts: np.ndarray) -> None:
        """Steps from one row to the next; `ts` [n] int64, the last row of before included."""
        steps = np.diff(ts)
        self.backward += int(np.count_nonzero(steps < 0))
        interval = self._sessions.index(ts)
        together = interval[1:] == interval[:-1]
        if self._sessions.dates:
            together &= interval[1:] % 2 == 1
        at = np.flatnonzero(together & (steps > 0))
        longest = at[np.lexsort((ts[at], -steps[at]))[:SILENCES_KEPT]]
        found = zip(steps[longest].tolist(), ts[longest].tolist(), strict=True)
        self.silences = sorted([*self.silences, *found], key=lambda s: (-s[0], s[1]))[:SILENCES_KEPT]


class TradeTally:
    """What the trades of one day are.

    Attributes:
        rows: trades.
        outside_touch: trades above the best ask or below the best bid that they met.
        without_size: trades of size 0.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.outside_touch = 0
        self.without_size = 0

    def see(self, trades: "pl.DataFrame") -> None:
        """Count the next rows of the tape; a side that was empty is no bound."""
        above = (trades["price"] > trades["ask_px"]).fill_null(False)
        below = (trades["price"] < trades["bid_px"]).fill_null(False)
        self.rows += trades.height
        self.outside_touch += int((above | below).sum())
        self.without_size += int((trades["size"] == 0).sum())
