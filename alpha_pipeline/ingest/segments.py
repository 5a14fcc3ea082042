"""Where the market is interrupted: nothing computed downstream may span one of these breaks."""

from collections import Counter

import numpy as np

from alpha_pipeline.ingest.records import Flag, codes
from alpha_pipeline.ingest.sessions import DAY_NS, Sessions, sessions_around

CLEAR = ord("R")
WINDOW_NS = 7 * DAY_NS
"""Sessions are looked up this far ahead of the data, and again when the data go further."""


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

    def epochs(self, records: np.ndarray) -> np.ndarray:
        """Epoch of each record, [n] int64, never decreasing from one call to the next.

        Args:
            records: [n] MBP10_DTYPE with n > 0, one instrument, receive times not decreasing.
        """
        last = records[:1] if self._last is None else self._last
        masks = self._reasons(last, records)
        if self._last is None:
            masks = {reason: np.concatenate([[False], mask[1:]]) for reason, mask in masks.items()}
        for reason, mask in masks.items():
            self.breaks[reason] += int(np.count_nonzero(mask))
        self._last = records[-1:].copy()
        epochs = self._epoch + np.cumsum(np.logical_or.reduce(list(masks.values())))
        self._epoch = int(epochs[-1])
        return epochs

    def _reasons(self, last: np.ndarray, records: np.ndarray) -> dict[str, np.ndarray]:
        """Masks [n] of the records that start an epoch, by reason; `last` is the record before them, [1]."""
        ts = _with(last, records, "ts_recv").astype(np.int64)
        ids = _with(last, records, "instrument_id")
        bad = (_with(last, records, "flags") & Flag.MAYBE_BAD_BOOK) != 0
        silence = np.diff(ts)
        session = self._session_changes(ts, silence)
        return {
            "session": session,
            "roll": ids[1:] != ids[:-1],
            "clear": codes(records, "action") == CLEAR,
            "gap": (silence > self._gap_ns) & ~session,
            "bad_book": bad[1:] & ~bad[:-1],
        }

    def _session_changes(self, ts: np.ndarray, silence: np.ndarray) -> np.ndarray:
        """Mask [n] of the times ts[1:] that lie in another session interval than the one before."""
        self._look_up(int(ts[0]), int(ts[-1]))
        inside = self._sessions.index(ts)
        changed = inside[1:] != inside[:-1]
        is_open = inside[1:] % 2 == 1 if self._sessions.dates else np.ones(len(silence), dtype=bool)
        self.outside_session += len(is_open) - int(np.count_nonzero(is_open))
        self._note_gap(ts, np.where(is_open & ~changed, silence, 0))
        return changed

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
