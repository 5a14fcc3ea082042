"""Categorical return distributions: support, projection, expectation, loss (Bellemare, Dabney, Munos 2017)."""

import torch
from torch import Tensor
from torch.nn import functional


def support(v_min: float, v_max: float, atoms: int, *, device: str | torch.device = "cpu") -> Tensor:
    """Evenly spaced atoms z_i = v_min + i (v_max - v_min) / (atoms - 1), [Z] float32.

    Raises:
        ValueError: fewer than 2 atoms or an empty range.
    """
    if atoms < 2 or not v_min < v_max:
        raise ValueError(
            f"support was [{v_min}, {v_max}] with {atoms} atoms, must be a range with at least 2"
        )
    # float64 first: float32 steps would drift away from atoms that have an exact value.
    return torch.linspace(v_min, v_max, atoms, dtype=torch.float64).to(device, torch.float32)


def compress_tail(values: Tensor, kappa: float) -> Tensor:
    """g(z) = z for z >= -kappa, -kappa (1 + ln(-z / kappa)) below; kappa 0 leaves the values alone.

    Rare disasters keep their rank without eating the support. Continuous with slope 1 at -kappa.

    Args:
        values: [...] returns.
        kappa: where the compression starts, same unit, at least 0.
    """
    if kappa == 0:
        return values
    depth = (-values / kappa).clamp_min(1.0)  # the clamp keeps the unused branch finite
    return torch.where(values >= -kappa, values, -kappa * (1.0 + depth.log()))


def project(values: Tensor, probs: Tensor, atoms: Tensor) -> Tensor:
    """Distribute point masses to the two nearest atoms, linearly; beyond the support, to its ends.

    Bellemare et al. 2017, eq. 7. All mass of a point that lands on an atom goes to that atom, once: the upper
    neighbour gets the fractional part of the position, the lower one the rest, so each point's shares sum to 1.

    Args:
        values: [B, N] positions of the masses.
        probs: [B, N] masses.
        atoms: [Z] even support.

    Returns:
        [B, Z] masses, whose sum is that of `probs`, and whose mean is that of the clamped values.
    """
    last = atoms.shape[0] - 1
    step = (atoms[-1] - atoms[0]) / last
    position = ((values - atoms[0]) / step).clamp(0.0, float(last))
    lower = position.floor()
    upper_share = position - lower
    index = lower.nan_to_num(0.0).long()  # NaN has no place, but its mass below is NaN and will be noticed
    projected = torch.zeros((*probs.shape[:-1], last + 1), dtype=probs.dtype, device=probs.device)
    upper_mass = probs * upper_share
    projected.scatter_add_(-1, index, probs - upper_mass)
    # At the top end the share is 0, so the clamped index receives nothing.
    return projected.scatter_add_(-1, (index + 1).clamp_max(last), upper_mass)


def bellman_project(
    r_t: Tensor, discount_t: Tensor, probs_t: Tensor, atoms: Tensor, *, kappa: float = 0.0
) -> Tensor:
    """Projected distribution of r_t + discount_t Z, the C51 target.

    Args:
        r_t: [B] rewards, n-step sums included.
        discount_t: [B] discount of the next state's return, 0 where the episode ended.
        probs_t: [B, Z] distribution of the next state's return.
        atoms: [Z] even support.
        kappa: tail compression before clipping, 0 for none.

    Returns:
        [B, Z] target distribution.
    """
    values = r_t[:, None] + discount_t[:, None] * atoms
    return project(compress_tail(values, kappa), probs_t, atoms)


def expectation(probs: Tensor, atoms: Tensor) -> Tensor:
    """Mean return of [..., Z] distributions, [...]."""
    return probs @ atoms


def edge_mass(probs: Tensor) -> Tensor:
    """Mean mass on the two end atoms of [B, Z] distributions, []: how much the support cuts off."""
    return (probs[:, 0] + probs[:, -1]).mean()


def cross_entropies(logits: Tensor, target: Tensor) -> Tensor:
    """-sum target log softmax(logits) of each row, [B]; gradient flows into [B, Z] logits."""
    return -(target * functional.log_softmax(logits, dim=-1)).sum(-1)
