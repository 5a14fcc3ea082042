"""Where the market is interrupted: nothing computed downstream may span one of these breaks."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from alpha_pipeline.ingest.records import Flag, codes
from alpha_pipeline.ingest.sessions import DAY_NS, Sessions, sessions_around

CLEAR = ord("R")
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

    @classmethod
    def none(cls) -> "Stretches":
        """Of no records."""
        return cls(epochs=np.empty(0, dtype=np.int64), closed=np.empty(0, dtype=bool))

    def __getitem__(self, index: slice | np.ndarray) -> "Stretches":
        return Stretches(epochs=self.epochs[index], closed=self.closed[index])

    def __add__(self, other: "Stretches") -> "Stretches":
        return Stretches(
            epochs=np.concatenate([self.epochs, other.epochs]),
            closed=np.concatenate([self.closed, other.closed]),
        )


class Segmenter:
    """Numbers the uninterrupted stretches (epochs) of one instrument's records, chunk by chunk.

    A new epoch starts with the record that
        * lies in another session, or outside of any, than the one before (`session`),
        * belongs to another instrument id (`roll`),
        * clears the book (`clear`),
        * follows a silence longer than the bound (`gap`), or
        * is the first that the source marks as possibly wrong after an unrecoverable loss (`bad_book`).

    Attributes:
        breaks: epochs started, by reason (one record may count under several).
        largest_gap_ns: longest silence that no session break explains.
        largest_gap_at: receive time at which it began, None before the second record.
        outside_session: records outside of any session.
    """

    def __init__(self, calendar: str, gap_ns: int) -> None:
        self._calendar = calendar
        self._gap_ns = gap_ns
        self._window: tuple[int, int] | None = None
        self._sessions = Sessions()
        self._last: np.ndarray | None = None
        self._epoch = 0
        self.breaks: Counter[str] = Counter()
        self.largest_gap_ns = 0
        self.largest_gap_at: int | None = None
        self.outside_session = 0

    @property
    def sessions(self) -> Sessions:
        """The sessions around the data seen so far."""
        return self._sessions

    def stretches(self, records: np.ndarray) -> Stretches:
        """Epoch of each record, never decreasing from one call to the next, and whether the market is closed.

        Args:
            records: [n] MBP10_DTYPE with n > 0, one instrument, receive times not decreasing.
        """
        last = records[:1] if self._last is None else self._last
        ts = _with(last, records, "ts_recv").astype(np.int64)
        self._look_up(int(ts[0]), int(ts[-1]))
        inside = self._sessions.index(ts)
        closed = self._closed(inside[1:])
        masks = self._reasons(last, records, ts, inside, closed)
        if self._last is None:
            masks = {reason: np.concatenate([[False], mask[1:]]) for reason, mask in masks.items()}
        for reason, mask in masks.items():
            self.breaks[reason] += int(np.count_nonzero(mask))
        self._last = records[-1:].copy()
        epochs = self._epoch + np.cumsum(np.logical_or.reduce(list(masks.values())))
        self._epoch = int(epochs[-1])
        return Stretches(epochs=epochs, closed=closed)

    def _reasons(
        self, last: np.ndarray, records: np.ndarray, ts: np.ndarray, inside: np.ndarray, closed: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Masks [n] of the records that start an epoch, by reason; `last` is the record before them, [1].

        `ts` and `inside` are times and session intervals of all [n + 1] of them.
        """
        ids = _with(last, records, "instrument_id")
        bad = (_with(last, records, "flags") & Flag.MAYBE_BAD_BOOK) != 0
        silence = np.diff(ts)
        session = inside[1:] != inside[:-1]
        self._note_gap(ts, np.where(closed | session, 0, silence))
        return {
            "session": session,
            "roll": ids[1:] != ids[:-1],
            "clear": codes(records, "action") == CLEAR,
            "gap": (silence > self._gap_ns) & ~session,
            "bad_book": bad[1:] & ~bad[:-1],
        }

    def _closed(self, inside: np.ndarray) -> np.ndarray:
        """Mask [n] of the records outside of any session; a market without calendar never closes."""
        closed = inside % 2 == 0 if self._sessions.dates else np.zeros(len(inside), dtype=bool)
        self.outside_session += int(np.count_nonzero(closed))
        return closed

    def _look_up(self, first_ns: int, last_ns: int) -> None:
        """Keep the window ahead of the data, always from the same start so that indices stay valid."""
        if self._window is not None and last_ns < self._window[1]:
            return
        start = first_ns if self._window is None else self._window[0]
        self._window = (start, last_ns + WINDOW_NS)
        self._sessions = sessions_around(self._calendar, *self._window)

    def _note_gap(self, ts: np.ndarray, silence: np.ndarray) -> None:
        at = int(silence.argmax())
        if silence[at] > self.largest_gap_ns:
            self.largest_gap_ns = int(silence[at])
            self.largest_gap_at = int(ts[at])


def _with(last: np.ndarray, records: np.ndarray, field: str) -> np.ndarray:
    """One field of [1] and [n] records, [n + 1]."""
    return np.concatenate([last[field], records[field]])
