"""Circuit breakers: four fixed thresholds that training must clear before it may scale up."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from alpha_core.control.bus import SignalBus
from alpha_core.control.smoothing import update_ema
from alpha_core.shapes import ACTIONS

THRESHOLDS: dict[str, float] = {
    "q_spread": 0.05,
    "action_entropy": 0.5 * math.log(ACTIONS),
    "return_vs_random": 0.0,
    "early_q_movement": 0.01,
}
"""Least value that passes, by criterion; fixed, never learned."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Outcome of one criterion.

    Attributes:
        name: key of THRESHOLDS.
        figure: what was measured; NaN when it could not be.
        threshold: least value that passes.
        passed: figure >= threshold; what is not finite never passes.
        reason: one sentence, which names what was NaN or infinite if anything was.
    """

    name: str
    figure: float
    threshold: float
    passed: bool
    reason: str


def q_spread(q_values: Tensor, legal: Tensor | None = None) -> Tensor:
    """Mean over the batch of (population SD over actions / |mean over actions|).

    Args:
        q_values: [B, A] action values, any unit.
        legal: [B, A] bool, actions that count; all when None.

    Returns:
        [] float32. A row whose actions average to exactly 0 counts as infinitely spread if they differ at all.
    """
    values = q_values.double()
    weight = torch.ones_like(values) if legal is None else legal.double()
    share = weight / weight.sum(-1, keepdim=True)
    mean = (values * share).sum(-1)
    deviation = ((values - mean[:, None]).square() * share).sum(-1).sqrt()
    ratio = torch.where(deviation == 0, deviation, deviation / mean.abs())
    return ratio.mean().float()


def action_entropy(counts: Tensor) -> Tensor:
    """Entropy of an action histogram in nats, 0 log 0 = 0; NaN for an empty histogram. counts [A] -> [] float32."""
    share = counts.double() / counts.double().sum()
    return -torch.xlogy(share, share).sum().float()


def return_vs_random(rollout_return: Tensor, baseline_mean: float, baseline_std: float) -> Tensor:
    """(return - baseline mean) / baseline SD, all in the same unit; NaN when the baseline has no spread."""
    spread = baseline_std if baseline_std > 0 else math.nan
    return (rollout_return.double() - baseline_mean).div(spread).float()


def early_q_movement(initial: Iterable[Tensor], trained: Iterable[Tensor]) -> Tensor:
    """|theta - theta_init|_F / |theta_init|_F over all trained parts together.

    A norm of theta alone would miss rotations.

    Raises:
        ValueError: the two hold different numbers of tensors.
    """
    pairs = list(zip(initial, trained, strict=True))
    moved = sum((((b - a).double().square()).sum() for a, b in pairs), torch.zeros((), dtype=torch.float64))
    size = sum((a.double().square().sum() for a, _ in pairs), torch.zeros((), dtype=torch.float64))
    return (moved / size).sqrt().float()


def evaluate(figures: dict[str, float]) -> list[Verdict]:
    """Hold measured figures against THRESHOLDS, in its order.

    Args:
        figures: value by criterion; one that is absent fails like NaN.

    Raises:
        ValueError: a name that is no criterion.
    """
    unknown = sorted(set(figures) - set(THRESHOLDS))
    if unknown:
        raise ValueError(f"criteria were {unknown}, must be among {sorted(THRESHOLDS)}")
    return [_judge(name, figures.get(name, math.nan), bound) for name, bound in THRESHOLDS.items()]


def observe(bus: SignalBus, figures: dict[str, float]) -> tuple[SignalBus, list[Verdict]]:
    """Smooth the latest figures on the bus (diagnostic gain) and judge the smoothed values.

    Smoothing skips what is not finite, so a figure that is not finite now is judged as it is: it fails.

    Args:
        bus: without leading dimensions.
        figures: latest value by criterion.
    """
    judged: dict[str, float] = {}
    for name, figure in figures.items():
        state = update_ema(bus.ema(name), torch.tensor(figure, device=bus.values.device))
        bus = bus.set_ema(name, state)
        judged[name] = float(state.mean) if math.isfinite(figure) else figure
    return bus, evaluate(judged)


def _judge(name: str, figure: float, bound: float) -> Verdict:
    text = "NaN" if math.isnan(figure) else f"{figure:.6g}"
    return Verdict(
        name=name,
        figure=figure,
        threshold=bound,
        passed=math.isfinite(figure) and figure >= bound,
        reason=f"{name} was {text}, must be finite and at least {bound:g}",
    )
