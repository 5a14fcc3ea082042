"""First weights from a generator passed in, so that building a model never touches the global stream."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Generator, Tensor, nn


def uniform(*shape: int, bound: float, generator: Generator) -> nn.Parameter:
    """Parameter drawn from U(-bound, bound), float32 on the host."""
    return nn.Parameter((2 * torch.rand(*shape, generator=generator) - 1) * bound)


def linear(inputs: int, outputs: int, *, generator: Generator, bias: bool = True) -> nn.Linear:
    """A linear layer with weights from U(-1, 1) / sqrt(inputs) and no bias at first."""
    # Built without memory, because nn.Linear draws its first weights from the global stream.
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta")
    layer.weight = uniform(outputs, inputs, bound=1 / math.sqrt(inputs), generator=generator)
    if bias:
        layer.bias = nn.Parameter(torch.zeros(outputs))
    return layer


def drawn(kind: Callable[..., nn.Module], *sizes: Any, generator: Generator, **options: Any) -> nn.Module:
    """A layer of torch's own: weights from U(-1, 1) / sqrt(inputs of one output), no bias at first.

    Args:
        kind: a layer whose vectors are all biases, such as nn.Conv1d or nn.LSTM.
        sizes: its arguments.
        generator: source of the weights.
        options: its further arguments.
    """
    layer = kind(*sizes, **options, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        for weight in layer.parameters():
            if weight.dim() > 1:
                weight.uniform_(-1, 1, generator=generator).div_(math.sqrt(weight[0].numel()))
            else:
                weight.zero_()
    return layer


def full_precision(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Half-precision tensors as float32, others untouched: recurrent state is never kept in half."""
    return tuple(t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors)


def without_autocast(device: str) -> torch.autocast | nullcontext[None]:
    """A stretch in which torch casts nothing by itself; free where it would not anyway, as in a live step."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
