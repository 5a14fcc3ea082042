"""The declared signals of the bus: what each means, who writes it, who reads it, when it starts afresh."""

from dataclasses import dataclass
from enum import StrEnum

from alpha_core.control.controllers import ATTENUATION_LEAST, THRESHOLD_MOST
from alpha_core.control.regime import FLOOR_LEAST, SCALE_LEAST

LARGEST = 3e38
"""Bound of signals without a natural one; just inside float32."""


class Reset(StrEnum):
    """When a signal returns to its initial value."""

    FOLD = "FOLD"  # each fold starts afresh
    SOFT = "SOFT"  # each phase starts afresh
    PERSIST = "PERSIST"  # survives folds and runs, stored on disk


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One named scalar of the bus.

    Attributes:
        name: identity, snake_case.
        meaning: one phrase for people.
        unit: of the value.
        low: least legal value.
        high: greatest legal value.
        initial: value after a reset.
        writer: dotted path of the function that computes it.
        reader: dotted path of the function that acts on it.
        reset: when it starts afresh.
    """

    name: str
    meaning: str
    unit: str
    low: float
    high: float
    initial: float
    writer: str
    reader: str
    reset: Reset


_SMOOTHING = "alpha_core.control.smoothing.update_ema"
_CONTROLLERS = "alpha_core.control.controllers"
_REGIME = "alpha_core.control.regime"
_KILL = "alpha_core.control.kill_criteria"


def _ema(
    name: str, meaning: str, unit: str, bounds: tuple[float, float], reader: str, reset: Reset
) -> list[Signal]:
    """The three signals that hold an adaptive EMA: mean, last observation, number of observations."""
    parts = (
        (name, f"{meaning}, smoothed", unit, bounds, reader),
        (f"{name}_previous", f"{meaning}, last observation", unit, bounds, _SMOOTHING),
        (
            f"{name}_count",
            f"{meaning}, observations so far; 0 means none yet",
            "count",
            (0.0, LARGEST),
            _SMOOTHING,
        ),
    )
    return [
        Signal(
            name=n,
            meaning=m,
            unit=u,
            low=low,
            high=high,
            initial=0.0,
            writer=_SMOOTHING,
            reader=r,
            reset=reset,
        )
        for n, m, u, (low, high), r in parts
    ]


def _kill(name: str, meaning: str, unit: str, low: float) -> list[Signal]:
    return _ema(name, meaning, unit, (low, LARGEST), f"{_KILL}.evaluate", Reset.SOFT)


SIGNALS: tuple[Signal, ...] = (
    *_kill("q_spread", "spread of action values relative to their mean", "ratio", 0.0),
    *_kill("action_entropy", "entropy of the action histogram", "nats", 0.0),
    *_kill("return_vs_random", "rollout return against the random baseline", "baseline SD", -LARGEST),
    *_kill("early_q_movement", "distance of the weights from their start", "ratio", 0.0),
    *_ema(
        "engagement",
        "trades per decision",
        "ratio",
        (0.0, LARGEST),
        f"{_CONTROLLERS}.control_engagement",
        Reset.FOLD,
    ),
    Signal(
        name="entry_threshold",
        meaning="least |P(up) - 0.5| in the trade's direction that allows an entry",
        unit="probability",
        low=0.0,
        high=THRESHOLD_MOST,
        initial=0.05,
        writer=f"{_CONTROLLERS}.control_engagement",
        reader=f"{_CONTROLLERS}.entry_allowed",
        reset=Reset.FOLD,
    ),
    Signal(
        name="kelly_attenuation",
        meaning=f"share of the Kelly bet; 0 means not yet set and counts as 1, else at least {ATTENUATION_LEAST:g}",
        unit="ratio",
        low=0.0,
        high=1.0,
        initial=0.0,
        writer=f"{_CONTROLLERS}.control_attenuation",
        reader=f"{_CONTROLLERS}.position_size",
        reset=Reset.FOLD,
    ),
    *_ema(
        "volatility",
        "squared log mid return of one step, mean over environments",
        "1",
        (0.0, LARGEST),
        f"{_REGIME}.update_regime",
        Reset.FOLD,
    ),
    Signal(
        name="volatility_reference",
        meaning="slow mean of the smoothed volatility, before flooring",
        unit="1",
        low=0.0,
        high=LARGEST,
        initial=0.0,
        writer=f"{_REGIME}.update_regime",
        reader=f"{_REGIME}.learn_floor",
        reset=Reset.FOLD,
    ),
    Signal(
        name="volatility_samples",
        meaning="samples that reached the reference volatility",
        unit="count",
        low=0.0,
        high=LARGEST,
        initial=0.0,
        writer=f"{_REGIME}.update_regime",
        reader=f"{_REGIME}.update_regime",
        reset=Reset.FOLD,
    ),
    Signal(
        name="regime_floor",
        meaning="learned floor of the reference volatility",
        unit="1",
        low=FLOOR_LEAST,
        high=LARGEST,
        initial=FLOOR_LEAST,
        writer=f"{_REGIME}.learn_floor",
        reader=f"{_REGIME}.update_regime",
        reset=Reset.PERSIST,
    ),
    Signal(
        name="regime_scale",
        meaning="share of the position that the volatility regime allows",
        unit="ratio",
        low=SCALE_LEAST,
        high=1.0,
        initial=1.0,
        writer=f"{_REGIME}.update_regime",
        reader=f"{_CONTROLLERS}.position_size",
        reset=Reset.SOFT,
    ),
)
"""Every signal of the bus. Its place here is its place in the tensor, and nothing else uses that place."""
