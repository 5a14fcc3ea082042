"""Where the market is interrupted: nothing computed downstream may span one of these breaks."""

from dataclasses import dataclass

import numpy as np

from alpha_pipeline.ingest.records import MBP10_DTYPE, words
from alpha_pipeline.ingest.sessions import DAY_NS, Sessions, sessions_around

REASONS = ("session", "roll", "clear", "gap", "bad_book")
"""What may start an epoch, in the order of the compiled counters."""

WINDOW_NS = 7 * DAY_NS
"""Sessions are looked up this far ahead of the data, and again when the data go further."""


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """Where each of [n] records lies.

    Attributes:
        epochs: [n] int64, never decreasing.
        closed: [n] bool, outside of any session; a stretch lies inside or outside as a whole.
    """

    epochs: np.ndarray
    closed: np.ndarray


class Segmenter:
    """Numbers the uninterrupted stretches (epochs) of one instrument's records, chunk by chunk.

    A new epoch starts with the record that
        * lies in another session, or outside of any, than the one before (`session`),
        * belongs to another instrument id (`roll`),
        * clears the book (`clear`),
        * follows a silence longer than the bound (`gap`), or
        * is the first that the source marks as possibly wrong after an unrecoverable loss (`bad_book`).
    """

    def __init__(self, calendar: str, gap_ns: int) -> None:
        from alpha_pipeline.ingest import record_scan

        self._scan = record_scan
        self._calendar = calendar
        self._gap_ns = gap_ns
        self._window: tuple[int, int] | None = None
        self._sessions = Sessions()
        self._last = np.empty(0, dtype=MBP10_DTYPE)
        self._state = np.zeros(record_scan.LARGEST_GAP_AT + 1, dtype=np.int64)

    @property
    def sessions(self) -> Sessions:
        """The sessions around the data seen so far."""
        return self._sessions

    @property
    def breaks(self) -> dict[str, int]:
        """Epochs started, by reason (one record may count under several)."""
        return dict(zip(REASONS, self._state.tolist(), strict=False))

    @property
    def largest_gap_ns(self) -> int:
        """Longest silence that no session break explains."""
        return int(self._state[self._scan.LARGEST_GAP_NS])

    @property
    def largest_gap_at(self) -> int | None:
        """Receive time at which it began, None when there was no silence."""
        return int(self._state[self._scan.LARGEST_GAP_AT]) if self.largest_gap_ns else None

    @property
    def outside_session(self) -> int:
        """Records outside of any session."""
        return int(self._state[self._scan.OUTSIDE])

    def stretches(self, records: np.ndarray) -> Stretches:
        """Epoch of each record, never decreasing from one call to the next, and whether the market is closed.

        Args:
            records: [n] MBP10_DTYPE with n > 0, one instrument, receive times not decreasing.
        """
        first, last = records["ts_recv"][[0, -1]].tolist()
        self._look_up(first, last)
        epochs, closed = np.empty(len(records), dtype=np.int64), np.empty(len(records), dtype=bool)
        self._scan.divide(
            words(records, np.int64),
            words(self._last, np.int64),
            self._sessions.edges,
            self._gap_ns,
            self._state,
            epochs,
            closed,
        )
        self._last = records[-1:].copy()
        return Stretches(epochs=epochs, closed=closed)

    def _look_up(self, first_ns: int, last_ns: int) -> None:
        """Keep the window ahead of the data, always from the same start so that indices stay valid."""
        if self._window is not None and last_ns < self._window[1]:
            return
        start = first_ns if self._window is None else self._window[0]
        self._window = (start, last_ns + WINDOW_NS)
        self._sessions = sessions_around(self._calendar, *self._window)
