"""From the model's time to the clock: session, U-shaped activity, latency of the receiver."""

import datetime as dt
from dataclasses import dataclass

import numpy as np

from alpha_pipeline.simulator.config import SimulatorConfig

HOUR_NANOS = 3_600_000_000_000
_GRID = 8192
_LATENCY_FLOOR, _LATENCY_MEAN = 20_000, 60_000  # ns, exchange to sender
_WIRE_FLOOR, _WIRE_MEAN = 5_000, 4_000  # ns, sender to receiver


@dataclass(frozen=True, kw_only=True)
class EventClock:
    """Times of a day's events.

    Attributes:
        ts_event: [events] int64 ns since 1970 UTC, never decreasing.
        ts_recv: [events] int64 ns, never decreasing, after ts_event.
        ts_in_delta: [events] int32 ns, from sending to receiving.
    """

    ts_event: np.ndarray
    ts_recv: np.ndarray
    ts_in_delta: np.ndarray


def event_clock(
    gaps: np.ndarray, config: SimulatorConfig, day: str, generator: np.random.Generator
) -> EventClock:
    """Place events in the session.

    Args:
        gaps: [events] float64 >= 0, time before each event in arbitrary units.
        config: session and shape.
        day: UTC date.
        generator: source of the latencies.
    """
    midnight = dt.datetime.combine(dt.date.fromisoformat(day), dt.time(), tzinfo=dt.UTC)
    opening = int(midnight.timestamp()) * 10**9 + int(config.session_start_hour * HOUR_NANOS)
    elapsed = session_fraction(gaps, config.u_shape) * config.session_hours * HOUR_NANOS
    ts_event = opening + np.floor(elapsed).astype(np.int64)
    wire = _WIRE_FLOOR + generator.exponential(_WIRE_MEAN, len(gaps)).astype(np.int64)
    latency = _LATENCY_FLOOR + generator.exponential(_LATENCY_MEAN, len(gaps)).astype(np.int64)
    return EventClock(
        ts_event=ts_event,
        ts_recv=np.maximum.accumulate(ts_event + latency + wire),
        ts_in_delta=wire.astype(np.int32),
    )


def session_fraction(gaps: np.ndarray, u_shape: float) -> np.ndarray:
    """Fraction of the session at which each event falls, [events] float64 in [0, 1).

    The rate at fraction u is proportional to 1 + u_shape (2u - 1)^2, so the cumulated gaps spread evenly over
    the integral of that, which is inverted on a grid.
    """
    grid = np.linspace(0.0, 1.0, _GRID)
    integral = grid + u_shape / 6.0 * ((2.0 * grid - 1.0) ** 3 + 1.0)
    elapsed = np.cumsum(gaps)
    share = elapsed / (elapsed[-1] * (1.0 + 1.0 / len(gaps)))
    return np.interp(share, integral / integral[-1], grid)
