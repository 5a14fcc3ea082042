"""Configuration of the perception's training; the defaults are those of production."""

from dataclasses import dataclass
from typing import ClassVar

from alpha_core.nn.perception import Architecture
from alpha_core.shapes import HORIZONS


@dataclass(frozen=True, kw_only=True)
class PerceptionConfig(Architecture):
    """Architecture and protocol. Purge and embargo are the caller's: it hands over the rows.

    Attributes:
        length: T, rows of one truncated back-propagation.
        streams: B, stretches of the training rows that are walked in parallel with carried state.
        epochs: most passes over the training rows.
        learning_rate: peak of AdamW's rate, after the warm-up.
        warmup: share of all updates over which the rate rises linearly; then it falls as a cosine.
        weight_decay: of AdamW.
        gradient_clip: largest norm of the gradient.
        patience: epochs without a better validation AUC before training stops.
        horizon_weights: weight of each horizon in the loss and in the validation score, in the order of
            HORIZONS.
        mirror: walk half of the streams with bids and asks exchanged; needs the features' names.
        autocast: bfloat16 where a device has it; recurrent state stays float32. No effect on a CPU.
        resident_gib: training rows of so many GiB are held on the device; more stay where they lie and are streamed
            to it block by block. Speed and memory only.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    length: int = 256
    streams: int = 64
    epochs: int = 20
    learning_rate: float = 1e-3
    warmup: float = 0.1
    weight_decay: float = 0.1
    gradient_clip: float = 1.0
    patience: int = 4
    horizon_weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 1.0)
    mirror: bool = True
    autocast: bool = True
    resident_gib: float = 16.0

    def problems(self) -> list[str]:
        """What is wrong with the values, one phrase each."""
        found = super().problems()
        for name in ("length", "streams", "epochs", "patience"):
            if getattr(self, name) < 1:
                found.append(f"{name} was {getattr(self, name)}, must be at least 1")
        for name in ("learning_rate", "gradient_clip"):
            if not getattr(self, name) > 0:
                found.append(f"{name} was {getattr(self, name)}, must be above 0")
        if not 0 <= self.warmup <= 1:
            found.append(f"warmup was {self.warmup}, must be in [0, 1]")
        for name in ("weight_decay", "resident_gib"):
            if not getattr(self, name) >= 0:
                found.append(f"{name} was {getattr(self, name)}, must be at least 0")
        weights = self.horizon_weights
        if len(weights) != len(HORIZONS) or min(weights) < 0 or max(weights) <= 0:
            found.append(f"horizon_weights was {weights}, must be {len(HORIZONS)} numbers >= 0, one above 0")
        return found
