"""Imbalance bars: a row wherever more signed flow has come than was to be expected.

A bar of T trades with signed flows x_1 .. x_T closes at the first event with

    |x_1 + ... + x_T| >= E[T] |E[x]|    and T >= min_trades,    or with T >= max_trades,

where E[T] and E[x] are averages over the segment's earlier bars, of their length and of their mean flow a trade,
with weights that halve every `half_life_bars`. E[T] is held inside [min_trades, max_trades]: without these bounds
bars shrink to single trades once the flow balances out, or never close once it was one-sided. A segment's first
bar closes at `expected_trades` trades and seeds both. As all else here, neither a bar nor what is expected of it
passes over a break: behind a roll it would speak of another contract.

x is +1, -1 or 0 (buyer, seller, unknown aggressor), times lots or ticks times lots as configured; a trade of
unknown aggressor counts in T. All trades of one event are known together, so bounds hold up to one event.

Source: Lopez de Prado 2018, Advances in Financial Machine Learning, section 2.3.2.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from alpha_pipeline.features.config import ImbalanceConfig
from alpha_pipeline.features.events import EventBlock
from alpha_pipeline.features.tables import Trades


class ImbalanceBars:
    """Sampler. The state holds the flow and the trades of the open bar, E[T], E[x], and the bars so far."""

    def __init__(self, config: ImbalanceConfig) -> None:
        self._flow = config.flow
        self._state = np.zeros(5, np.float64)
        self._rule = np.array(
            [
                float(config.expected_trades),
                1.0 - 2.0 ** (-1.0 / config.half_life_bars),
                float(config.min_trades),
                float(config.max_trades),
            ]
        )

    def mark(self, block: EventBlock) -> NDArray[np.bool_]:
        """[M] bool, whether each event of the next block is a row."""
        marks = np.empty(block.size, np.bool_)
        flow = amounts(block.trades, self._flow) * block.trades.side
        _weigh(block.first, block.trade_start, flow.astype(np.float64), self._rule, self._state, marks)
        return marks


def amounts(trades: Trades, flow: str) -> NDArray[np.int64]:
    """[T] int64, what each trade adds to a bar: 1, its lots, or |price| in ticks times lots."""
    if flow == "tick":
        return np.ones(len(trades.size), np.int64)
    return trades.size if flow == "volume" else np.abs(trades.price.astype(np.int64)) * trades.size


@njit(cache=True)
def _is_full(rule: NDArray[np.float64], state: NDArray[np.float64]) -> bool:
    flow, trades, length, mean, bars = state
    if bars == 0:
        return trades >= rule[0]
    if trades >= rule[3]:
        return True
    return trades >= rule[2] and abs(flow) >= min(max(length, rule[2]), rule[3]) * abs(mean)


@njit(cache=True)
def _learn(rule: NDArray[np.float64], state: NDArray[np.float64]) -> None:
    """The bar that has closed enters both averages; the first one seeds them."""
    trades, mean = state[1], state[0] / state[1]
    weight = 1.0 if state[4] == 0 else rule[1]
    state[2] += weight * (trades - state[2])
    state[3] += weight * (mean - state[3])
    state[4] += 1


@njit(cache=True)
def _weigh(
    first: NDArray[np.bool_],
    trade_start: NDArray[np.int64],
    signed: NDArray[np.float64],
    rule: NDArray[np.float64],
    state: NDArray[np.float64],
    marks: NDArray[np.bool_],
) -> None:
    for j in range(len(first)):
        if first[j]:
            state[:] = 0.0
            marks[j] = True
            continue
        for t in range(trade_start[j], trade_start[j + 1]):
            state[0] += signed[t]
            state[1] += 1
        marks[j] = trade_start[j + 1] > trade_start[j] and _is_full(rule, state)
        if marks[j]:
            _learn(rule, state)
            state[0] = state[1] = 0.0
