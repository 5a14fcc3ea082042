"""The decision points of several cached days, as the engine wants them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alpha_core.market.data import MarketData
from alpha_core.training.sequences import MappedData, SequenceData
from alpha_pipeline.evaluation.splits import RowRange, Timeline, timeline
from alpha_pipeline.fxcache import CachedDay
from alpha_pipeline.fxcache.market import day_index, mapped_data, market_data


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Days side by side: row i is the same decision point in every member. What is not asked for is not loaded.

    Attributes:
        days: keys 'YYYY-MM-DD', oldest first.
        cached: their open files.
        mapped: what the perception reads and is asked, its features in those files.
        line: where each row lies in snapshots and days, for splitting.
        times_ns: [R] int64 receive time, UTC.
    """

    days: tuple[str, ...]
    cached: tuple[CachedDay, ...]
    mapped: MappedData
    line: Timeline
    times_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.times_ns)

    @cached_property
    def market(self) -> MarketData:
        """What the environment replays."""
        return market_data(self.cached)

    @cached_property
    def sequence(self) -> SequenceData:
        """`mapped` in memory."""
        return self.mapped.loaded()

    def part(self, rows: RowRange) -> SequenceData:
        """The perception's view of a range of rows, in memory."""
        return self.mapped.slice(rows.start, rows.stop).loaded()

    def day_of(self, rows: np.ndarray) -> list[str]:
        """Day key of each row number."""
        return [self.days[int(self.line.day[row])] for row in rows]


def join(cached: Sequence[CachedDay], days: Sequence[str]) -> Rows:
    """Open days side by side, oldest first.

    Raises:
        DataError: see `alpha_pipeline.fxcache.market_data`.
    """
    mapped = mapped_data(cached)
    line = timeline(
        segment=mapped.segment.numpy(),
        event_index=np.concatenate([c.event_index for c in cached]),
        day=day_index(cached),
    )
    times = np.concatenate([c.ts for c in cached])
    return Rows(days=tuple(days), cached=tuple(cached), mapped=mapped, line=line, times_ns=times)
