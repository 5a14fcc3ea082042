"""The convolution as Mamba2 writes it, differentiated by autograd."""

import torch
from torch import Tensor
from torch.nn.functional import silu


def causal_convolution(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`conv_silu` before its SiLU; same arguments and shapes, one precision."""
    padded, T, W = torch.cat((taps, x), dim=1), x.shape[1], weight.shape[1]
    age = None if reset is None else rows_since_reset(reset, W)
    y = torch.addcmul(bias, x, weight[:, W - 1])
    for lag in range(1, W):
        y = torch.addcmul(y, past_rows(padded, T, lag, age), weight[:, W - 1 - lag])
    return y, next_taps(padded[:, T:], age)


def conv_silu_formula(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The oracle of `conv_silu`; same arguments, shapes and results."""
    y, last = causal_convolution(x, weight, bias, taps, reset)
    return silu(y), last


def past_rows(padded: Tensor, T: int, lag: int, age: Tensor | None) -> Tensor:
    """[B, T, C] the rows `lag` before each, of `padded` [B, W - 1 + T, C]; 0 where a reset lies between."""
    start = padded.shape[1] - T - lag
    past = padded[:, start : start + T]
    return past if age is None or lag == 0 else past.masked_fill((age < lag)[..., None], 0.0)


def next_taps(rows: Tensor, age: Tensor | None) -> Tensor:
    """The last W - 1 rows [B, W - 1, C], 0 where a reset lies after them."""
    if age is None:
        return rows.clone()
    # The oldest of the W - 1 kept rows is W - 2 rows before the last one.
    lags = torch.arange(rows.shape[1] - 1, -1, -1, device=rows.device)
    return rows.masked_fill((age[:, -1:] < lags)[..., None], 0.0)


def rows_since_reset(reset: Tensor, limit: int) -> Tensor:
    """[B, T] int64: 0 on a reset row, 1 after it, ...; at least `limit` before the first reset."""
    index = torch.arange(reset.shape[1], device=reset.device)
    return index - torch.where(reset, index, -limit).cummax(1).values
