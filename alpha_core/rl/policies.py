"""Policies as the rollout sees them: observation, cost, mask and uniforms in, actions out."""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from alpha_core.nn.q_networks import QNetwork
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.mirror import points_down, turn_by_action, turn_observation
from alpha_core.rl.thompson import first_argmax
from alpha_core.rng import Purpose
from alpha_core.shapes import ACTIONS

WAIT, BUY, SELL, FLATTEN = 0, 1, 2, 8
ALPHA, POSITION = 0, 2
"""Places in the observation: the perception's logit, position / limit."""

CHUNK, CHUNK_ON_GPU = 256, 16384
"""Lanes of one network call. Always exactly this many, the last call padded: matrix products of another height may
round differently, and a lane's decision must not depend on how many lanes run beside it. A GPU wants more at once."""


class Policy(Protocol):
    """Chooses actions for lanes in lockstep, without memory of its own."""

    @property
    def uniforms(self) -> int:
        """Uniforms that one decision of one lane uses."""
        ...

    @property
    def purpose(self) -> Purpose:
        """The random stream they come from."""
        ...

    def act(self, observation: Tensor, cost: Tensor, mask: Tensor, uniforms: Tensor) -> Tensor:
        """Actions of all lanes.

        Args:
            observation: [E, 10] float32.
            cost: [E] float32, ticks per lot and side.
            mask: [E, 9] bool, legal actions.
            uniforms: [E, `self.uniforms`] float32 in [0, 1).

        Returns:
            [E] int64, in 0..8.
        """
        ...


@dataclass(frozen=True)
class WaitPolicy:
    """Never acts."""

    uniforms: int = 0
    purpose: Purpose = Purpose.BASELINE

    def act(self, observation: Tensor, cost: Tensor, mask: Tensor, uniforms: Tensor) -> Tensor:  # noqa: ARG002
        """All lanes wait."""
        return torch.full((observation.shape[0],), WAIT, dtype=torch.int64, device=observation.device)


@dataclass(frozen=True)
class RandomPolicy:
    """Uniform over all nine actions; one that is not legal becomes a wait."""

    uniforms: int = 1
    purpose: Purpose = Purpose.BASELINE

    def act(self, observation: Tensor, cost: Tensor, mask: Tensor, uniforms: Tensor) -> Tensor:  # noqa: ARG002
        """floor(9 u), masked."""
        drawn = (uniforms[:, 0] * ACTIONS).long().clamp_max(ACTIONS - 1)
        return torch.where(mask.gather(1, drawn[:, None]).squeeze(1), drawn, WAIT)


@dataclass(frozen=True)
class ThresholdPolicy:
    """A rule on the alpha alone: enter at market when it is strong, leave when it has turned.

    Buy up to the position limit when P(up) - 0.5 >= enter, sell when <= -enter; close a long position when
    P(up) - 0.5 <= -leave, a short one when >= leave. Between the two nothing happens (hysteresis), so that
    noise around one level costs no trades.

    Attributes:
        enter: least |P(up) - 0.5| that opens a position, in [0, 0.5].
        leave: least |P(up) - 0.5| against the position that closes it, in [0, enter].
    """

    enter: float = 0.05
    leave: float = 0.0
    uniforms: int = 0
    purpose: Purpose = Purpose.BASELINE

    def __post_init__(self) -> None:
        if not 0 <= self.leave <= self.enter <= 0.5:
            raise ValueError(
                f"enter was {self.enter} and leave {self.leave}, must be 0 <= leave <= enter <= 0.5"
            )

    def act(self, observation: Tensor, cost: Tensor, mask: Tensor, uniforms: Tensor) -> Tensor:  # noqa: ARG002
        """Buy, sell, flatten or wait, lane by lane."""
        # Measured in log odds: the sigmoid of a float32 rounds, and devices round it differently.
        alpha, position = observation[:, ALPHA], observation[:, POSITION]
        enter, leave = _log_odds(self.enter), _log_odds(self.leave)
        against = torch.where(position > 0, alpha <= -leave, alpha >= leave) & (position != 0) & (alpha != 0)
        action = torch.where(against, FLATTEN, WAIT)
        # Orders follow until the position limit masks them, through flat when they start on the wrong side.
        action = torch.where((alpha >= enter) & (alpha > 0), BUY, action)
        action = torch.where((alpha <= -enter) & (alpha < 0), SELL, action)
        return torch.where(mask.gather(1, action[:, None]).squeeze(1), action, WAIT)


def _log_odds(edge: float) -> float:
    """logit(0.5 + edge)."""
    return math.inf if edge >= 0.5 else math.log((0.5 + edge) / (0.5 - edge))


@dataclass(frozen=True)
class QPolicy:
    """Acts on action values: greedily, or by one Thompson draw from each action's return distribution.

    Attributes:
        network: gives the values; not modified.
        thompson: draw instead of taking means.
        mirror: the network knows canonical states only (see `alpha_core.rl.mirror`).
        margin: ticks x lots by which the mean of another action must exceed that of waiting before a greedy policy
            takes it, at least 0. Values of actions that do nearly the same differ by the noise of their estimates
            alone, and acting on that noise places and cancels orders without end.
    """

    network: QNetwork
    thompson: bool = False
    mirror: bool = True
    margin: float = 0.0

    @staticmethod
    def configured(network: QNetwork, config: PolicyConfig) -> "QPolicy":
        """The policy that acts on a network as its configuration says."""
        return QPolicy(
            network, thompson=config.selection == "thompson", mirror=config.mirror, margin=config.margin
        )

    @property
    def uniforms(self) -> int:
        """One per action when drawing, else none."""
        return ACTIONS if self.thompson else 0

    @property
    def purpose(self) -> Purpose:
        """Selection noise."""
        return Purpose.THOMPSON

    @torch.inference_mode()
    def act(self, observation: Tensor, cost: Tensor, mask: Tensor, uniforms: Tensor) -> Tensor:
        """argmax over legal actions, ties to the lowest index; see `Policy.act`."""
        means, draws = self.values(observation, cost, uniforms if self.thompson else None)
        return self._greedy(means, mask) if draws is None else _best(draws, mask)

    @torch.inference_mode()
    def act_both(
        self, observation: Tensor, cost: Tensor, mask: Tensor, uniforms: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The greedy and the drawn action of each lane from one evaluation, [E] int64 each."""
        means, draws = self.values(observation, cost, uniforms)
        assert draws is not None
        return self._greedy(means, mask), _best(draws, mask)

    def _greedy(self, means: Tensor, mask: Tensor) -> Tensor:
        reluctant = means.clone()
        reluctant[:, WAIT] += self.margin
        return _best(reluctant, mask)

    @torch.inference_mode()
    def values(
        self, observation: Tensor, cost: Tensor, uniforms: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Mean return of each action in ticks x lots, [E, 9], and a draw of each where uniforms [E, 9] are given."""
        turned = (
            points_down(observation) if self.mirror else torch.zeros_like(observation[:, 0], dtype=torch.bool)
        )
        inputs = [turn_observation(observation, turned), cost]
        if uniforms is not None:
            inputs.append(turn_by_action(uniforms, turned))
        chunk = CHUNK_ON_GPU if observation.device.type == "cuda" else CHUNK
        padding = -observation.shape[0] % chunk
        chunks = zip(*(_padded(t, padding).split(chunk) for t in inputs), strict=True)
        pieces = zip(*(self._chunk(*chunk) for chunk in chunks), strict=True)
        means, *draws = (turn_by_action(torch.cat(piece)[: turned.shape[0]], turned) for piece in pieces)
        return means, (draws[0] if draws else None)

    def _chunk(self, observation: Tensor, cost: Tensor, uniforms: Tensor | None = None) -> tuple[Tensor, ...]:
        means, draws = self.network.values(observation, cost, uniforms)
        return (means,) if draws is None else (means, draws)


def _best(values: Tensor, mask: Tensor) -> Tensor:
    return first_argmax(values.masked_fill(~mask, -torch.inf))


def _padded(values: Tensor, rows: int) -> Tensor:
    """`values` with `rows` zero rows below."""
    return torch.cat((values, values.new_zeros(rows, *values.shape[1:]))) if rows else values
