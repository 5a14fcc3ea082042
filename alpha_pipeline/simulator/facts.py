"""What a simulated market is like: predictability by strength of the planted alpha, and stylised facts.

    python -m alpha_pipeline.simulator.facts --rho 0 0.5 1

prints the Markdown tables of `docs/simulator.md`. Everything but the latent signal is computed from the
records, as a reader of the files would.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import lfilter
from scipy.stats import kurtosis, rankdata

from alpha_core.shapes import HORIZONS
from alpha_pipeline.ingest.records import Flag
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.days import SimulatedDay, simulate_day

_TICK = 250_000_000
FLOW_SPAN = 300


@dataclass(frozen=True, kw_only=True)
class EventSeries:
    """A day by event, from the records alone but for `signal`.

    Attributes:
        mid2: [events] int64, bid + ask in ticks, after the event.
        spread: [events] int64 ticks.
        imbalance: [events] float64, (bid size - ask size) / sum at the touch.
        signed_volume: [events] float64 lots, bought minus sold by market orders.
        trade_sign: [trades] float64, +1 or -1 per event with trades, in order.
        ofi: [events] float64, order-flow imbalance of the touch (Cont, Kukanov, Stoikov 2014).
        signal: [events] float64, the latent signal.
        depth: [10] float64, mean size by level, both sides.
    """

    mid2: np.ndarray
    spread: np.ndarray
    imbalance: np.ndarray
    signed_volume: np.ndarray
    trade_sign: np.ndarray
    ofi: np.ndarray
    signal: np.ndarray
    depth: np.ndarray


def event_series(day: SimulatedDay, tick_nanos: int = _TICK) -> EventSeries:
    """Reduce a day's records to one row per event."""
    records = day.records
    last = (records["flags"] & np.uint8(Flag.LAST)) != 0
    levels = records["levels"][last]
    bid, ask = levels["bid_px"][:, 0] // tick_nanos, levels["ask_px"][:, 0] // tick_nanos
    bid_lots, ask_lots = (levels[k][:, 0].astype(np.float64) for k in ("bid_sz", "ask_sz"))
    sign = np.where(records["side"] == b"B", 1.0, -1.0) * (records["action"] == b"T")
    starts = np.concatenate(([0], np.flatnonzero(last)[:-1] + 1))
    signed = np.add.reduceat(sign * records["size"], starts)
    return EventSeries(
        mid2=bid + ask,
        spread=ask - bid,
        imbalance=(bid_lots - ask_lots) / (bid_lots + ask_lots),
        signed_volume=signed,
        trade_sign=np.sign(signed[signed != 0]),
        ofi=order_flow_imbalance(bid, ask, bid_lots, ask_lots),
        signal=day.truth.astype(np.float64),
        depth=0.5 * (levels["bid_sz"].mean(axis=0) + levels["ask_sz"].mean(axis=0)),
    )


def order_flow_imbalance(
    bid: np.ndarray, ask: np.ndarray, bid_lots: np.ndarray, ask_lots: np.ndarray
) -> np.ndarray:
    """e_n of Cont, Kukanov, Stoikov (2014), [events] float64; 0 for the first event."""
    bid_step, ask_step = np.diff(bid), np.diff(ask)
    demand = np.where(bid_step >= 0, bid_lots[1:], 0.0) - np.where(bid_step <= 0, bid_lots[:-1], 0.0)
    supply = np.where(ask_step <= 0, ask_lots[1:], 0.0) - np.where(ask_step >= 0, ask_lots[:-1], 0.0)
    return np.concatenate(([0.0], demand - supply))


def ema(values: np.ndarray, span: float) -> np.ndarray:
    """Exponential moving average with time constant `span` events, causal, from 0."""
    keep = np.exp(-1.0 / span)
    return np.asarray(lfilter([1.0 - keep], [1.0, -keep], values))


def change(mid2: np.ndarray, horizon: int) -> np.ndarray:
    """Change of the mid over `horizon` events in ticks, [events - horizon] float64."""
    return 0.5 * (mid2[horizon:] - mid2[:-horizon])


def rank_auc(up: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve (Mann-Whitney with mean ranks), NaN when one class is absent."""
    positives = int(up.sum())
    negatives = len(up) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    ranks = rankdata(score)
    return float((ranks[up].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def pooled_auc(days: Sequence[EventSeries], scores: Sequence[np.ndarray], horizon: int) -> float:
    """AUC of scores for the sign of the mid's change over `horizon` events, ties left out."""
    changes = np.concatenate([change(d.mid2, horizon) for d in days])
    values = np.concatenate([s[: len(s) - horizon] for s in scores])
    moved = changes != 0
    return rank_auc(changes[moved] > 0, values[moved])


def flow_score(day: EventSeries) -> np.ndarray:
    """A plain flow feature: EMA over FLOW_SPAN events of the sign of trade volume, [events]."""
    return ema(np.sign(day.signed_volume), FLOW_SPAN)


def decile_moves(days: Sequence[EventSeries], horizon: int) -> np.ndarray:
    """Mean change of the mid in ticks by decile of the latent signal, [10]."""
    changes = np.concatenate([change(d.mid2, horizon) for d in days])
    signal = np.concatenate([d.signal[: len(d.signal) - horizon] for d in days])
    rank = (10 * (rankdata(signal) - 1) / len(signal)).astype(int)
    return np.array([changes[rank == k].mean() for k in range(10)])


def trader_pnl(day: EventSeries, score: np.ndarray, enter: float, cost: float) -> tuple[float, int]:
    """PnL in ticks of one day and number of lots traded by a one-lot hysteresis rule.

    Goes long when the score exceeds `enter`, short below -`enter`, holds in between; ends flat. Each lot pays
    half the spread of the event and `cost` ticks.

    Args:
        day: the market.
        score: [events], any causal score.
        enter: threshold in units of the score.
        cost: ticks per lot and side on top of the half spread.
    """
    wish = np.where(score > enter, 1.0, np.where(score < -enter, -1.0, np.nan))
    held = np.maximum.accumulate(np.where(np.isnan(wish), 0, np.arange(len(wish))))
    position = np.nan_to_num(wish[held])
    position[-1] = 0.0
    lots = np.abs(np.diff(position, prepend=0.0))
    gain = 0.5 * np.sum(position[:-1] * np.diff(day.mid2))
    return float(gain - np.sum(lots * (0.5 * day.spread + cost))), int(lots.sum())


@dataclass(frozen=True, kw_only=True)
class Predictability:
    """How strongly a market of one rho can be predicted.

    Attributes:
        rho: strength of the planted alpha.
        auc_signal, auc_flow: AUC of the latent signal and of `flow_score` by horizon.
        deciles: [10] mean move of the mid over 1000 events by decile of the signal, in ticks.
        ideal, flow: ticks a day (mean, standard deviation) and lots a day of `trader_pnl` on either score.
    """

    rho: float
    auc_signal: tuple[float, ...]
    auc_flow: tuple[float, ...]
    deciles: np.ndarray
    ideal: tuple[float, float, float]
    flow: tuple[float, float, float]


def measure(config: SimulatorConfig, days: int) -> tuple[Predictability, list[EventSeries]]:
    """Simulate days and measure them."""
    series = [event_series(simulate_day(config, _TICK, config.day(i), i)) for i in range(days)]
    signals = [d.signal for d in series]
    flows = [flow_score(d) for d in series]
    scale = float(np.std(np.concatenate(flows)))
    figures = Predictability(
        rho=config.rho,
        auc_signal=tuple(pooled_auc(series, signals, h) for h in HORIZONS),
        auc_flow=tuple(pooled_auc(series, flows, h) for h in HORIZONS),
        deciles=decile_moves(series, 1000),
        ideal=_trader(series, signals, 0.7),
        flow=_trader(series, [f / scale for f in flows], 1.0),
    )
    return figures, series


def _trader(
    days: Sequence[EventSeries], scores: Sequence[np.ndarray], enter: float
) -> tuple[float, float, float]:
    results = np.array([trader_pnl(d, s, enter, 0.5) for d, s in zip(days, scores, strict=True)])
    return float(results[:, 0].mean()), float(results[:, 0].std(ddof=1)), float(results[:, 1].mean())


def stylised_facts(days: Sequence[EventSeries]) -> dict[str, float]:
    """Numbers the literature reports, pooled over days; windows are of 100 events."""
    returns = [change(d.mid2[::100], 1) for d in days]
    flows = [d.ofi[1 : 1 + 100 * len(r)].reshape(-1, 100).sum(1) for d, r in zip(days, returns, strict=True)]
    signs = [d.trade_sign for d in days]
    spread = np.concatenate([d.spread for d in days])
    pooled = np.concatenate(returns)
    return {
        "share of events with a one-tick spread": float(np.mean(spread == 1)),
        "share of events with a two-tick spread": float(np.mean(spread == 2)),
        "R2 of OFI against the return of the same 100 events": float(
            np.corrcoef(np.concatenate(flows), pooled)[0, 1] ** 2
        ),
        "autocorrelation of trade signs, lag 1": _autocorrelation(signs, 1),
        "autocorrelation of trade signs, lag 10": _autocorrelation(signs, 10),
        "autocorrelation of returns, lag 1": _autocorrelation(returns, 1),
        "autocorrelation of squared returns, lag 1": _autocorrelation([r**2 for r in returns], 1),
        "autocorrelation of squared returns, lag 10": _autocorrelation([r**2 for r in returns], 10),
        "excess kurtosis of returns": float(kurtosis(pooled)),
        "mid moves of half a tick per event": float(np.mean([np.mean(np.diff(d.mid2) != 0) for d in days])),
        "trades (events) per event": float(np.mean([len(d.trade_sign) / len(d.mid2) for d in days])),
        "mean size at the touch, lots": float(np.mean([d.depth[0] for d in days])),
        "mean size at level 5, lots": float(np.mean([d.depth[4] for d in days])),
        "mean size at level 10, lots": float(np.mean([d.depth[9] for d in days])),
    }


def _autocorrelation(series: Sequence[np.ndarray], lag: int) -> float:
    mean = np.concatenate(series).mean()
    products = np.concatenate([(s[lag:] - mean) * (s[:-lag] - mean) for s in series])
    return float(products.mean() / np.concatenate(series).var())


def render(results: Sequence[Predictability], facts: dict[str, float]) -> str:
    """The Markdown tables of the documentation."""
    horizons = " | ".join(f"h = {h}" for h in HORIZONS)
    lines = [f"| rho | score | {horizons} |", "|---" * (2 + len(HORIZONS)) + "|"]
    for r in results:
        lines += [_row(r.rho, "latent signal", r.auc_signal), _row(r.rho, "flow EMA", r.auc_flow)]
    lines += ["", "| rho | " + " | ".join(f"D{k}" for k in range(1, 11)) + " |", "|---" * 11 + "|"]
    lines += [f"| {r.rho:g} | " + " | ".join(f"{v:+.2f}" for v in r.deciles) + " |" for r in results]
    lines += ["", "| rho | trader | ticks a day | standard deviation | lots a day |", "|---" * 5 + "|"]
    for r in results:
        for name, (mean, deviation, lots) in (("latent signal", r.ideal), ("flow EMA", r.flow)):
            lines.append(f"| {r.rho:g} | {name} | {mean:+.1f} | {deviation:.1f} | {lots:.0f} |")
    lines += ["", f"| fact (rho = {results[-1].rho:g}) | value |", "|---|---|"]
    lines += [f"| {name} | {value:.3f} |" for name, value in facts.items()]
    return "\n".join(lines)


def _row(rho: float, name: str, aucs: Sequence[float]) -> str:
    return f"| {rho:g} | {name} | " + " | ".join(f"{a:.3f}" for a in aucs) + " |"


def render_speed(config: SimulatorConfig) -> str:
    """Best of three in processor time: events to records in memory, and one day to file bytes."""
    from alpha_pipeline.simulator.dbn_writer import encode

    long_day = replace(config, events_per_day=1_000_000)
    simulate_day(config, _TICK, config.start_date, 0)  # compiles, or loads what was compiled before
    memory, file = [], []
    for _ in range(3):
        start = time.process_time()
        simulate_day(long_day, _TICK, config.start_date, 0)
        memory.append(time.process_time() - start)
        start = time.process_time()
        made = simulate_day(config, _TICK, config.start_date, 0)
        encode(made.records, symbol=config.symbol, day=config.start_date)
        file.append(time.process_time() - start)
    rate = long_day.events_per_day / min(memory) / 1e6
    return f"{rate:.2f} M events/s; a day of {config.events_per_day} events in {1e3 * min(file):.0f} ms"


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Facts of the simulated market, as Markdown tables.")
    parser.add_argument("--rho", type=float, nargs="+", default=[0.0, 0.5, 1.0], help="strengths to measure")
    parser.add_argument("--days", type=int, default=14, help="days to simulate for each")
    parser.add_argument("--seed", type=int, default=SimulatorConfig().seed)
    parser.add_argument("--speed", action="store_true", help="time this machine instead")
    options = parser.parse_args(arguments)
    base = SimulatorConfig(seed=options.seed)
    if options.speed:
        print(render_speed(base))
        return
    results, series = [], []
    for rho in options.rho:
        figures, series = measure(replace(base, rho=rho), options.days)
        results.append(figures)
    print(render(results, stylised_facts(series)))


if __name__ == "__main__":
    main()
