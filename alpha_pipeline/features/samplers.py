"""Samplers: which good events become rows.

Each sees every event once and none ahead. A segment's first event is always a row and begins a bar anew;
trades of that event belong to no interval, as everywhere (`order_flow`).
"""

from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_pipeline.features.config import SamplerConfig
from alpha_pipeline.features.events import EventBlock
from alpha_pipeline.features.imbalance import ImbalanceBars, amounts


class Sampler(Protocol):
    """Chooses rows among good events."""

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        """[M] bool, whether each event of the next block is a row."""
        ...


class EveryEvent:
    """Every n-th good event of a segment: its positions 0, n, 2n, ..."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._position = 0

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        index = np.arange(block.size)
        opened = np.maximum.accumulate(np.where(block.first, index, -1))
        position = np.where(opened >= 0, index - opened, index + self._position)
        if block.size:
            self._position = int(position[-1]) + 1
        return position % self._n == 0


class ClockGrid:
    """The first good event in each cell of a grid of the given width, anchored at the UTC epoch, by ts_recv.

    The *last* event of a cell would need the next event to be recognised, hence look ahead.
    """

    def __init__(self, milliseconds: int) -> None:
        self._width = milliseconds * 1_000_000
        self._cell = 0

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        cell = block.ts // self._width
        marked = block.first | (np.diff(cell, prepend=self._cell) != 0)
        if block.size:
            self._cell = int(cell[-1])
        return marked


class AmountBars:
    """The event with which the amount traded since the last row reaches a bound; the next bar starts at zero."""

    def __init__(self, flow: str, bound: int) -> None:
        self._flow = flow
        self._bound = bound
        self._filled = np.zeros(1, np.int64)

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        marks = np.empty(block.size, np.bool_)
        _fill(
            block.first,
            block.trade_start,
            amounts(block.trades, self._flow),
            self._bound,
            self._filled,
            marks,
        )
        return marks


def make_sampler(config: SamplerConfig) -> Sampler:
    """The sampler a configuration names, at the start of a day."""
    bounds = {"tick": config.trades, "volume": config.lots, "dollar": config.tick_lots}
    if config.kind in bounds:
        return AmountBars(config.kind, bounds[config.kind])
    if config.kind == "imbalance":
        return ImbalanceBars(config.imbalance)
    return EveryEvent(config.n) if config.kind == "every_event" else ClockGrid(config.milliseconds)


@njit(cache=True)
def _fill(
    first: NDArray[np.bool_],
    trade_start: NDArray[np.int64],
    amount: NDArray[np.int64],
    bound: int,
    filled: NDArray[np.int64],
    marks: NDArray[np.bool_],
) -> None:
    for j in range(len(first)):
        if not first[j]:
            for t in range(trade_start[j], trade_start[j + 1]):
                filled[0] = min(filled[0] + amount[t], bound)  # beyond the bound it could wrap
        marks[j] = first[j] or filled[0] >= bound
        if marks[j]:
            filled[0] = 0
