"""What Mamba2 says of the last row of a window, without walking through it; the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.window.op import window_forward

__all__ = ["window_last"]


def window_last(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, *, a_log: Tensor, d: Tensor) -> Tensor:
    """y_K of h_t = exp(delta_t A) h_{t-1} + delta_t x_t b_t^T, y_t = h_t c_t + d x_t, from h_0 = 0.

    A row with delta 0 that is not the last one is as good as absent.

    Args:
        x: [n, K, H, P], K at least 1; with b and c the one argument that may be bfloat16 while the rest is float32.
        b: [n, K, N] input map, shared by the heads.
        c: [n, N] output map of the last row.
        delta: [n, K, H] step sizes, >= 0.
        a_log: [H], A = -exp(a_log).
        d: [H] direct path.

    Returns:
        [n, H, P] in the precision of x.

    Raises:
        ValueError: shapes or devices do not fit together.
    """
    _check(x, b, c, delta, a_log, d)
    return window_forward(x, b, c, delta, a_log, d)


def _check(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, a_log: Tensor, d: Tensor) -> None:
    if x.dim() != 4 or x.shape[1] < 1:
        raise ValueError(
            f"x was {list(x.shape)}, must be [n, K, H, P] with a row at least: give whole windows"
        )
    (n, K, H, _), N = x.shape, b.shape[-1]
    expected = {"b": (b, (n, K, N)), "c": (c, (n, N)), "delta": (delta, (n, K, H)), "a_log": (a_log, (H,))}
    for name, (v, shape) in (expected | {"d": (d, (H,))}).items():
        if v.shape != shape:
            raise ValueError(f"{name} was {list(v.shape)}, must be {list(shape)} beside x {list(x.shape)}")
        if v.device != x.device:
            raise ValueError(f"{name} was on {v.device}, must be on {x.device} with x")
