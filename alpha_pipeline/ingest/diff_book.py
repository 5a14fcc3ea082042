"""A book kept from a snapshot and the differences that follow it, as exchanges publish them over the wire.

Quantities are absolute. Every difference carries the ids of its first and last change; it connects when it begins with
the id after the last one applied. A snapshot answers a request, so differences that arrived before the answer may be
newer than it: they wait, and those that are apply after it.
"""

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

Level = tuple[int, int]
"""Price in units of 1e-9 and lots."""

MOST_WAITING = 100_000
MOST_LEVELS = 1_000_000
"""Levels of one side, and levels that wait: more are no market's, and would fill the memory."""


@dataclass(frozen=True)
class Difference:
    """One change of the book: levels set to new lots, 0 for none.

    Attributes:
        first_id, last_id: ids of its first and last change.
        bids, asks: levels.
    """

    first_id: int
    last_id: int
    bids: Sequence[Level]
    asks: Sequence[Level]

    @property
    def size(self) -> int:
        """Number of levels it sets."""
        return len(self.bids) + len(self.asks)


class _Side:
    """Levels of one side, best last; `sign` turns prices so that better is larger."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self._keys: list[int] = []
        self._lots: dict[int, int] = {}

    def set(self, price: int, lots: int) -> None:
        key = self._sign * price
        if lots and key not in self._lots:
            if len(self._keys) >= MOST_LEVELS:
                raise ValueError(f"a side of more than {MOST_LEVELS} levels")
            insort(self._keys, key)
        elif not lots and key in self._lots:
            del self._keys[bisect_left(self._keys, key)]
            del self._lots[key]
        if lots:
            self._lots[key] = lots

    def best(self, count: int) -> list[Level]:
        return [(self._sign * key, self._lots[key]) for key in self._keys[: -count - 1 : -1]]

    def crossing(self, price: int) -> list[int]:
        """Prices of this side that reach the other side's price, best first."""
        found, key = [], self._sign * price
        for at in range(len(self._keys) - 1, -1, -1):
            if self._keys[at] < key:
                break
            found.append(self._sign * self._keys[at])
        return found


class DiffBook:
    """Applies snapshots and differences in the order of their arrival.

    Attributes:
        synced: whether the book is known to be the venue's.
        started: whether there is a book to show, synced or not.
        last_id: id of the last change applied, 0 before any.
        counts: repeated, early and dropped differences, holes, stale levels.
    """

    def __init__(self, *, awaits_snapshot: bool = True) -> None:
        """Without a snapshot to wait for, the book starts empty and out of sync."""
        self.bids, self.asks = _Side(1), _Side(-1)
        self.synced, self.started = False, not awaits_snapshot
        self.last_id = 0
        self.counts: Counter[str] = Counter()
        self._waiting: deque[Difference] = deque()
        self._waiting_levels = 0

    def snapshot(self, last_id: int, bids: Sequence[Level], asks: Sequence[Level]) -> None:
        """Begin anew from a whole book, then apply what had arrived before it and is newer.

        A synced book that has reached the snapshot's id already knows more than it.
        """
        if self.synced and last_id <= self.last_id:
            self.counts["snapshots_known_already"] += 1
            return
        self.bids, self.asks = _Side(1), _Side(-1)
        for side, levels in ((self.bids, bids), (self.asks, asks)):
            for price, lots in levels:
                side.set(price, lots)
        self.last_id, self.synced, self.started = last_id, True, True
        waiting, self._waiting, self._waiting_levels = self._waiting, deque(), 0
        for early in waiting:
            self.apply(early)

    def apply(self, change: Difference) -> bool:
        """Apply one difference; returns whether the book may have changed.

        Before the first snapshot it waits. One that is known already changes nothing. Behind a hole in the ids the
        book is no longer the venue's, until the next snapshot; differences are applied all the same.
        """
        if not self.started:
            self.counts["updates_before_a_snapshot"] += 1
            self._wait(change)
            return False
        if change.last_id <= self.last_id:
            self.counts["updates_known_already"] += 1
            return False
        if self.last_id and change.first_id > self.last_id + 1:
            self.counts["holes_in_the_ids"] += 1
            self.synced = False
        if not self.synced:
            self._wait(change)
        self.last_id = change.last_id
        for side, levels in ((self.bids, change.bids), (self.asks, change.asks)):
            for price, lots in levels:
                side.set(price, lots)
        self._remove_stale(change)
        return True

    def _wait(self, change: Difference) -> None:
        """The oldest are forgotten when there are too many: a snapshot older than these then meets a hole."""
        self._waiting.append(change)
        self._waiting_levels += change.size
        while len(self._waiting) > MOST_WAITING or self._waiting_levels > MOST_LEVELS:
            self._waiting_levels -= self._waiting.popleft().size

    def _remove_stale(self, change: Difference) -> None:
        """A level that reaches one just set on the other side was left behind by a lost message: it goes."""
        for levels, own, other in (
            (change.bids, change.asks, self.asks),
            (change.asks, change.bids, self.bids),
        ):
            fresh = {price for price, lots in own if lots}
            for price, lots in levels:
                if not lots:
                    continue
                for stale in other.crossing(price):
                    if stale not in fresh:
                        other.set(stale, 0)
                        self.counts["stale_levels_removed"] += 1
