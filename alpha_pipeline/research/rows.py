"""The decision points of several cached days, as the engine wants them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alpha_core.market.data import MarketData
from alpha_core.training.sequences import SequenceData
from alpha_pipeline.evaluation.splits import RowRange, Timeline, timeline
from alpha_pipeline.fxcache import CachedDay, market_data, sequence_data


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Days side by side: row i is the same decision point in every member.

    Attributes:
        days: keys 'YYYY-MM-DD', oldest first.
        market: what the environment replays.
        sequence: what the perception reads and is asked.
        line: where each row lies in snapshots and days, for splitting.
        times_ns: [R] int64 receive time, UTC.
    """

    days: tuple[str, ...]
    market: MarketData
    sequence: SequenceData
    line: Timeline
    times_ns: np.ndarray

    def __len__(self) -> int:
        return self.market.rows

    def part(self, rows: RowRange) -> SequenceData:
        """The perception's view of a range of rows."""
        return self.sequence.slice(rows.start, rows.stop)

    def day_of(self, rows: np.ndarray) -> list[str]:
        """Day key of each row number."""
        return [self.days[int(self.line.day[row])] for row in rows]


def join(cached: Sequence[CachedDay], days: Sequence[str]) -> Rows:
    """Concatenate open days, oldest first."""
    market = market_data(cached)
    line = timeline(
        segment=market.segment.numpy(),
        event_index=np.concatenate([c.event_index for c in cached]),
        day=market.day.numpy(),
    )
    times = np.concatenate([c.ts for c in cached])
    return Rows(days=tuple(days), market=market, sequence=sequence_data(cached), line=line, times_ns=times)
