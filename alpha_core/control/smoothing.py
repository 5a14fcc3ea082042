"""Smoothing of observed scalars: the first observation replaces, the gain adapts (Wiener)."""

from typing import NamedTuple

import torch
from torch import Tensor

CONTROL_GAIN_MIN = 0.4
"""Least gain for signals that steer: the policy moves under them, so an old mean must not outlive it."""


class AdaptiveEma(NamedTuple):
    """State of one smoothed signal, or of many along leading dimensions.

    Attributes:
        mean: [...] smoothed value; meaningless while `seen` is 0.
        previous: [...] last finite observation.
        seen: [...] finite observations so far; 0 is the sentinel that the next one replaces.
    """

    mean: Tensor
    previous: Tensor
    seen: Tensor


def empty_ema(shape: tuple[int, ...] = (), *, device: str | torch.device = "cpu") -> AdaptiveEma:
    """State before any observation, float32 zeros."""
    zeros = torch.zeros(shape, dtype=torch.float32, device=device)
    return AdaptiveEma(zeros, zeros.clone(), zeros.clone())


def update_ema(state: AdaptiveEma, observed: Tensor, *, alpha_min: float = 0.0) -> AdaptiveEma:
    """One observation: m = x - mean, s = x - previous, a = m^2 / (m^2 + s^2) with 0/0 = 0, mean += max(a, alpha_min) m.

    A non-finite observation leaves the state as it was: it carries no value that could be averaged, and whoever must
    fail on it (the kill criteria) looks at the observation itself.

    Args:
        state: as returned by the previous call, or `empty_ema`.
        observed: [...] same shape as the state.
        alpha_min: least gain, 0 for diagnostics, CONTROL_GAIN_MIN for control loops.

    Returns:
        the next state, in the dtype of `state.mean`; the mean never leaves the hull of what was observed.
    """
    x, mean, previous = observed.double(), state.mean.double(), state.previous.double()
    gain = wiener_gain(x - mean, x - previous).clamp_min(alpha_min)
    moved = torch.lerp(mean, x, gain)  # exact at both ends, unlike mean + gain (x - mean)
    # Rounding may step over an end of the hull by one unit in the last place.
    moved = torch.minimum(torch.maximum(moved, torch.minimum(x, mean)), torch.maximum(x, mean))
    moved = torch.where(state.seen == 0, x, moved)
    seen = torch.isfinite(observed)
    return AdaptiveEma(
        torch.where(seen, moved, mean).to(state.mean.dtype),
        torch.where(seen, x, previous).to(state.previous.dtype),
        state.seen + seen.to(state.seen.dtype),
    )


def wiener_gain(innovation: Tensor, change: Tensor) -> Tensor:
    """m^2 / (m^2 + s^2) with 0/0 = 0 and no epsilon, in [0, 1].

    Written as 1 / (1 + (s/m)^2): squares of squared returns (1e-18) underflow float32, their ratio does not.
    """
    ratio = change / torch.where(innovation == 0, torch.ones_like(innovation), innovation)
    return torch.where(innovation == 0, torch.zeros_like(innovation), 1.0 / (1.0 + ratio * ratio))
