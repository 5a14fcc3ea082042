"""Mamba2 block: a selective state-space layer with three evaluation modes that agree, and a fourth for windows."""

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from alpha_core.cuda.conv import conv_silu
from alpha_core.cuda.norm import gated_norm
from alpha_core.cuda.ssd import ssd_scan
from alpha_core.cuda.window import window_last
from alpha_core.nn.initial import full_precision, linear, uniform, without_autocast

TAPS = 4
"""Width of the causal depthwise convolution."""

NORM_EPS = 1e-5

STEP_RANGE = (1e-3, 1e-1)
"""First step sizes lie evenly over it on a log scale, so that few heads cover 10 to 1000 rows of memory."""

FIRST_CLOCK_RATE = 1e-3
"""First multiple of log1p(elapsed seconds) that the continuous-time option adds to the step size: small beside
the step sizes of slow heads, or a few seconds between rows would cost them the memory they are there for."""


class MambaState(NamedTuple):
    """What a row leaves to the next: the last inputs of the convolution and the recurrent state."""

    taps: Tensor  # [B, TAPS - 1, C]
    ssm: Tensor  # [B, H, P, N]


def inverse_softplus(y: Tensor) -> Tensor:
    """x with softplus(x) = y, for y > 0."""
    return y + torch.log(-torch.expm1(-y))


class Mamba2(nn.Module):
    """Mamba2 block with residual (Dao & Gu 2024, arXiv 2405.21060); one group, scalar A per head.

    Starts as a bank of moving averages: A = -1, so that a step size is one over a time constant in rows; maps B and
    C near 1; and no direct path (D = 0), because the norm would let one row's noise drown what is slow, while the
    residual already carries the row itself.

    Args:
        width: D of input and output.
        expand: inner width is expand x width.
        heads: H; must divide the inner width.
        state: N.
        chunk: rows of the parallel form evaluated together.
        continuous_time: let the step size grow with log1p of the elapsed seconds.
        generator: source of the first weights.
    """

    def __init__(
        self,
        width: int,
        *,
        expand: int,
        heads: int,
        state: int,
        chunk: int,
        continuous_time: bool,
        generator: Generator,
    ) -> None:
        super().__init__()
        self.inner, self.heads, self.states, self.chunk = expand * width, heads, state, chunk
        self.channels = self.inner + 2 * state
        self.in_proj = linear(width, self.inner + self.channels + heads, bias=False, generator=generator)
        self.conv_weight = uniform(self.channels, TAPS, bound=1 / math.sqrt(TAPS), generator=generator)
        self.conv_bias = nn.Parameter(torch.cat((torch.zeros(self.inner), torch.ones(2 * state))))
        self.a_log = nn.Parameter(torch.zeros(heads))
        low, high = map(math.log, STEP_RANGE)
        first = torch.exp(low + (high - low) * (torch.arange(heads) + 0.5) / heads)
        self.dt_bias = nn.Parameter(inverse_softplus(first))
        self.d = nn.Parameter(torch.zeros(heads))
        clock = inverse_softplus(torch.full((heads,), FIRST_CLOCK_RATE))
        self.clock = nn.Parameter(clock) if continuous_time else None
        self.norm_weight = nn.Parameter(torch.ones(self.inner))
        self.out_proj = linear(self.inner, width, bias=False, generator=generator)

    def initial_state(self, batch: int) -> MambaState:
        """Zeros."""
        zeros = self.conv_weight.new_zeros
        head_width = self.inner // self.heads
        return MambaState(
            zeros(batch, TAPS - 1, self.channels), zeros(batch, self.heads, head_width, self.states)
        )

    def forward(
        self, x: Tensor, seconds: Tensor, state: MambaState | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, MambaState]:
        """A whole sequence.

        Args:
            x: [B, T, D].
            seconds: [B, T] since the previous row; read by the continuous-time option only.
            state: left by the rows before; None for zeros.
            reset: [B, T] bool, True where a row starts afresh.

        Returns:
            y [B, T, D] and the last state.
        """
        state = self.initial_state(x.shape[0]) if state is None else state
        z, xbc, step = self.in_proj(x).split((self.inner, self.channels, self.heads), dim=-1)
        with without_autocast(x.device.type):
            weight, bias, step = full_precision(self.conv_weight, self.conv_bias, step)
            xbc, taps = conv_silu(xbc, weight, bias, state.taps, reset)
            inner, b, c = xbc.split((self.inner, self.states, self.states), dim=-1)
            y, ssm = ssd_scan(
                inner.unflatten(-1, (self.heads, -1)),
                b,
                c,
                self.step_size(step, seconds),
                a_log=self.a_log,
                d=self.d,
                state=state.ssm,
                reset=reset,
                chunk=self.chunk,
            )
            gated = gated_norm(y.flatten(2), z, self.norm_weight, eps=NORM_EPS)
        return x + self.out_proj(gated), MambaState(taps, ssm)

    def last(self, x: Tensor, seconds: Tensor, present: Tensor | None = None) -> Tensor:
        """The last row of `forward` over windows that start afresh, without walking through them.

        Args:
            x: [n, K, D].
            seconds: [n, K] since the previous row; read by the continuous-time option only.
            present: [n, K] bool, False on rows before a window's first one, which may be anything finite; None where
                all rows are there. The last row always is.

        Returns:
            y [n, D].
        """
        z_weight, rest = self.in_proj.weight.split((self.inner, self.channels + self.heads))
        z = functional.linear(x[:, -1], z_weight)
        xbc, step = functional.linear(x, rest).split((self.channels, self.heads), dim=-1)
        with without_autocast(x.device.type):
            weight, bias, step = full_precision(self.conv_weight, self.conv_bias, step)
            delta = self.step_size(step, seconds)
            if present is not None:
                xbc, delta = xbc.masked_fill(~present[..., None], 0.0), delta * present[..., None]
            xbc, _ = conv_silu(xbc, weight, bias, self.initial_state(len(x)).taps, None)
            inner, b, c = xbc.split((self.inner, self.states, self.states), dim=-1)
            inner = inner.unflatten(-1, (self.heads, -1))
            y = window_last(inner, b, c[:, -1], delta, a_log=self.a_log, d=self.d)
            gated = gated_norm(y.flatten(1), z, self.norm_weight, eps=NORM_EPS)
        return x[:, -1] + self.out_proj(gated)

    def step_size(self, step: Tensor, seconds: Tensor) -> Tensor:
        """delta = softplus(step + bias), plus rate x log1p(seconds) in continuous time; [B, T, H], >= 0.

        The rate passes through softplus, so that more time always means more decay.
        """
        delta = functional.softplus(step + self.dt_bias)
        if self.clock is None:
            return delta
        return delta + functional.softplus(self.clock) * torch.log1p(seconds)[..., None]

    def step(self, x: Tensor, seconds: Tensor, state: MambaState) -> tuple[Tensor, MambaState]:
        """One row: x [B, D], seconds [B] and the state before to y [B, D] and the state after."""
        y, state = self(x[:, None], seconds[:, None], state)
        return y[:, 0], state
