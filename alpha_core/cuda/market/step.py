"""Launches `step.cu`: what the batched environment does in some hundreds of launches, in one."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from alpha_core.cuda.nvrtc import compiled
from alpha_core.cuda.philox import PHILOX
from alpha_core.rng import Purpose
from alpha_core.shapes import ACTIONS, LEVELS, MICRO, OBSERVATIONS, UNDEFINED_TICKS

SOURCES = (PHILOX, Path(__file__).with_name("step.cu"))
NUMBERS = 15
"""row, step, position, cash, basis, trades, fills, turnover, side, price, left, queue, level, priority, pnl."""

THREADS = 64
"""Lanes of a block: few, so that some thousands of lanes reach every multiprocessor."""


@dataclass(frozen=True, kw_only=True)
class StepRules:
    """What the kernel is compiled for.

    Attributes:
        horizon: see MarketConfig, and so `latency` to `share_milli`.
        depth: levels that the largest order can reach into.
        fill_levels: see `alpha_core.market.fills`.
        mode: a FillMode.
        position_scale: factor from lots to the observed position, and so the next two.
        unrealised_scale: from micro-ticks x lots to the observed unrealised PnL.
        time_scale: from decisions left to the observed time.
    """

    horizon: int
    latency: int
    order_size: int
    position_limit: int
    post_only: bool
    share_milli: int
    depth: int
    fill_levels: int
    mode: int
    position_scale: float
    unrealised_scale: float
    time_scale: float

    def defines(self) -> dict[str, int]:
        """As preprocessor constants; floats by their bits, for a decimal might round."""
        return {
            "HORIZON": self.horizon,
            "LATENCY": self.latency,
            "SIZE": self.order_size,
            "LIMIT": self.position_limit,
            "POST_ONLY": int(self.post_only),
            "SHARE_MILLI": self.share_milli,
            "DEPTH": self.depth,
            "MODE": self.mode,
            "POSITION_BITS": _bits(self.position_scale),
            "UNREALISED_BITS": _bits(self.unrealised_scale),
            "TIME_BITS": _bits(self.time_scale),
            "MICRO": MICRO,
            "LEVELS": LEVELS,
            "FILL_LEVELS": self.fill_levels,
            "UNDEFINED": UNDEFINED_TICKS,
            "PURPOSE_FILL": int(Purpose.FILL),
        }


def _bits(value: float) -> int:
    """Of the float32 nearest to a number."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """What a launch writes.

    Attributes:
        numbers: [15, E] int64, see NUMBERS.
        flight: [2 (latency - 1), E] int64, actions under way and then their prices, oldest first.
        quotes: [8, E] int64.
        mask: [E, 9] bool.
        seen: [E, 10] float32, the observation.
        reward: [E] float32.
        done: [E] bool.
    """

    numbers: Tensor
    flight: Tensor
    quotes: Tensor
    mask: Tensor
    seen: Tensor
    reward: Tensor
    done: Tensor


def market_step(
    tables: Sequence[Tensor],
    rules: StepRules,
    *,
    numbers: Tensor,
    flight: Tensor,
    episode: Tensor,
    cost_micro: Tensor,
    threshold: Tensor,
    mask: Tensor,
    actions: Tensor,
    seed: int,
) -> Stepped:
    """One decision of every lane.

    Args:
        tables: quote, ladder, flow, view, edge, hazard, queue_factor, waiting of `MarketTables`, contiguous.
        rules: of the episodes.
        numbers: [15, E] int64.
        flight: [2 (latency - 1), E] int64.
        episode: [E] int64.
        cost_micro: [E] int64.
        threshold: [E] float32.
        mask: [E, 9] bool.
        actions: [E] int64.
        seed: any 64-bit integer.
    """
    lanes = numbers.shape[1]
    after = Stepped(
        numbers=torch.empty_like(numbers),
        flight=torch.empty_like(flight),
        quotes=numbers.new_empty(8, lanes),
        mask=mask.new_empty(lanes, ACTIONS),
        seen=threshold.new_empty(lanes, OBSERVATIONS),
        reward=torch.empty_like(threshold),
        done=mask.new_empty(lanes),
    )
    given = [v.contiguous() for v in (numbers, flight, episode, cost_micro, threshold, mask, actions)]
    written = [after.numbers, after.flight, after.quotes, after.mask, after.seen, after.reward, after.done]
    run = compiled(SOURCES, "market_step", 0, **rules.defines())
    run(
        grid=(-(-lanes // THREADS), 1, 1),
        block=(THREADS, 1, 1),
        args=[*tables, *given, *written, lanes, seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF],
    )
    return after
