"""Uniform replay: a ring of transitions on the device."""

from dataclasses import dataclass

import torch
from torch import Tensor

from alpha_core.shapes import ACTIONS, OBSERVATIONS


@dataclass(frozen=True, kw_only=True)
class Transitions:
    """A batch of transitions, possibly multi-step.

    Attributes:
        observation_tm1: [B, 10] float32.
        legal_tm1: [B, 9] bool.
        a_tm1: [B] int64.
        r_t: [B] float32, summed rewards in ticks.
        discount_t: [B] float32, 0 where the episode ended.
        observation_t: [B, 10] float32, bootstrap state.
        legal_t: [B, 9] bool.
        cost: [B] float32, ticks per lot and side, constant over the episode.
    """

    observation_tm1: Tensor
    legal_tm1: Tensor
    a_tm1: Tensor
    r_t: Tensor
    discount_t: Tensor
    observation_t: Tensor
    legal_t: Tensor
    cost: Tensor


FIELDS = tuple(Transitions.__dataclass_fields__)


class ReplayBuffer:
    """Fixed-size ring; when full, the oldest transitions are overwritten.

    Args:
        capacity: transitions held, at least 1.
        device: where they lie.

    Raises:
        ValueError: a capacity below 1.
    """

    def __init__(self, capacity: int, *, device: str | torch.device = "cpu") -> None:
        if capacity < 1:
            raise ValueError(f"capacity was {capacity}, must be at least 1")
        self.capacity = capacity
        self.size = 0
        self._next = 0
        self._stored = Transitions(
            observation_tm1=torch.zeros(capacity, OBSERVATIONS, device=device),
            legal_tm1=torch.zeros(capacity, ACTIONS, dtype=torch.bool, device=device),
            a_tm1=torch.zeros(capacity, dtype=torch.int64, device=device),
            r_t=torch.zeros(capacity, device=device),
            discount_t=torch.zeros(capacity, device=device),
            observation_t=torch.zeros(capacity, OBSERVATIONS, device=device),
            legal_t=torch.zeros(capacity, ACTIONS, dtype=torch.bool, device=device),
            cost=torch.zeros(capacity, device=device),
        )

    def add(self, batch: Transitions) -> None:
        """Store a batch, oldest first; of one larger than the ring only its end is kept."""
        count = batch.a_tm1.shape[0]
        kept = min(count, self.capacity)
        places = (self._next + count - kept + torch.arange(kept)) % self.capacity
        for name in FIELDS:
            target: Tensor = getattr(self._stored, name)
            source: Tensor = getattr(batch, name)
            target[places.to(target.device)] = source[count - kept :]
        self._next = (self._next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def sample(self, count: int, generator: torch.Generator) -> Transitions:
        """`count` transitions, uniformly with replacement, drawn on the generator's device.

        Raises:
            ValueError: the buffer is empty.
        """
        if self.size == 0:
            raise ValueError("the replay buffer is empty: add transitions before sampling")
        drawn = torch.randint(self.size, (count,), generator=generator, device=generator.device)
        places = drawn.to(self._stored.a_tm1.device)
        return Transitions(**{name: getattr(self._stored, name)[places] for name in FIELDS})
