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
from scipy.stats import rankdata

from alpha_core.shapes import HORIZONS
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.days import simulate_day
from alpha_pipeline.simulator.event_series import EventSeries, change, event_series
from alpha_pipeline.simulator.stylised import stylised_facts

_TICK = 250_000_000
FLOW_SPAN = 300


def ema(values: np.ndarray, span: float) -> np.ndarray:
    """Exponential moving average with time constant `span` events, causal, from 0."""
    keep = np.exp(-1.0 / span)
    return np.asarray(lfilter([1.0 - keep], [1.0, -keep], values))


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
    series = [event_series(simulate_day(config, _TICK, config.day(i), i), _TICK) for i in range(days)]
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
