"""The perception network: from a sequence of book features to the logit of "up" at each horizon."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Generator, Tensor, nn

from alpha_core.errors import ConfigError
from alpha_core.nn.cfc import CfC
from alpha_core.nn.grn import HEADS, make_heads
from alpha_core.nn.initial import linear
from alpha_core.nn.mamba2 import Mamba2, MambaState
from alpha_core.nn.network import Network
from alpha_core.nn.vsn import VariableSelection
from alpha_core.shapes import FEATURES, HORIZONS

NETWORKS = ("production", "deeplob", "tlob", "mlplob")
"""What `Architecture.network` may name; see alpha_core/nn/networks.py."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Shape of the network. `vsn`, `layers` 0, `cfc` and `head` are the ablations.

    Attributes:
        network: "production", or a reference architecture: "deeplob", "tlob", "mlplob". A reference has its
            published sizes and reads `window` and `feature_clip` alone.
        window: rows that TLOB and MLPLOB see; at least 16, for MLPLOB's last norm lies over a quarter of them.
        hidden: D, width of every block.
        state: N, recurrent state per channel of Mamba2.
        heads: H of Mamba2; must divide expand x hidden.
        expand: inner width of Mamba2 in units of `hidden`.
        layers: number of Mamba2 blocks, 0 for none.
        chunk: rows of Mamba2's parallel form evaluated together; speed only.
        continuous_time: Mamba2's state decays with clock time.
        vsn: variable selection before the first block.
        cfc: closed-form continuous-time cell after the last block.
        head: "grn", "linear" or "mlp".
        feature_clip: scaled features are cut at +- this many standard deviations.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    network: str = "production"
    window: int = 128
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
        least = {"hidden": 1, "state": 1, "heads": 1, "expand": 1, "layers": 0, "chunk": 1, "window": 16}
        found = [
            f"{name} was {getattr(self, name)}, must be at least {low}"
            for name, low in least.items()
            if getattr(self, name) < low
        ]
        if not found and (self.expand * self.hidden) % self.heads:
            found.append(f"heads was {self.heads}, must divide expand x hidden = {self.expand * self.hidden}")
        for name, known in (("head", HEADS), ("network", NETWORKS)):
            if getattr(self, name) not in known:
                found.append(f"{name} was '{getattr(self, name)}', must be one of {', '.join(known)}")
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

    def tensors(self) -> dict[str, Tensor]:
        """`<block>.taps` and `<block>.ssm` of each block, and `hidden` of the cell."""
        named = {}
        for layer, block in enumerate(self.blocks):
            named |= {f"{layer}.taps": block.taps, f"{layer}.ssm": block.ssm}
        return named if self.hidden is None else named | {"hidden": self.hidden}


class Perception(Network[PerceptionState]):
    """Scaler -> VSN -> Mamba2 -> CfC -> heads -> temperature.

    Args:
        architecture: shape of the network.
        generator: source of the first weights.
    """

    steady: ClassVar[bool] = True

    def __init__(self, architecture: Architecture, *, generator: Generator) -> None:
        a = architecture
        super().__init__(a.feature_clip)
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

    def gate(self, x: Tensor) -> Tensor:
        """Share of attention that each feature of a row gets, [..., F] summing to 1; uniform without VSN."""
        if self.vsn is None:
            return super().gate(x)
        return self.vsn.gate(self.scaled(x))

    def forward(
        self, x: Tensor, dt: Tensor, state: PerceptionState | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, PerceptionState]:
        """See Network.forward."""
        self.require(x, dt, state, reset)
        x = self.scaled(x)
        if self.vsn is not None:
            x = self.vsn(x)
        h = self.embed(x)
        blocks = []
        for layer, block in enumerate(self.blocks):
            h, after = block(h, dt, None if state is None else state.blocks[layer], reset)
            blocks.append(after)
        hidden = None
        if self.cfc is not None:
            h, hidden = self.cfc(h, dt, None if state is None else state.hidden, reset)
        return self.heads(h) / self.temperature, PerceptionState(tuple(blocks), hidden)

    def initial_state(self, batch: int) -> PerceptionState:
        """Zeros."""
        blocks = tuple(block.initial_state(batch) for block in self.blocks if isinstance(block, Mamba2))
        return PerceptionState(blocks, None if self.cfc is None else self.cfc.initial_state(batch))

    def state_from(self, tensors: dict[str, Tensor]) -> PerceptionState:
        """See Network.state_from."""
        layers = range(len(self.blocks))
        blocks = tuple(MambaState(tensors[f"{layer}.taps"], tensors[f"{layer}.ssm"]) for layer in layers)
        return PerceptionState(blocks, tensors.get("hidden"))
