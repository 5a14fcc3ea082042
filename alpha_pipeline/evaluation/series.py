"""PnL of one cell over time: blocks of episodes inside sessions, what every test of the gate rests on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class Observations:
    """What a test counts as one observation.

    Attributes:
        pnl: [n] ticks x lots, in time order.
        unit: "session" or "intraday block".
        sessions: distinct trading days they come from.
    """

    pnl: NDArray[np.float64]
    unit: str
    sessions: int


@dataclass(frozen=True, kw_only=True)
class PnlSeries:
    """PnL per block of consecutive episodes, in time order.

    Attributes:
        day: [n] trading day 'YYYY-MM-DD' of each block.
        block: [n] number of the block inside its day.
        time_ns: [n] int64 start of its first episode, nanoseconds UTC (or its row where no times were given).
        pnl_ticks: [n] float64 PnL after costs, ticks x lots.
        episodes: [n] int64 episodes in the block.
        trades: [n] int64 executions in the block.
    """

    day: tuple[str, ...]
    block: tuple[int, ...]
    time_ns: NDArray[np.int64]
    pnl_ticks: NDArray[np.float64]
    episodes: NDArray[np.int64]
    trades: NDArray[np.int64]

    @property
    def days(self) -> tuple[str, ...]:
        """Distinct days in order of appearance."""
        return tuple(dict.fromkeys(self.day))

    @property
    def keys(self) -> tuple[tuple[str, int], ...]:
        """What pairs a block with the same block of another series."""
        return tuple(zip(self.day, self.block, strict=True))

    @property
    def mean_per_episode(self) -> float | None:
        """Ticks per episode, None without episodes."""
        count = int(self.episodes.sum())
        return float(self.pnl_ticks.sum()) / count if count else None

    def by_day(self) -> NDArray[np.float64]:
        """PnL per day, ticks x lots, in the order of `days`."""
        place = {day: i for i, day in enumerate(self.days)}
        index = np.array([place[day] for day in self.day], dtype=np.int64)
        sums = np.zeros(len(place))
        np.add.at(sums, index, self.pnl_ticks)
        return sums

    def observations(self, min_sessions: int) -> Observations:
        """Sessions, or intraday blocks when there are fewer than `min_sessions` sessions."""
        sessions = len(self.days)
        if sessions >= min_sessions:
            return Observations(pnl=self.by_day(), unit="session", sessions=sessions)
        return Observations(pnl=self.pnl_ticks, unit="intraday block", sessions=sessions)


def series_of(episodes: "pl.DataFrame") -> PnlSeries:
    """Add up one cell's episodes by day and block.

    Args:
        episodes: rows of one cell of a grid's episode table.
    """
    import polars as pl

    blocks = (
        episodes.group_by("day", "block", maintain_order=True)
        .agg(
            pl.col("time_ns").min(),
            pl.col("pnl_ticks").sum(),
            pl.len().cast(pl.Int64).alias("episodes"),
            pl.col("trades").sum().cast(pl.Int64),
        )
        .sort("time_ns", maintain_order=True)
    )
    return PnlSeries(
        day=tuple(blocks["day"]),
        block=tuple(blocks["block"]),
        time_ns=blocks["time_ns"].to_numpy(),
        pnl_ticks=blocks["pnl_ticks"].to_numpy(),
        episodes=blocks["episodes"].to_numpy(),
        trades=blocks["trades"].to_numpy(),
    )


def joined(parts: Sequence[PnlSeries]) -> PnlSeries:
    """Series of consecutive folds as one, in time order; blocks are numbered anew within each day."""
    time_ns = np.concatenate([p.time_ns for p in parts])
    order = np.argsort(time_ns, kind="stable")
    days = [day for part in parts for day in part.day]
    seen: dict[str, int] = {}
    day, block = [], []
    for i in order:
        day.append(days[i])
        block.append(seen.setdefault(days[i], 0))
        seen[days[i]] += 1
    return PnlSeries(
        day=tuple(day),
        block=tuple(block),
        time_ns=time_ns[order],
        pnl_ticks=np.concatenate([p.pnl_ticks for p in parts])[order],
        episodes=np.concatenate([p.episodes for p in parts])[order],
        trades=np.concatenate([p.trades for p in parts])[order],
    )
