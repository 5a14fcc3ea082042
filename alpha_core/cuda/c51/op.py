"""Means and draws as a PyTorch operator: the tensor's device chooses the form.

alpha::c51_values(logits, support, uniforms) -> means, draws (none of them without uniforms)
"""

import torch
from torch import Tensor

from alpha_core.cuda.c51 import dense


@torch.library.custom_op("alpha::c51_values", mutates_args=(), device_types="cpu")
def c51_values(logits: Tensor, support: Tensor, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    """Means [n, A] and draws [n, A], or [0, A] without uniforms; see `values_and_draws`."""
    return dense.values(logits, support, uniforms)


@c51_values.register_kernel("cuda")
def _(logits: Tensor, support: Tensor, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    if logits.dtype != torch.float32:
        return dense.values(logits, support, uniforms)
    from alpha_core.cuda.c51 import kernels

    return kernels.values(logits, support, uniforms)


@c51_values.register_fake
def _(logits: Tensor, support: Tensor, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    n, A = logits.shape[:2]
    return logits.new_empty(n, A), logits.new_empty(0 if uniforms is None else n, A)
