"""Causal depthwise convolution over time with SiLU, as in Mamba2; the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.conv.op import conv_forward

__all__ = ["conv_silu"]


def conv_silu(
    x: Tensor, weight: Tensor, bias: Tensor, taps: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """y_t = silu(bias + sum over lags of weight[:, W - 1 - lag] x_{t - lag}), seeing only rows since the last reset.

    Args:
        x: [B, T, C], in the precision of the weights or in half.
        weight: [C, W], the newest row last; W = 4 on CUDA.
        bias: [C].
        taps: [B, W - 1, C] the rows before, in the precision of the weights.
        reset: [B, T] bool, True where a row starts afresh; None for nowhere.

    Returns:
        y [B, T, C] in the precision of x and the next taps.
    """
    if x.shape[1] == 0:
        return x.new_empty(x.shape), taps
    y, last, _ = conv_forward(x, weight, bias, taps, reset)
    return y, last
