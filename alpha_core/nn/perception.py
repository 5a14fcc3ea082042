"""The perception network: from a sequence of book features to the logit of "up" at each horizon."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from alpha_core.errors import ConfigError
from alpha_core.nn.cfc import CfC
from alpha_core.nn.grn import HEADS, make_heads
from alpha_core.nn.initial import linear
from alpha_core.nn.mamba2 import Mamba2, MambaState
from alpha_core.nn.vsn import VariableSelection
from alpha_core.shapes import FEATURES, HORIZONS


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Shape of the network. `vsn`, `cfc` and `head` are the ablations.

    Attributes:
        hidden: D, width of every block.
        state: N, recurrent state per channel of Mamba2.
        heads: H of Mamba2; must divide expand x hidden.
        expand: inner width of Mamba2 in units of `hidden`.
        layers: number of Mamba2 blocks.
        chunk: rows of Mamba2's parallel form evaluated together; speed only.
        continuous_time: Mamba2's state decays with clock time.
        vsn: variable selection before the first block.
        cfc: closed-form continuous-time cell after the last block.
        head: "grn", "linear" or "mlp".
        feature_clip: scaled features are cut at +- this many standard deviations.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    hidden: int = 128
    state: int = 16
    heads: int = 4
    expand: int = 2
    layers: int = 1
    chunk: int = 64
    continuous_time: bool = True
    vsn: bool = True
    cfc: bool = True
    head: str = "grn"
    feature_clip: float = 10.0

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise ConfigError(f"perception: {'; '.join(problems)}")

    def problems(self) -> list[str]:
        """What is wrong with the values, one phrase each."""
        counts = ("hidden", "state", "heads", "expand", "layers", "chunk")
        found = [
            f"{name} was {getattr(self, name)}, must be at least 1"
            for name in counts
            if getattr(self, name) < 1
        ]
        if not found and (self.expand * self.hidden) % self.heads:
            found.append(f"heads was {self.heads}, must divide expand x hidden = {self.expand * self.hidden}")
        if self.head not in HEADS:
            found.append(f"head was '{self.head}', must be one of {', '.join(HEADS)}")
        if not self.feature_clip > 0:
            found.append(f"feature_clip was {self.feature_clip}, must be above 0")
        return found


class PerceptionState(NamedTuple):
    """What a row leaves to the next, for B sequences at once."""

    blocks: tuple[MambaState, ...]
    hidden: Tensor | None  # [B, D], None without CfC

    def detach(self) -> "PerceptionState":
        """The same numbers without history: the cut of truncated back-propagation."""
        blocks = tuple(MambaState(block.taps.detach(), block.ssm.detach()) for block in self.blocks)
        return PerceptionState(blocks, None if self.hidden is None else self.hidden.detach())


class Perception(nn.Module):
    """Scaler -> VSN -> Mamba2 -> CfC -> heads -> temperature. The scaler and the temperatures are buffers.

    Args:
        architecture: shape of the network.
        generator: source of the first weights.
    """

    mean: Tensor
    scale: Tensor
    temperature: Tensor

    def __init__(self, architecture: Architecture, *, generator: Generator) -> None:
        super().__init__()
        a = architecture
        self.clip = a.feature_clip
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.register_buffer("scale", torch.ones(FEATURES))
        self.register_buffer("temperature", torch.ones(len(HORIZONS)))
        self.vsn = VariableSelection(FEATURES) if a.vsn else None
        self.embed = linear(FEATURES, a.hidden, generator=generator)
        self.blocks = nn.ModuleList(
            Mamba2(
                a.hidden,
                expand=a.expand,
                heads=a.heads,
                state=a.state,
                chunk=a.chunk,
                continuous_time=a.continuous_time,
                generator=generator,
            )
            for _ in range(a.layers)
        )
        self.cfc = CfC(a.hidden, a.hidden, generator=generator) if a.cfc else None
        self.heads = make_heads(a.head, a.hidden, len(HORIZONS), generator=generator)

    def scaled(self, x: Tensor) -> Tensor:
        """Raw features [..., F] in standard deviations of the training rows, clipped."""
        return ((x - self.mean) / self.scale).clamp(-self.clip, self.clip)

    def gate(self, x: Tensor) -> Tensor:
        """Share of attention that each feature of a row gets, [..., F] summing to 1; uniform without VSN."""
        if self.vsn is None:
            return torch.full_like(x, 1 / x.shape[-1])
        return self.vsn(self.scaled(x))[1]

    def forward(
        self, x: Tensor, dt: Tensor, state: PerceptionState | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, PerceptionState]:
        """A whole sequence.

        Args:
            x: [B, T, F] raw features.
            dt: [B, T] seconds since the previous row.
            state: left by the rows before; None to start afresh.
            reset: [B, T] bool, True on the first row of a segment; None when no row is.

        Returns:
            logits [B, T, H] and the last state.
        """
        x = self.scaled(x)
        if self.vsn is not None:
            x, _ = self.vsn(x)
        h = self.embed(x)
        blocks = []
        for layer, block in enumerate(self.blocks):
            h, after = block(h, dt, None if state is None else state.blocks[layer], reset)
            blocks.append(after)
        hidden = None
        if self.cfc is not None:
            h, hidden = self.cfc(h, dt, None if state is None else state.hidden, reset)
        return self.heads(h) / self.temperature, PerceptionState(tuple(blocks), hidden)

    def step(
        self, x: Tensor, dt: Tensor, state: PerceptionState | None = None
    ) -> tuple[Tensor, PerceptionState]:
        """One row as it arrives live: x [B, F], dt [B] to logits [B, H] and the state after."""
        logits, after = self.forward(x[:, None], dt[:, None], state)
        return logits[:, 0], after
