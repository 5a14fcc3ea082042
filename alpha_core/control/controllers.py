"""Controllers as pure functions: what was observed and the present setting in, the next setting out."""

import torch
from torch import Tensor

from alpha_core.control.smoothing import CONTROL_GAIN_MIN, AdaptiveEma, update_ema

THRESHOLD_MOST = 0.5
"""|P(up) - 0.5| cannot exceed this, so a higher threshold would mean the same."""

ATTENUATION_LEAST = 0.1
"""Floor of the Kelly attenuation, permanent: from zero it could never recover."""


def control_engagement(
    threshold: Tensor,
    smoothed: AdaptiveEma,
    *,
    trades: Tensor,
    decisions: Tensor,
    gain: float,
    target: float,
) -> tuple[Tensor, AdaptiveEma]:
    """Trade less often when engagement exceeds its target: threshold += gain (smoothed - target), within [0, 0.5].

    Args:
        threshold: [...] present entry threshold on |P(up) - 0.5|.
        smoothed: state of the engagement's EMA, same shape.
        trades: [...] trades of the last rollout.
        decisions: [...] decisions of the last rollout; 0 counts as 1.
        gain: step per unit of excess engagement.
        target: wanted trades per decision.

    Returns:
        next threshold, next EMA state. A NaN rate changes neither.
    """
    observed = trades.float() / decisions.float().clamp_min(1.0)
    smoothed = update_ema(smoothed, observed, alpha_min=CONTROL_GAIN_MIN)
    moved = threshold + gain * (smoothed.mean - target)
    return _step(threshold, moved, torch.isfinite(observed), 0.0, THRESHOLD_MOST), smoothed


def control_attenuation(attenuation: Tensor, sharpe: Tensor, *, gain: float, target: float) -> Tensor:
    """Kelly attenuation: kappa += gain (Sharpe - target), within [ATTENUATION_LEAST, 1].

    Args:
        attenuation: [...] present value; the sentinel 0 means that it starts at 1.
        sharpe: [...] Sharpe ratio of the last rollout, per episode; NaN changes nothing.
    """
    present = torch.where(attenuation == 0, torch.ones_like(attenuation), attenuation)
    return _step(present, present + gain * (sharpe - target), ~torch.isnan(sharpe), ATTENUATION_LEAST, 1.0)


def _step(present: Tensor, moved: Tensor, valid: Tensor, low: float, high: float) -> Tensor:
    """`moved` where the observation was usable, else `present`; both kept inside [low, high], NaN becoming `high`."""
    return torch.where(valid, moved, present).nan_to_num(nan=high, posinf=high, neginf=low).clamp(low, high)


def position_size(cap: int, kelly: Tensor, attenuation: Tensor, regime_scale: Tensor) -> Tensor:
    """floor(cap * Kelly fraction * attenuation * regime scale), whole lots in [0, cap].

    The cap is a hard safety limit: no input, NaN and infinity included, exceeds it; NaN gives 0.

    Args:
        cap: most lots.
        kelly: [...] fractional Kelly bet in [0, 1].
        attenuation: [...] from `control_attenuation`; the sentinel 0 counts as 1.
        regime_scale: [...] from `update_regime`.

    Returns:
        [...] int64 lots.
    """
    present = torch.where(attenuation == 0, torch.ones_like(attenuation), attenuation)
    lots = torch.floor(cap * kelly.double() * present.double() * regime_scale.double())
    return lots.nan_to_num(nan=0.0, posinf=float(cap), neginf=0.0).clamp(0, cap).long()


def entry_allowed(probability_up: Tensor, direction: Tensor, threshold: Tensor) -> Tensor:
    """Whether a trade that adds exposure in `direction` passes: direction * (P(up) - 0.5) >= threshold.

    Exits are never asked. A NaN probability or threshold refuses.

    Args:
        probability_up: [...] in [0, 1].
        direction: [...] +1 to buy, -1 to sell.
        threshold: [...] in [0, 0.5].
    """
    return direction * (probability_up - 0.5) >= threshold
