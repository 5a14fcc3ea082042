"""Output heads: one logit per horizon, as gated residual networks or as one of two plainer ablations."""

import math

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import gelu, linear

from alpha_core.cuda.grn import GRNWeights, grn_heads
from alpha_core.nn.initial import uniform, without_autocast

HEADS = ("grn", "linear", "mlp")


class GRNHeads(nn.Module):
    """Gated residual heads (Lim et al. 2021), ten tensors a horizon, stacked over the horizons.

    Args:
        width: D.
        horizons: H.
        generator: source of the first weights.
    """

    def __init__(self, width: int, horizons: int, *, generator: Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.w2 = uniform(horizons, width, width, bound=bound, generator=generator)
        self.b2 = nn.Parameter(torch.zeros(horizons, width))
        self.w1 = uniform(horizons, width, width, bound=bound, generator=generator)
        self.b1 = nn.Parameter(torch.zeros(horizons, width))
        self.w_skip = uniform(horizons, width, bound=bound, generator=generator)
        self.b_skip = nn.Parameter(torch.zeros(horizons))
        self.w_gate = uniform(horizons, width, bound=bound, generator=generator)
        self.b_gate = nn.Parameter(torch.zeros(horizons))
        self.w_main = uniform(horizons, width, bound=bound, generator=generator)
        self.b_main = nn.Parameter(torch.zeros(horizons))

    def forward(self, h: Tensor) -> Tensor:
        """[..., D] to logits [..., H]."""
        weights = GRNWeights(*(getattr(self, name) for name in GRNWeights._fields))
        with without_autocast(h.device.type):  # the operator reads half precision as it is
            return grn_heads(h, weights)


class LinearHeads(nn.Module):
    """logit = w h + b per horizon."""

    def __init__(self, width: int, horizons: int, *, generator: Generator) -> None:
        super().__init__()
        self.weight = uniform(horizons, width, bound=1 / math.sqrt(width), generator=generator)
        self.bias = nn.Parameter(torch.zeros(horizons))

    def forward(self, h: Tensor) -> Tensor:
        """[..., D] to logits [..., H]."""
        return linear(h, self.weight, self.bias)


class MLPHeads(nn.Module):
    """logit = w GELU(W h + b) + c per horizon: two layers, a hidden layer of its own for each horizon."""

    def __init__(self, width: int, horizons: int, *, generator: Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.hidden = uniform(horizons, width, width, bound=bound, generator=generator)
        self.hidden_bias = nn.Parameter(torch.zeros(horizons, width))
        self.out = uniform(horizons, width, bound=bound, generator=generator)
        self.out_bias = nn.Parameter(torch.zeros(horizons))

    def forward(self, h: Tensor) -> Tensor:
        """[..., D] to logits [..., H]."""
        hidden = linear(h, self.hidden.flatten(0, 1), self.hidden_bias.flatten())
        active = gelu(hidden).unflatten(-1, self.out.shape)
        return (active * self.out).sum(-1) + self.out_bias


def make_heads(kind: str, width: int, horizons: int, *, generator: Generator) -> nn.Module:
    """The heads named by `kind`, one of HEADS. Raises KeyError for another name."""
    classes = {"grn": GRNHeads, "linear": LinearHeads, "mlp": MLPHeads}
    return classes[kind](width, horizons, generator=generator)
