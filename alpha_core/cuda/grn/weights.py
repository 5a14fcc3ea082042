"""The ten tensors of the heads."""

from typing import NamedTuple

from torch import Tensor


class GRNWeights(NamedTuple):
    """Weights of H heads (horizons) stacked; matrices have outputs by rows."""

    w2: Tensor  # [H, D, D]
    b2: Tensor  # [H, D]
    w1: Tensor  # [H, D, D]
    b1: Tensor  # [H, D]
    w_skip: Tensor  # [H, D]
    b_skip: Tensor  # [H]
    w_gate: Tensor  # [H, D]
    b_gate: Tensor  # [H]
    w_main: Tensor  # [H, D]
    b_main: Tensor  # [H]
