"""Closed-form continuous-time cell: a recurrent layer whose mixing depends on the time that passed."""

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import linear

from alpha_core.cuda.cfc import cfc_scan
from alpha_core.nn.initial import full_precision, uniform, without_autocast


class CfC(nn.Module):
    """h' = f1 (1 - s) + s f2, f = tanh(W [x, h]), s = sigmoid(Wa [x, h] dt + Wb [x, h]) (Hasani et al. 2022).

    The four weight matrices are stacked in the order W1, W2, Wb, Wa.

    Args:
        inputs: width of x.
        width: D, of h.
        generator: source of the first weights.
    """

    def __init__(self, inputs: int, width: int, *, generator: Generator) -> None:
        super().__init__()
        self.width = width
        bound = 1 / math.sqrt(inputs + width)
        self.weight_x = uniform(4 * width, inputs, bound=bound, generator=generator)
        self.weight_h = uniform(width, 4 * width, bound=bound, generator=generator)
        self.bias = nn.Parameter(torch.zeros(4 * width))

    def initial_state(self, batch: int) -> Tensor:
        """[B, D] zeros."""
        return self.weight_h.new_zeros(batch, self.width)

    def forward(
        self, x: Tensor, seconds: Tensor, state: Tensor | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """A whole sequence.

        Args:
            x: [B, T, inputs].
            seconds: [B, T] since the previous row.
            state: [B, D] left by the rows before; None for zeros.
            reset: [B, T] bool, True where a row starts afresh.

        Returns:
            hidden [B, T, D] and the last state [B, D].
        """
        state = self.initial_state(x.shape[0]) if state is None else state
        # Time-first here saves copying the four times wider gates later.
        gates = linear(x.transpose(0, 1), self.weight_x, self.bias).transpose(0, 1)
        with without_autocast(x.device.type):
            weight, seconds, state = full_precision(self.weight_h, seconds, state)
            return cfc_scan(gates, weight, seconds, state, reset)

    def step(self, x: Tensor, seconds: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One row: x [B, inputs], seconds [B], state [B, D] to hidden [B, D] and the new state."""
        hidden, state = self(x[:, None], seconds[:, None], state)
        return hidden[:, 0], state
