"""Action-value networks."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from alpha_core.cuda.c51 import values_and_draws
from alpha_core.shapes import ACTIONS, OBSERVATIONS

INPUTS = OBSERVATIONS + 1
"""Observation and cost."""

CLIP = 5.0
"""Standardised inputs are clamped to this: an outlier must not leave the range that training saw."""


KINDS = ("linear", "c51")
"""Steps of the ladder, each of which must show what it adds."""


class QNetwork(nn.Module):
    """Action values from one observation and the cost of trading. The inputs' standardisation is part of it."""

    center: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(INPUTS))
        self.register_buffer("scale", torch.ones(INPUTS))

    def standardised(self, observation: Tensor, cost: Tensor) -> Tensor:
        """[B, 11] inputs in standard deviations of the first experience, clamped."""
        x = torch.cat((observation, cost[:, None]), dim=-1)
        return ((x - self.center) / self.scale).clamp(-CLIP, CLIP)

    def values(
        self, observation: Tensor, cost: Tensor, uniforms: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Mean return of each action [B, A] in ticks x lots, and what exploration compares, where uniforms [B, A] are
        given."""
        raise NotImplementedError


class LinearNetwork(QNetwork):
    """Q(s, a) = W_a x + b_a of the standardised inputs: the first step of the ladder.

    It knows no distributions, so exploring compares the uniforms themselves: a random legal action.

    Args:
        generator: source of the initial weights, small ones: how far training moved is told as a share of them.
    """

    def __init__(self, *, generator: torch.Generator) -> None:
        super().__init__()
        first = _linear(INPUTS, ACTIONS, generator, gain=0.1)
        self.weight, self.bias = first.weight, first.bias

    def forward(self, observation: Tensor, cost: Tensor) -> Tensor:
        """Action values [B, A] in ticks x lots."""
        return functional.linear(self.standardised(observation, cost), self.weight, self.bias)

    def values(
        self, observation: Tensor, cost: Tensor, uniforms: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """See QNetwork.values."""
        return self(observation, cost), uniforms


class C51Network(QNetwork):
    """Return distributions of all actions from one observation and the cost of trading.

    standardise and clamp -> linear, LayerNorm, ReLU -> linear, ReLU -> linear to A x Z logits.

    Args:
        hidden: width of both hidden layers.
        atoms: atoms Z per action.
        generator: source of the initial weights.
    """

    support: Tensor

    def __init__(self, hidden: int, atoms: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden, self.atoms = hidden, atoms
        self.first = _linear(INPUTS, hidden, generator)
        self.norm = nn.LayerNorm(hidden)
        self.second = _linear(hidden, hidden, generator)
        self.head = _linear(hidden, ACTIONS * atoms, generator, gain=0.1)
        self.register_buffer("support", torch.linspace(-1.0, 1.0, atoms))

    def forward(self, observation: Tensor, cost: Tensor) -> Tensor:
        """Logits of the return distributions.

        Args:
            observation: [B, 10] float32, as the environment gives it.
            cost: [B] float32, ticks per lot and side.

        Returns:
            [B, A, Z] float32.
        """
        x = functional.relu(self.norm(self.first(self.standardised(observation, cost))))
        x = functional.relu(self.second(x))
        return self.head(x).view(-1, ACTIONS, self.atoms)

    def values(
        self, observation: Tensor, cost: Tensor, uniforms: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """See QNetwork.values; exploring compares one Thompson draw from each distribution."""
        return values_and_draws(self(observation, cost), self.support, uniforms)


def make_q_network(kind: str, *, hidden: int, atoms: int, generator: torch.Generator) -> QNetwork:
    """A network of KINDS; `hidden` and `atoms` are those of C51."""
    if kind == "linear":
        return LinearNetwork(generator=generator)
    return C51Network(hidden, atoms, generator=generator)


def _linear(inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    """A linear layer drawn from `generator` alone: uniform in +-gain / sqrt(inputs), bias 0."""
    # On no device the default start draws nothing: it would come from the global stream.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    bound = gain / inputs**0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer
