"""What a network is given, checked once at its door: a wrong tensor is named instead of failing somewhere inside."""

from collections.abc import Mapping

import torch
from torch import Tensor

from alpha_core.errors import DataError
from alpha_core.shapes import FEATURES


def require_rows(x: Tensor, dt: Tensor, reset: Tensor | None, *, like: Tensor) -> None:
    """Check the arguments of a network's forward; values are not looked at, which would stall a GPU.

    Args:
        x: must be [B, T, F], of the dtype and on the device of `like`.
        dt: must be [B, T], likewise.
        reset: must be None or [B, T] bool on the same device.
        like: a tensor of the network.

    Raises:
        DataError: all that is wrong, in one sentence.
    """
    floats = like.dtype
    if x.dim() != 3 or x.shape[-1] != FEATURES or 0 in x.shape:
        raise DataError(f"x has shape {list(x.shape)}, must be [B, T, {FEATURES}] with B and T above 0")
    problems = misfits("x", x, x.shape, floats, like.device)
    problems += misfits("dt", dt, x.shape[:2], floats, like.device)
    if reset is not None:
        problems += misfits("reset", reset, x.shape[:2], torch.bool, like.device)
    if problems:
        raise DataError(f"network input: {'; '.join(problems)}")


def require_state(tensors: Mapping[str, Tensor], batch: int, *, like: Tensor) -> None:
    """Check that carried state belongs to as many sequences as the rows do, and lies with the network.

    Raises:
        DataError: all that is wrong, in one sentence.
    """
    problems: list[str] = []
    for name, value in tensors.items():
        problems += misfits(f"state {name}", value, (batch, *value.shape[1:]), value.dtype, like.device)
    if problems:
        raise DataError(f"network input: {'; '.join(problems)}")


def misfits(
    name: str, value: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> list[str]:
    """What is wrong with a tensor, one phrase each."""
    found = []
    if tuple(value.shape) != tuple(shape):
        found.append(f"{name} has shape {list(value.shape)}, must be {list(shape)}")
    if value.dtype != dtype:
        found.append(f"{name} is {value.dtype}, must be {dtype}")
    if value.device != device:
        found.append(f"{name} is on {value.device}, must be on {device}")
    return found
