"""The signal bus: every named scalar that steers training and live behaviour, in one float32 tensor.

`python -m alpha_core.control.bus` prints the table of signals that docs/signals.md holds.
"""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from alpha_core.control.regime import RegimeState
from alpha_core.control.registry import SIGNALS, Reset, Signal
from alpha_core.control.smoothing import AdaptiveEma
from alpha_core.durable import write_atomic

FORMAT = "alpha-bus"
VERSION = 1

_PLACE = {signal.name: place for place, signal in enumerate(SIGNALS)}
_BY_NAME = {signal.name: signal for signal in SIGNALS}
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SignalBus:
    """Immutable view of the signals; every change returns another bus.

    Attributes:
        values: [..., S] float32, leading dimensions are cells or environments.
    """

    values: Tensor

    @staticmethod
    def initial(shape: tuple[int, ...] = (), *, device: str | torch.device = "cpu") -> "SignalBus":
        """A bus of initial values, `shape` many."""
        start = torch.tensor([signal.initial for signal in SIGNALS], dtype=torch.float32, device=device)
        return SignalBus(start.expand(*shape, len(SIGNALS)).clone())

    def get(self, name: str) -> Tensor:
        """One signal, [...] float32.

        Raises:
            ValueError: a name that is not registered.
        """
        return self.values[..., _place(name)]

    def set(self, values: Mapping[str, Tensor]) -> "SignalBus":
        """The bus with some signals replaced, each clamped to its range; what is NaN keeps its old value."""
        changed = self.values.clone()
        for name, value in values.items():
            signal, place = _BY_NAME[SIGNALS[_place(name)].name], _place(name)
            kept = torch.where(torch.isnan(value), self.values[..., place], value.float())
            changed[..., place] = kept.clamp(signal.low, signal.high)
        return SignalBus(changed)

    def reset(self, rule: Reset) -> "SignalBus":
        """Signals of `rule` back at their initial value; a new fold resets SOFT signals too, as it starts a phase."""
        rules = {Reset.SOFT, Reset.FOLD} if rule is Reset.FOLD else {rule}
        chosen = torch.tensor([signal.reset in rules for signal in SIGNALS], device=self.values.device)
        fresh = SignalBus.initial(device=self.values.device).values
        return SignalBus(torch.where(chosen, fresh, self.values))

    def ema(self, name: str) -> AdaptiveEma:
        """State of a smoothed signal."""
        return AdaptiveEma(self.get(name), self.get(f"{name}_previous"), self.get(f"{name}_count"))

    def set_ema(self, name: str, state: AdaptiveEma) -> "SignalBus":
        """The bus with a smoothed signal replaced."""
        return self.set({name: state.mean, f"{name}_previous": state.previous, f"{name}_count": state.seen})

    def regime(self) -> RegimeState:
        """State of the regime defence."""
        return RegimeState(
            self.ema("volatility"),
            self.get("volatility_reference"),
            self.get("volatility_samples"),
            self.get("regime_floor"),
        )

    def set_regime(self, state: RegimeState, scale: Tensor) -> "SignalBus":
        """The bus with the regime defence's state and scale replaced."""
        return self.set_ema("volatility", state.volatility).set(
            {
                "volatility_reference": state.reference,
                "volatility_samples": state.samples,
                "regime_floor": state.floor,
                "regime_scale": scale,
            }
        )


def _place(name: str) -> int:
    if name not in _PLACE:
        raise ValueError(f"signal was {name!r}, must be one of {sorted(_PLACE)}")
    return _PLACE[name]


@dataclass(frozen=True, kw_only=True)
class LoadedBus:
    """A bus from disk.

    Attributes:
        bus: persistent signals as stored where they were valid, initial values elsewhere.
        refused: one sentence per stored value that was not used; empty when all was well.
    """

    bus: SignalBus
    refused: tuple[str, ...]


def save_persistent(bus: SignalBus, path: Path) -> None:
    """Publish the PERSIST signals of a bus without leading dimensions, whole or not at all."""
    stored = {signal.name: float(bus.get(signal.name)) for signal in SIGNALS if signal.reset is Reset.PERSIST}
    text = json.dumps({"format": FORMAT, "version": VERSION, "signals": stored}, indent=2, allow_nan=False)
    write_atomic(path, (text + "\n").encode())


def load_persistent(path: Path, *, device: str | torch.device = "cpu") -> LoadedBus:
    """A bus whose PERSIST signals come from disk. An absent file is a first run; a bad one is refused and logged."""
    bus = SignalBus.initial(device=device)
    if not path.exists():
        return LoadedBus(bus=bus, refused=())
    accepted, problems = _read_signals(path)
    for problem in problems:
        _LOG.error("%s: the initial value is used, delete the file or restore it", problem)
    values = {name: torch.tensor(value, device=device) for name, value in accepted.items()}
    return LoadedBus(bus=bus.set(values), refused=tuple(problems))


def _read_signals(path: Path) -> tuple[dict[str, float], list[str]]:
    """Values that are valid, and a sentence for everything else."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, OSError) as error:
        return {}, [f"{path} cannot be read as JSON ({error})"]
    found = document if isinstance(document, dict) else {}
    if (found.get("format"), found.get("version")) != (FORMAT, VERSION):
        return {}, [
            f"{path} has format {found.get('format')!r} version {found.get('version')!r}, "
            f"must be {FORMAT!r} version {VERSION}"
        ]
    stored = found.get("signals")
    if not isinstance(stored, dict):
        return {}, [f"{path}: signals was {stored!r}, must be an object"]
    expected = {signal.name: signal for signal in SIGNALS if signal.reset is Reset.PERSIST}
    problems = [f"{path}: {name} is no persistent signal" for name in stored if name not in expected]
    problems += [f"{path}: {name} is absent" for name in expected if name not in stored]
    good = {
        name: value for name, value in stored.items() if name in expected and _in_range(expected[name], value)
    }
    problems += [
        f"{path}: {name} was {value!r}, must be in [{expected[name].low:g}, {expected[name].high:g}]"
        for name, value in stored.items()
        if name in expected and name not in good
    ]
    return good, problems


def _in_range(signal: Signal, value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return False
    # The stored decimal is that of a float32, whose bounds are float32 too.
    low, high = (torch.tensor(bound, dtype=torch.float32).item() for bound in (signal.low, signal.high))
    return low <= value <= high


def signal_table() -> str:
    """The registry as a Markdown document."""
    lines = [
        "# Signals",
        "",
        "Generated from the registry by `python -m alpha_core.control.bus`; do not edit.",
        "",
        "FOLD: each fold starts afresh. SOFT: each phase starts afresh. PERSIST: survives folds and runs.",
        "",
        "| name | meaning | unit | range | initial | writer | reader | reset |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(signal) for signal in SIGNALS]
    return "\n".join(lines) + "\n"


def _row(signal: Signal) -> str:
    meaning = signal.meaning.replace("|", "\\|")
    bounds = f"[{signal.low:g}, {signal.high:g}]"
    writer, reader = (path.removeprefix("alpha_core.") for path in (signal.writer, signal.reader))
    return (
        f"| `{signal.name}` | {meaning} | {signal.unit} | {bounds} | {signal.initial:g} "
        f"| `{writer}` | `{reader}` | {signal.reset} |"
    )


if __name__ == "__main__":
    print(signal_table(), end="")
