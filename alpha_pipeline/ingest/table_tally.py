"""Counters over a day's snapshot table, slice by slice: what quality rules and charts need of it."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from alpha_pipeline.ingest.events import CLOSED
from alpha_pipeline.ingest.sessions import MINUTE_NS, open_minutes

if TYPE_CHECKING:
    import polars as pl

HOUR_NS = 60 * MINUTE_NS


class TableTally:
    """What the snapshots of one day are.

    Attributes:
        rows: snapshots.
        backward: rows received before the row above them.
        states: rows by book state.
        states_by_hour: rows by (hours since 1970 UTC, book state).
        minutes: rows in session by minutes since 1970 UTC.
        spreads: rows with both sides by spread in ticks.
    """

    def __init__(self, calendar: str, day: str) -> None:
        """The session `calendar` and the UTC date say how many minutes could have rows."""
        self._open_minutes = open_minutes(calendar, day)
        self._last_ns: int | None = None
        self.rows = 0
        self.backward = 0
        self.states: Counter[int] = Counter()
        self.states_by_hour: Counter[tuple[int, int]] = Counter()
        self.minutes: Counter[int] = Counter()
        self.spreads: Counter[int] = Counter()

    @property
    def coverage(self) -> float:
        """Share of the day's open minutes that have a snapshot; 1 for a day without any open minute."""
        return min(len(self.minutes) / self._open_minutes, 1.0) if self._open_minutes else 1.0

    def see(self, snapshots: "pl.DataFrame") -> None:
        """Count the next rows of the canonical table."""
        if snapshots.is_empty():
            return
        ts = snapshots["ts_recv"].to_physical().to_numpy()
        state = snapshots["book_state"].to_numpy()
        self.rows += len(ts)
        self.backward += int(
            np.count_nonzero(np.diff(ts, prepend=ts[0] if self._last_ns is None else self._last_ns) < 0)
        )
        self._last_ns = int(ts[-1])
        _count(self.states, state)
        _count(self.minutes, ts[state != CLOSED] // MINUTE_NS)
        hours = Counter[int]()
        _count(hours, ts // HOUR_NS * (CLOSED + 1) + state)
        for key, rows in hours.items():
            self.states_by_hour[divmod(key, CLOSED + 1)] += rows
        _count(self.spreads, (snapshots["ask_px_00"] - snapshots["bid_px_00"]).drop_nulls().to_numpy())


def _count(counter: Counter[int], values: np.ndarray) -> None:
    for value, rows in zip(*np.unique(values, return_counts=True), strict=True):
        counter[int(value)] += int(rows)
