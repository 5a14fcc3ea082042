"""Settings of the simulated market. No numba here: configuration loads in any process."""

import datetime as dt
from dataclasses import dataclass
from typing import ClassVar

from alpha_core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """One simulated instrument.

    Attributes:
        symbol: raw symbol written to the files, must be one of the instrument's symbols.
        instrument_id: numeric identity in the files.
        seed: root of every random stream; a day depends on (seed, day index) alone.
        start_date: UTC date of day 0, YYYY-MM-DD.
        days: number of consecutive dates.
        events_per_day: book events (records with F_LAST) of one day.
        session_start_hour: UTC hour of the first event.
        session_hours: length of the session in hours.
        start_price_ticks: mid of day 0 in ticks.
        overnight_ticks: standard deviation of the change of the opening mid from day to day, in ticks.
        rho: strength of the planted alpha; 0 is an exact null, 1 the shipped strength.
        signal_events: time constant of the latent signal in events.
        move_tilt: at rho 1, shift of P(up) of each half-tick move of the mid per standard deviation of the
            signal.
        trade_tilt: the same of P(buy) of a market order that does not move the price.
        queue_tilt: the same of the size a queue reverts to, relative; more on one side and less on the other.
        move_rate: price moves per event in a regime of volatility 1.
        trade_rate: market orders per event that leave the price alone.
        branching: share of moves, and of market orders, that an earlier one has triggered.
        excitation_events: decay time of that self-excitation in events.
        sign_persistence: weight of recent trade signs in the next market order's sign.
        queue_lots: size the touch queue reverts to, in lots.
        regime_hours: mean life of a volatility regime.
        regime_volatility: factor on `move_rate`, one per regime.
        u_shape: event rate at open and close over the rate at mid-session, minus 1.
        halts_per_day: mean number of halts, each with a reopening auction.
        halt_seconds: mean length of a halt.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    symbol: str = "DEMO"
    instrument_id: int = 7001
    seed: int = 7
    start_date: str = "2024-01-02"
    days: int = 14
    events_per_day: int = 40_000
    session_start_hour: float = 14.5
    session_hours: float = 6.5
    start_price_ticks: int = 20_000
    overnight_ticks: float = 30.0
    rho: float = 1.0
    signal_events: float = 2_000.0
    move_tilt: float = 0.045
    trade_tilt: float = 0.18
    queue_tilt: float = 0.2
    move_rate: float = 0.08
    trade_rate: float = 0.15
    branching: float = 0.5
    excitation_events: float = 60.0
    sign_persistence: float = 0.6
    queue_lots: float = 40.0
    regime_hours: float = 1.0
    regime_volatility: tuple[float, ...] = (0.6, 1.0, 1.7)
    u_shape: float = 1.5
    halts_per_day: float = 0.0
    halt_seconds: float = 420.0

    def __post_init__(self) -> None:
        problems = [
            f"simulator.{name} was {getattr(self, name)!r}, must be in [{low}, {high}]"
            for name, (low, high) in _BOUNDS.items()
            if not low <= getattr(self, name) <= high
        ]
        problems += [*_calendar_problems(self), *_regime_problems(self)]
        if problems:
            raise ConfigError("; ".join(problems))

    def day(self, index: int) -> str:
        """UTC date of a day by its index, YYYY-MM-DD."""
        return str(dt.date.fromisoformat(self.start_date) + dt.timedelta(days=index))

    def index(self, day: str) -> int:
        """Index of a UTC date; the inverse of `day`. Raises ConfigError when `day` is no date."""
        try:
            date = dt.date.fromisoformat(day)
        except ValueError as error:
            raise ConfigError(f"the day to simulate was {day!r}, must be a date YYYY-MM-DD") from error
        return (date - dt.date.fromisoformat(self.start_date)).days


_BOUNDS: dict[str, tuple[float, float]] = {
    "instrument_id": (1, 2**32 - 1),
    "seed": (0, 2**63 - 1),
    "days": (1, 10_000),
    "events_per_day": (2, 50_000_000),
    "session_start_hour": (0.0, 23.5),
    "session_hours": (0.01, 23.9),
    "start_price_ticks": (1_000, 10_000_000),
    "overnight_ticks": (0.0, 1_000.0),
    "rho": (0.0, 10.0),
    "signal_events": (10.0, 1e7),
    "move_tilt": (0.0, 0.5),
    "trade_tilt": (0.0, 0.5),
    "queue_tilt": (0.0, 0.5),
    "move_rate": (1e-4, 0.2),
    "trade_rate": (0.0, 0.4),
    "branching": (0.0, 0.9),
    "excitation_events": (1.0, 1e5),
    "sign_persistence": (0.0, 0.9),
    "queue_lots": (2.0, 1e6),
    "regime_hours": (0.01, 1e4),
    "u_shape": (0.0, 20.0),
    "halts_per_day": (0.0, 10.0),
    "halt_seconds": (10.0, 1_800.0),
}


def _calendar_problems(config: SimulatorConfig) -> list[str]:
    problems = []
    try:
        dt.date.fromisoformat(config.start_date)
    except ValueError:
        problems.append(f"simulator.start_date was {config.start_date!r}, must be a date YYYY-MM-DD")
    end = config.session_start_hour + config.session_hours
    if end > 23.95:
        problems.append(
            f"simulator.session_start_hour + session_hours was {end:g}, must be at most 23.95: "
            "a file holds one UTC date"
        )
    if not config.symbol or len(config.symbol.encode()) > 70:
        problems.append(f"simulator.symbol was {config.symbol!r}, must have 1 to 70 bytes")
    return problems


def _regime_problems(config: SimulatorConfig) -> list[str]:
    values = config.regime_volatility
    if values and all(0.05 <= v <= 5.0 for v in values):
        return []
    return [f"simulator.regime_volatility was {values!r}, must hold one or more factors in [0.05, 5.0]"]
