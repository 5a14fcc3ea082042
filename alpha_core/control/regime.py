"""Regime defence: hold less when the market moves more than it used to."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from alpha_core.control.smoothing import CONTROL_GAIN_MIN, AdaptiveEma, empty_ema, update_ema

REFERENCE_SAMPLES = 100
"""Samples whose running mean is the first reference volatility."""

FLOOR_LEAST = 1e-12
"""The learned floor never goes below this squared log return."""

SCALE_LEAST = 0.25
"""Least regime scale: the defence shrinks positions, it does not stop trading."""

ZERO_RETURN = 1e-12
"""Squared log returns below this come from a mid that did not move and say nothing about volatility."""


@dataclass(frozen=True, kw_only=True)
class RegimeRates:
    """How fast the slow parts of the defence move.

    Attributes:
        reference: EMA rate of the reference volatility after its first samples.
        floor: rate at which the floor anchor learns.
        floor_ratio: the floor's goal as a share of the reference volatility.
    """

    reference: float = 0.005
    floor: float = 0.1
    floor_ratio: float = 0.1


class RegimeState(NamedTuple):
    """Volatility now and before, per cell; all tensors share one shape.

    Attributes:
        volatility: adaptive EMA of the mean squared log return of one step.
        reference: its slow mean, before flooring.
        samples: samples that reached the reference.
        floor: learned anchor, squared log return; survives runs.
    """

    volatility: AdaptiveEma
    reference: Tensor
    samples: Tensor
    floor: Tensor


def empty_regime(floor: Tensor) -> RegimeState:
    """State before any observation, with a floor from an earlier run or FLOOR_LEAST; [...] float32."""
    shape = tuple(floor.shape)
    zeros = torch.zeros(shape, dtype=torch.float32, device=floor.device)
    return RegimeState(empty_ema(shape, device=floor.device), zeros, zeros.clone(), floor)


def observe_volatility(mid_tm1: Tensor, mid_t: Tensor) -> Tensor:
    """Mean over environments of the squared log mid return; NaN when none moved by a finite amount.

    Args:
        mid_tm1: [..., E] mids one step ago, any unit.
        mid_t: [..., E] mids now.

    Returns:
        [...] mean of log(mid_t / mid_tm1)^2 over the environments where it is finite and at least ZERO_RETURN.
    """
    squared = (mid_t.double() / mid_tm1.double()).log().square()
    seen = torch.isfinite(squared) & (squared >= ZERO_RETURN)
    total = torch.where(seen, squared, torch.zeros_like(squared)).sum(-1)
    return (total / seen.sum(-1)).float()  # 0/0 is NaN, which the smoothing skips


def update_regime(
    state: RegimeState, observed: Tensor, rates: RegimeRates | None = None
) -> tuple[RegimeState, Tensor, Tensor]:
    """One step: smooth the volatility, move the reference, compare the two.

    reference: running mean of the first REFERENCE_SAMPLES smoothed values, then += rate (smoothed - reference);
    scale = clamp(max(reference, floor) / smoothed, SCALE_LEAST, 1).

    Args:
        state: as returned by the previous call, or `empty_regime`.
        observed: [...] from `observe_volatility`; non-finite or negative values change nothing.

    Returns:
        the next state; [...] floored reference; [...] regime scale (1 before the first observation).
    """
    rates = rates or RegimeRates()
    seen = torch.isfinite(observed) & (observed >= 0)
    skipped = torch.full_like(observed, torch.nan)
    volatility = update_ema(
        state.volatility, torch.where(seen, observed, skipped), alpha_min=CONTROL_GAIN_MIN
    )
    samples = state.samples + seen.to(state.samples.dtype)
    rate = torch.where(samples <= REFERENCE_SAMPLES, 1.0 / samples.clamp_min(1.0), rates.reference)
    moved = state.reference + rate * (volatility.mean - state.reference)
    reference = torch.where(seen, moved, state.reference)
    floored = torch.maximum(reference, state.floor)
    scale = torch.where(volatility.mean > 0, floored / volatility.mean, torch.ones_like(floored))
    return (
        RegimeState(volatility, reference, samples, state.floor),
        floored,
        scale.clamp(SCALE_LEAST, 1.0),
    )


def learn_floor(state: RegimeState, rates: RegimeRates | None = None) -> RegimeState:
    """floor += rate (ratio * reference - floor), never below FLOOR_LEAST; unchanged before any sample."""
    rates = rates or RegimeRates()
    moved = state.floor + rates.floor * (rates.floor_ratio * state.reference - state.floor)
    learned = torch.where(state.samples > 0, moved, state.floor).clamp_min(FLOOR_LEAST)
    return state._replace(floor=learned)
