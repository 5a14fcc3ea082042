"""Stylised facts of a simulated market, as numbers and as curves to draw. Returns are of windows of `WINDOW` events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import kurtosis

from alpha_core.errors import InputError
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.days import simulate_day
from alpha_pipeline.simulator.event_series import SECOND, EventSeries, change, event_series, stretches

WINDOW = 100
IMPACT_BINS = 20
RETURN_LAGS = 20
LONGEST_SIGN_LAG, LONGEST_VOLATILITY_LAG = 1_000, 100
FITTED_LAGS = 100
IMPACT_SECONDS, HALF_HOUR = 10, 1_800
"""Windows and samples of the regressions of Cont, Kukanov and Stoikov (2014)."""

FEWEST_WINDOWS = 100


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points to draw: x and y, [points] float64 each, all finite."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, kw_only=True)
class StylisedFacts:
    """What a market is like, computed from its records.

    Attributes:
        numbers: single figures by name.
        spreads: share of events by spread in ticks.
        depth: mean size in lots by level, 1 to 10, of both sides.
        impact: mean return in ticks against mean order-flow imbalance in lots, by bins of equal count.
        explained: R2 of order-flow imbalance against return over windows of ten seconds within a half hour, mean
            over days by UTC hour at which the half hour begins.
        trade_signs: autocorrelation of trade signs by lag in trades.
        returns: autocorrelation of returns by lag in windows.
        volatility: autocorrelation of absolute returns by lag in windows.
        events: number of events.
        trades: number of trade signs.
        windows: number of returns.
    """

    numbers: Mapping[str, float]
    spreads: Curve
    depth: Curve
    impact: Curve
    explained: Curve
    trade_signs: Curve
    returns: Curve
    volatility: Curve
    events: int
    trades: int
    windows: int


def facts_of_market(config: SimulatorConfig, tick_nanos: int, days: int) -> StylisedFacts:
    """Simulate the first days of a market and look at what trades between its halts.

    Raises:
        InputError: the days hold too few events, or too short sessions.
    """
    made = (simulate_day(config, tick_nanos, config.day(i), i) for i in range(days))
    return facts_of([event_series(part, tick_nanos) for day in made for part in stretches(day)])


def facts_of(parts: Sequence[EventSeries]) -> StylisedFacts:
    """Facts pooled over parts; nothing reaches from one part into another.

    Raises:
        InputError: the parts hold too few windows or trades, or no half hour of trading.
    """
    flows, returns = windows(parts)
    signs = [part.trade_sign for part in parts]
    count, trades = sum(map(len, returns)), sum(map(len, signs))
    if count < FEWEST_WINDOWS or trades < FEWEST_WINDOWS:
        raise InputError(
            f"the simulated market had {count} windows of {WINDOW} events and {trades} trades, stylised facts need "
            f"at least {FEWEST_WINDOWS} of each: simulate more days or raise simulator.events_per_day"
        )
    sizes = [np.abs(r) for r in returns]
    curves = {
        "trade_signs": autocorrelations(signs, _spaced(LONGEST_SIGN_LAG)),
        "returns": autocorrelations(returns, np.arange(1, RETURN_LAGS + 1)),
        "volatility": autocorrelations(sizes, _spaced(LONGEST_VOLATILITY_LAG)),
        "explained": explained_by_half_hour(parts),
    }
    depth = Curve(x=np.arange(1.0, 11.0), y=_pooled_depth(parts))
    numbers = stylised_facts(parts) | {
        "level with the largest mean size": float(depth.x[np.argmax(depth.y)]),
        "R2 of OFI against the return of the same ten seconds": float(curves["explained"].y.mean()),
        "exponent of decay of the autocorrelation of trade signs": decay_exponent(curves["trade_signs"]),
        "autocorrelation of absolute returns, lag 1": float(curves["volatility"].y[0]),
        "exponent of decay of the autocorrelation of absolute returns": decay_exponent(curves["volatility"]),
    }
    return StylisedFacts(
        numbers=numbers,
        spreads=spread_shares(parts),
        depth=depth,
        impact=impact_curve(np.concatenate(flows), np.concatenate(returns)),
        events=sum(len(part.mid2) for part in parts),
        trades=trades,
        windows=count,
        **curves,
    )


def windows(parts: Sequence[EventSeries]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Order-flow imbalance in lots and return in ticks of each whole window, per part."""
    returns = [change(part.mid2[::WINDOW], 1) for part in parts]
    flows = [
        part.ofi[1 : 1 + WINDOW * len(r)].reshape(-1, WINDOW).sum(1)
        for part, r in zip(parts, returns, strict=True)
    ]
    return flows, returns


def stylised_facts(parts: Sequence[EventSeries]) -> dict[str, float]:
    """Numbers the literature reports, pooled over parts."""
    flows, returns = windows(parts)
    signs = [part.trade_sign for part in parts]
    spread = np.concatenate([part.spread for part in parts])
    pooled = np.concatenate(returns)
    moves = np.concatenate([np.diff(part.mid2) != 0 for part in parts])
    depth = _pooled_depth(parts)
    squares = [r**2 for r in returns]
    return {
        "share of events with a one-tick spread": float(np.mean(spread == 1)),
        "share of events with a two-tick spread": float(np.mean(spread == 2)),
        "R2 of OFI against the return of the same 100 events": _explained(np.concatenate(flows), pooled),
        "autocorrelation of trade signs, lag 1": autocorrelation(signs, 1),
        "autocorrelation of trade signs, lag 10": autocorrelation(signs, 10),
        "autocorrelation of returns, lag 1": autocorrelation(returns, 1),
        "autocorrelation of squared returns, lag 1": autocorrelation(squares, 1),
        "autocorrelation of squared returns, lag 10": autocorrelation(squares, 10),
        "excess kurtosis of returns": float(kurtosis(pooled)),
        "mid moves of half a tick per event": float(np.mean(moves)),
        "trades (events) per event": sum(map(len, signs)) / len(spread),
        "mean size at the touch, lots": float(depth[0]),
        "mean size at level 5, lots": float(depth[4]),
        "mean size at level 10, lots": float(depth[9]),
    }


def spread_shares(parts: Sequence[EventSeries]) -> Curve:
    """Share of events by spread, from one tick to the widest that occurs."""
    counts = np.bincount(np.concatenate([part.spread for part in parts]))[1:]
    return Curve(x=np.arange(1.0, 1.0 + len(counts)), y=counts / counts.sum())


def impact_curve(flows: np.ndarray, returns: np.ndarray) -> Curve:
    """Mean return by mean order-flow imbalance, in `IMPACT_BINS` bins of as equal a count as can be."""
    order = np.argsort(flows, kind="stable")
    bins = np.array_split(order, IMPACT_BINS)
    return Curve(
        x=np.array([flows[part].mean() for part in bins]), y=np.array([returns[part].mean() for part in bins])
    )


def explained_by_half_hour(parts: Sequence[EventSeries]) -> Curve:
    """R2 over windows of ten seconds within each half hour of each part, mean by time of day.

    Half hours of which less than half was traded, or in which the price or the flow stood still, are left out.

    Raises:
        InputError: no half hour is left.
    """
    found: dict[int, list[float]] = {}
    for part in parts:
        edges, flow, moved = clock_windows(part)
        slots = edges // HALF_HOUR
        for slot in np.unique(slots):
            x, y = flow[slots == slot], moved[slots == slot]
            if 2 * IMPACT_SECONDS * len(x) >= HALF_HOUR and np.ptp(x) > 0 and np.ptp(y) > 0:
                found.setdefault(int(slot) % 48, []).append(_explained(x, y))
    if not found:
        raise InputError(
            "the simulated market had no half hour, traded for at least half of it, in which the price moved: raise "
            "simulator.session_hours or simulator.move_rate"
        )
    times = sorted(found)
    return Curve(x=np.array(times) / 2.0, y=np.array([np.mean(found[time]) for time in times]))


def clock_windows(part: EventSeries) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole windows of ten seconds by the clock: UTC second of the begin, imbalance in lots, return in ticks."""
    step = IMPACT_SECONDS
    first, last = int(part.time_ns[0]) // SECOND // step + 1, int(part.time_ns[-1]) // SECOND // step
    edges = np.arange(first, last + 1) * step
    before = np.searchsorted(part.time_ns, edges * SECOND)  # events before each edge, at least one
    total = np.concatenate(([0.0], np.cumsum(part.ofi)))[before]
    return edges[:-1], np.diff(total), change(part.mid2[before - 1], 1)


def autocorrelations(series: Sequence[np.ndarray], lags: np.ndarray) -> Curve:
    """Autocorrelation by lag, of those lags for which there are pairs."""
    longest = max(map(len, series))
    lags = lags[lags < longest]
    return Curve(x=lags.astype(np.float64), y=np.array([autocorrelation(series, int(lag)) for lag in lags]))


def autocorrelation(series: Sequence[np.ndarray], lag: int) -> float:
    """Pooled over series, with one mean and one variance."""
    whole = np.concatenate(series)
    mean = whole.mean()
    products = np.concatenate([(s[lag:] - mean) * (s[:-lag] - mean) for s in series])
    return float(products.mean() / whole.var())


def decay_exponent(curve: Curve) -> float:
    """b in [0, 2] of the least-squares curve c x^-b through lags up to `FITTED_LAGS`, to a hundredth."""
    near = curve.x <= FITTED_LAGS
    exponents = np.linspace(0.0, 2.0, 201)
    shapes = curve.x[near] ** -exponents[:, None]
    scales = shapes @ curve.y[near] / (shapes**2).sum(axis=1)
    errors = ((scales[:, None] * shapes - curve.y[near]) ** 2).sum(axis=1)
    return float(exponents[np.argmin(errors)])


def _explained(flows: np.ndarray, returns: np.ndarray) -> float:
    return float(np.corrcoef(flows, returns)[0, 1] ** 2)


def _pooled_depth(parts: Sequence[EventSeries]) -> np.ndarray:
    return np.average([part.depth for part in parts], axis=0, weights=[len(part.mid2) for part in parts])


def _spaced(longest: int) -> np.ndarray:
    """Whole lags from 1 to `longest`, evenly on a scale of logarithms."""
    return np.unique(np.rint(np.geomspace(1, longest, 25)).astype(np.int64))
