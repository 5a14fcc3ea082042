"""Closed-form continuous-time cell over a sequence (Hasani et al. 2022); the maths is in README.md."""

from torch import Tensor

from alpha_core.cuda.cfc.op import cfc_forward

__all__ = ["cfc_scan"]


def cfc_scan(
    gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """h_t = tanh(p1)(1 - s) + s tanh(p2), s = sigmoid(pa dt + pb), [p1, p2, pb, pa] = gates_t + h_{t-1} W.

    Args:
        gates: [B, T, 4D], the inputs' share of the four pre-activations (first, second, offset, slope) with
            the bias.
        weight: W [D, 4D], the hidden state's share, same order.
        dt: [B, T] seconds since the previous row.
        state: [B, D], h before the first row.
        reset: [B, T] bool, True where a row starts afresh from h = 0; None for nowhere.

    Returns:
        hidden [B, T, D] and the last state [B, D].
    """
    if gates.shape[1] == 0:
        return gates.new_empty(gates.shape[0], 0, weight.shape[0]), state
    hidden, last, _ = cfc_forward(
        gates.transpose(0, 1).contiguous(),
        weight,
        dt.t().contiguous(),
        state,
        None if reset is None else reset.t().contiguous(),
    )
    return hidden.transpose(0, 1), last
