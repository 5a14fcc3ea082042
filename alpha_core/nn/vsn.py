"""Variable selection: which of the features a row should be read by."""

import torch
from torch import Tensor, nn

from alpha_core.cuda.vsn import vsn_gate, vsn_select
from alpha_core.nn.initial import without_autocast


class VariableSelection(nn.Module):
    """y = F g x, g = softmax(x W + b) (Lim et al. 2021). Starts as the identity: a uniform gate.

    Args:
        features: F.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        """[..., F] to the selected features [..., F]."""
        with without_autocast(x.device.type):  # the operator reads half precision as it is
            return vsn_select(x, self.weight, self.bias)

    def gate(self, x: Tensor) -> Tensor:
        """[..., F] to the gate [..., F], which sums to 1."""
        with without_autocast(x.device.type):
            return vsn_gate(x, self.weight, self.bias)[1]
