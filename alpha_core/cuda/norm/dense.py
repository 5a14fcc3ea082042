"""The gated norm in torch calls, its backward pass written out."""

import torch
from torch import Tensor
from torch.nn.functional import silu


def forward(y: Tensor, z: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `gated_norm`; y and z are [N, C]."""
    g = y.to(weight.dtype) * silu(z.to(weight.dtype))
    return (g * torch.rsqrt(g.square().mean(-1, keepdim=True) + eps) * weight).to(y.dtype)


def backward(grad: Tensor, y: Tensor, z: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of y, z and w: with r = 1 / sqrt(mean(g^2) + eps), dL/dg = r (w d - g r^2 mean(w d g))."""
    d, wide_y, wide_z = (v.to(weight.dtype) for v in (grad, y, z))
    share = torch.sigmoid(wide_z)
    gate = wide_z * share
    g = wide_y * gate
    r = torch.rsqrt(g.square().mean(-1, keepdim=True) + eps)
    wd = weight * d
    d_g = r * (wd - g * r.square() * (wd * g).mean(-1, keepdim=True))
    d_z = d_g * wide_y * share * (1 + wide_z * (1 - share))
    return (d_g * gate).to(y.dtype), d_z.to(z.dtype), (d * g * r).sum(0)
