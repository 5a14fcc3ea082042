"""Munchausen reinforcement learning (Vieillard, Pietquin, Geist 2020), scalar and distributional.

Everything goes through log-sum-exp: at temperature 0.03 a spread of 25 would overflow a float32 exponential.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from alpha_core.rl.categorical import compress_tail, expectation, project


@dataclass(frozen=True, kw_only=True)
class Munchausen:
    """Settings of the bonus.

    Attributes:
        alpha: weight of the bonus in [0, 1).
        tau: temperature of the softmax policy, in reward units, > 0.
        floor: lower clip of tau log pi, <= 0.
    """

    alpha: float = 0.9
    tau: float = 0.03
    floor: float = -1.0


def log_policy(q: Tensor, tau: float, legal: Tensor | None = None) -> Tensor:
    """log softmax(q / tau) over the last dimension, in at least float32.

    Args:
        q: [..., A] action values.
        tau: temperature, > 0.
        legal: [..., A] bool; the others get -inf. All legal when None.
    """
    # Subtracting the maximum before dividing keeps q / tau inside half-precision ranges too.
    values = q.to(torch.promote_types(q.dtype, torch.float32))
    values = values if legal is None else values.masked_fill(~legal, -torch.inf)
    return functional.log_softmax((values - values.amax(-1, keepdim=True)) / tau, dim=-1)


def policy_entropy(log_pi: Tensor) -> Tensor:
    """-sum pi log pi with 0 log 0 = 0, nats, [...]; finite also where log pi is -inf."""
    pi = log_pi.exp()
    return -torch.where(pi > 0, pi * log_pi, torch.zeros_like(pi)).sum(-1)


def soft_value(q: Tensor, tau: float, legal: Tensor | None = None) -> Tensor:
    """V(s) = max q + tau log sum exp((q - max q) / tau) over legal actions, [...] in at least float32."""
    values = q.to(torch.promote_types(q.dtype, torch.float32))
    values = values if legal is None else values.masked_fill(~legal, -torch.inf)
    top = values.amax(-1, keepdim=True)
    return top.squeeze(-1) + tau * ((values - top) / tau).logsumexp(-1)


def bonus(q_tm1: Tensor, a_tm1: Tensor, settings: Munchausen, legal_tm1: Tensor | None = None) -> Tensor:
    """m = alpha clip(tau log pi(a|s), floor, 0), [B].

    Args:
        q_tm1: [B, A] action values of the state acted in.
        a_tm1: [B] int64 actions taken, legal ones.
        settings: weight, temperature, clip.
        legal_tm1: [B, A] bool, all legal when None.
    """
    taken = log_policy(q_tm1, settings.tau, legal_tm1).gather(-1, a_tm1[:, None]).squeeze(-1)
    return settings.alpha * (settings.tau * taken).clamp(settings.floor, 0.0)


def scalar_target(
    q_tm1: Tensor,
    a_tm1: Tensor,
    r_t: Tensor,
    discount_t: Tensor,
    q_t: Tensor,
    settings: Munchausen,
) -> Tensor:
    """r + m + discount V_soft(s'), [B]; `discount_t` 0 ends an episode.

    Args:
        q_tm1: [B, A] target-network values of the state acted in.
        a_tm1: [B] int64 actions.
        r_t: [B] rewards.
        discount_t: [B] discounts.
        q_t: [B, A] target-network values of the next state.
        settings: weight, temperature, clip.
    """
    return r_t + bonus(q_tm1, a_tm1, settings) + discount_t * soft_value(q_t, settings.tau)


def distributional_target(
    r_t: Tensor,
    discount_t: Tensor,
    probs_t: Tensor,
    atoms: Tensor,
    tau: float,
    *,
    legal_t: Tensor | None = None,
    kappa: float = 0.0,
) -> Tensor:
    """Projected law of r + discount (Z(s', a') - tau log pi(a'|s')), a' drawn from pi(.|s').

    Its mean before clipping and compression is r + discount V_soft(s'), since V_soft = sum pi (Q - tau log pi).

    Args:
        r_t: [B] rewards, Munchausen bonus included.
        discount_t: [B] discounts, 0 where the episode ended.
        probs_t: [B, A, Z] next-state return distributions of the target network.
        atoms: [Z] even support.
        tau: temperature of the policy.
        legal_t: [B, A] bool, all legal when None.
        kappa: tail compression before clipping, 0 for none.

    Returns:
        [B, Z] target distribution.
    """
    log_pi = log_policy(expectation(probs_t, atoms), tau, legal_t)
    pi = log_pi.exp()
    # An action that is never chosen has no weight; its infinite shift must not make 0 x inf.
    shift = torch.where(pi > 0, -tau * log_pi, torch.zeros_like(pi))
    target = torch.zeros_like(probs_t[:, 0])
    # Action by action: the pieces stay in the cache, which makes this several times faster than one big projection.
    for a in range(probs_t.shape[1]):
        values = r_t[:, None] + discount_t[:, None] * (atoms + shift[:, a, None])
        target += project(compress_tail(values, kappa), probs_t[:, a] * pi[:, a, None], atoms)
    return target
