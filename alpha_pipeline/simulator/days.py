"""Simulated days, in memory and on disk. The compiled model is loaded when a day is made, not on import."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alpha_core.durable import write_atomic
from alpha_core.errors import ConfigError
from alpha_pipeline.instrument import InstrumentSpec, safe_name
from alpha_pipeline.simulator.clock import event_clock
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.halts import with_halts

if TYPE_CHECKING:
    from alpha_pipeline.simulator.flow import Flow

_HALT_STREAM = 1
_OPENING_STREAM = 0xFFFF_FFFF  # keeps the opening prices' stream apart from that of any day


@dataclass(frozen=True, kw_only=True)
class SimulatedDay:
    """One day of one instrument.

    Attributes:
        records: [N] of MBP10_DTYPE.
        truth: [events] float32, the latent signal behind each event; an event ends at a record with F_LAST.
    """

    records: np.ndarray
    truth: np.ndarray


def simulate_day(config: SimulatorConfig, tick_nanos: int, day: str, index: int) -> SimulatedDay:
    """Make one day from (config, index) alone; the same arguments give the same bytes.

    Args:
        config: the market.
        tick_nanos: price increment in units of 1e-9.
        day: UTC date of the session.
        index: which day of the market it is, >= 0; decides the random streams and the opening price.

    Raises:
        ConfigError: index is negative or beyond 10 000.
    """
    from alpha_pipeline.simulator.book import new_market
    from alpha_pipeline.simulator.dbn_writer import to_records
    from alpha_pipeline.simulator.flow import OPENING_RECORDS, RECORDS_PER_EVENT, run_day

    events, bid = config.events_per_day, opening_bid(config, index)
    entropy = np.random.SeedSequence((config.seed, index))
    market = new_market(
        OPENING_RECORDS + RECORDS_PER_EVENT * events,
        entropy.generate_state(1, np.uint64),
        bid,
    )
    signal, gaps = np.empty(events), np.empty(events)
    run_day(market, flow_of(config), np.asarray(config.regime_volatility), signal, gaps)
    clock = event_clock(gaps, config, day, np.random.Generator(np.random.PCG64(entropy)))
    records = to_records(market.tape, clock, instrument_id=config.instrument_id, tick_nanos=tick_nanos)
    truth = signal.astype(np.float32)
    if config.halts_per_day:
        stream = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence((config.seed, index, _HALT_STREAM)))
        )
        halted = with_halts(records, truth, config, tick_nanos, stream)
        records, truth = halted.records, halted.truth
    return SimulatedDay(records=records, truth=truth)


def simulate_days(
    config: SimulatorConfig,
    spec: InstrumentSpec,
    out: Path,
    days: Sequence[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    *,
    truth: Path | None = None,
) -> list[Path]:
    """Write days as `<SYMBOL>-<day>.mbp-10.dbn.zst`, each published in one step.

    Args:
        config: the market.
        spec: gives the tick size; the simulated symbol must be one of its own.
        out: folder of the files, made when absent.
        days: UTC dates to make, by default the first `config.days` from `config.start_date`.
        progress: called after each day with (day, days done, days in all).
        truth: folder for the latent signal, `<SYMBOL>-<day>.npz`; not written when None. Keep it out of any
            folder that is read as market data.

    Returns:
        The files, in the order of `days`.

    Raises:
        ConfigError: the symbol is not the instrument's, or a day lies before `start_date`.
    """
    from alpha_pipeline.simulator.dbn_writer import encode

    if not spec.matches(config.symbol):
        raise ConfigError(
            f"simulator.symbol was {config.symbol!r}, must be one of instrument.symbols {spec.symbols}"
        )
    wanted = [config.day(i) for i in range(config.days)] if days is None else list(days)
    paths = []
    for done, day in enumerate(wanted, start=1):
        made = simulate_day(config, spec.tick_nanos, day, config.index(day))
        stem = f"{safe_name(config.symbol)}-{day}"
        path = out / f"{stem}.mbp-10.dbn.zst"
        write_atomic(path, encode(made.records, symbol=config.symbol, day=day))
        if truth is not None:
            write_atomic(truth / f"{stem}.npz", _packed(made.truth))
        paths.append(path)
        if progress is not None:
            progress(day, done, len(wanted))
    return paths


def opening_bid(config: SimulatorConfig, index: int) -> int:
    """Best bid at the open in ticks: a random walk over days that does not depend on what traded in them."""
    if not 0 <= index <= 10_000:
        raise ConfigError(
            f"the simulated day's index was {index}, must be in [0, 10000]: ask for days from "
            f"{config.start_date} on"
        )
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence((config.seed, _OPENING_STREAM))))
    steps = np.rint(stream.normal(0.0, config.overnight_ticks, index)).astype(np.int64)
    return max(config.start_price_ticks // 2, config.start_price_ticks + int(steps.sum()))


def flow_of(config: SimulatorConfig) -> "Flow":
    """The day's parameters in the units of the compiled model (per event)."""
    from alpha_pipeline.simulator.flow import Flow

    decay = float(np.exp(-1.0 / config.signal_events))
    cooling = float(np.exp(-1.0 / config.excitation_events))
    events_per_hour = config.events_per_day / config.session_hours
    return Flow(
        move_tilt=config.rho * config.move_tilt,
        trade_tilt=config.rho * config.trade_tilt,
        queue_tilt=config.rho * config.queue_tilt,
        signal_decay=decay,
        signal_noise=float(np.sqrt(1.0 - decay * decay)),
        move_base=config.move_rate * (1.0 - config.branching),
        trade_base=config.trade_rate * (1.0 - config.branching),
        jump=config.branching * (1.0 - cooling) / cooling,
        excitation_decay=cooling,
        sign_persistence=config.sign_persistence,
        queue_lots=config.queue_lots,
        regime_hazard=1.0 / (config.regime_hours * events_per_hour),
    )


def _packed(signal: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, signal=signal)
    return buffer.getvalue()
