"""Which episodes are run: rows to start from, with the day and the intraday block each counts towards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alpha_core.errors import DataError

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class EpisodePlan:
    """Episodes in time order; the same plan serves every cell, every baseline and every fill mode.

    Attributes:
        rows: [E] int64 start row in the environment's data.
        day: [E] trading day 'YYYY-MM-DD'.
        block: [E] int64 number of the intraday block inside the day.
        time_ns: [E] int64 time of the start row, or the row itself where no times were given.
        decisions: decisions per episode.
        overlapping: whether any episode starts before the one in front of it has ended.
    """

    rows: Ints
    day: tuple[str, ...]
    block: Ints
    time_ns: Ints
    decisions: int
    overlapping: bool

    def __len__(self) -> int:
        return self.rows.size


def plan_episodes(
    starts: ArrayLike,
    days_of_starts: Sequence[str],
    *,
    episodes: int,
    decisions: int,
    blocks_per_session: int,
    times_of_starts: ArrayLike | None = None,
) -> EpisodePlan:
    """Pick episodes evenly over all possible starts and cut each day into blocks of nearly equal counts.

    Args:
        starts: [S] start rows, ascending; tiles when they shall not overlap.
        days_of_starts: [S] trading day of each.
        episodes: at most so many are picked.
        decisions: decisions per episode.
        blocks_per_session: blocks per day; a day with fewer episodes has one block per episode.
        times_of_starts: [S] nanoseconds UTC of each start row.

    Raises:
        DataError: no starts, arrays of different lengths, or starts out of order or repeated.
    """
    rows = np.asarray(starts, dtype=np.int64)
    times = rows if times_of_starts is None else np.asarray(times_of_starts, dtype=np.int64)
    if not rows.size == len(days_of_starts) == times.size:
        raise DataError(
            f"starts, days and times have {rows.size}, {len(days_of_starts)} and {times.size} entries: "
            "pass one of each per episode start"
        )
    if rows.size == 0:
        raise DataError(
            f"no row has {decisions} decision points behind it in its segment: add days or lower "
            "market.horizon"
        )
    if (np.diff(rows) <= 0).any():
        raise DataError("episode starts are not strictly ascending: sort them and drop repeated ones")
    picked = _evenly(rows.size, episodes)
    day = tuple(str(days_of_starts[i]) for i in picked)
    return EpisodePlan(
        rows=rows[picked],
        day=day,
        block=_blocks(day, blocks_per_session),
        time_ns=times[picked],
        decisions=decisions,
        overlapping=bool((np.diff(rows[picked]) < decisions).any()),
    )


def repeated(plan: EpisodePlan, episodes: int) -> EpisodePlan:
    """The same starts over and over, for policies whose own randomness makes each one a new episode."""
    index = np.sort(np.arange(episodes) % len(plan))
    return EpisodePlan(
        rows=plan.rows[index],
        day=tuple(plan.day[i] for i in index),
        block=plan.block[index],
        time_ns=plan.time_ns[index],
        decisions=plan.decisions,
        overlapping=plan.overlapping or episodes > len(plan),
    )


def _evenly(available: int, wanted: int) -> Ints:
    """Indices of `wanted` of the available starts, evenly spread; all of them when there are fewer."""
    if wanted >= available:
        return np.arange(available)
    return (np.arange(wanted) * available) // wanted


def _blocks(day: Sequence[str], blocks_per_session: int) -> Ints:
    _, group, sizes = np.unique(np.asarray(day), return_inverse=True, return_counts=True)
    rank = np.zeros(len(day), dtype=np.int64)
    for g in range(sizes.size):
        rank[group == g] = np.arange(sizes[g])
    blocks = np.minimum(sizes, blocks_per_session)
    return rank * blocks[group] // sizes[group]
