"""Action-value networks."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from alpha_core.shapes import ACTIONS, OBSERVATIONS

INPUTS = OBSERVATIONS + 1
"""Observation and cost."""

CLIP = 5.0
"""Standardised inputs are clamped to this: an outlier must not leave the range that training saw."""


class C51Network(nn.Module):
    """Return distributions of all actions from one observation and the cost of trading.

    standardise and clamp -> linear, LayerNorm, ReLU -> linear, ReLU -> linear to A x Z logits.

    Args:
        hidden: width of both hidden layers.
        atoms: atoms Z per action.
        generator: source of the initial weights.
    """

    center: Tensor
    scale: Tensor
    support: Tensor

    def __init__(self, hidden: int, atoms: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden, self.atoms = hidden, atoms
        self.first = _linear(INPUTS, hidden, generator)
        self.norm = nn.LayerNorm(hidden)
        self.second = _linear(hidden, hidden, generator)
        self.head = _linear(hidden, ACTIONS * atoms, generator, gain=0.1)
        self.register_buffer("center", torch.zeros(INPUTS))
        self.register_buffer("scale", torch.ones(INPUTS))
        self.register_buffer("support", torch.linspace(-1.0, 1.0, atoms))

    def forward(self, observation: Tensor, cost: Tensor) -> Tensor:
        """Logits of the return distributions.

        Args:
            observation: [B, 10] float32, as the environment gives it.
            cost: [B] float32, ticks per lot and side.

        Returns:
            [B, A, Z] float32.
        """
        x = torch.cat((observation, cost[:, None]), dim=-1)
        x = ((x - self.center) / self.scale).clamp(-CLIP, CLIP)
        x = functional.relu(self.norm(self.first(x)))
        x = functional.relu(self.second(x))
        return self.head(x).view(-1, ACTIONS, self.atoms)


def _linear(inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    """A linear layer drawn from `generator` alone: uniform in +-gain / sqrt(inputs), bias 0."""
    # On no device the default start draws nothing: it would come from the global stream.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    bound = gain / inputs**0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.zero_()
    return layer
