"""Replay: a ring of transitions on the device, drawn from uniformly or by how much was left to learn from each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

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


class Drawn(NamedTuple):
    """A batch from a replay buffer.

    Attributes:
        transitions: B of them.
        places: [B] int64 slots they lie in.
        weights: [B] float32 in (0, 1], what undoes the preference of the draw; None where there was none.
    """

    transitions: Transitions
    places: Tensor
    weights: Tensor | None


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
        places = ((self._next + count - kept + torch.arange(kept)) % self.capacity).to(self.device)
        for name in FIELDS:
            target: Tensor = getattr(self._stored, name)
            source: Tensor = getattr(batch, name)
            target[places] = source[count - kept :]
        self._next = (self._next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)
        self._added(places)

    def tensors(self) -> dict[str, Tensor]:
        """All that is kept, by name; the ring's place among them."""
        kept = {name: getattr(self._stored, name)[: self.size] for name in FIELDS}
        return kept | {"ring": torch.tensor([self.size, self._next])}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Hold what another buffer of the same capacity held when its `tensors` were taken."""
        self.size, self._next = tensors["ring"].tolist()
        for name in FIELDS:
            getattr(self._stored, name)[: self.size] = tensors[name].to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the transitions lie."""
        return self._stored.a_tm1.device

    def _added(self, places: Tensor) -> None:
        """Called with the slots that were written."""

    def sample(self, count: int, generator: torch.Generator) -> Transitions:
        """`count` transitions, uniformly with replacement, drawn on the generator's device.

        Raises:
            ValueError: the buffer is empty.
        """
        return self._at(self._uniform(count, generator))

    def draw(self, count: int, generator: torch.Generator, beta: float) -> Drawn:
        """A batch to learn from; here as `sample` draws it, whatever beta is."""
        del beta
        places = self._uniform(count, generator)
        return Drawn(self._at(places), places, None)

    def learned(self, places: Tensor, losses: Tensor) -> None:
        """Told after a gradient step how large the loss of each transition of a batch was, [B] each."""

    def _uniform(self, count: int, generator: torch.Generator) -> Tensor:
        if self.size == 0:
            raise ValueError("the replay buffer is empty: add transitions before sampling")
        return torch.randint(self.size, (count,), generator=generator, device=generator.device).to(
            self.device
        )

    def _at(self, places: Tensor) -> Transitions:
        return Transitions(**{name: getattr(self._stored, name)[places] for name in FIELDS})


class PrioritisedReplay(ReplayBuffer):
    """Draws in proportion to (loss + EPSILON)^alpha (Schaul et al. 2016, proportional); new transitions come first.

    Masses are whole numbers: a floating-point prefix sum depends on the order in which a device adds, and its last
    entry need not reach the total. Nothing is read on the host.

    Args:
        capacity: transitions held, at least 1 and at most LARGEST.
        alpha: how much the loss counts, 0 for not at all.
        device: where they lie.

    Raises:
        ValueError: a capacity out of bounds.
    """

    EPSILON = 1e-3
    """Keeps what was learned perfectly once from never being drawn again, in units of the loss."""

    UNIT = 2.0**24
    """Mass of a transition whose priority is 1."""

    HEAVIEST = 2**40
    """So that LARGEST masses still add up in 64 bits."""

    LARGEST = 2**22

    def __init__(self, capacity: int, *, alpha: float, device: str | torch.device = "cpu") -> None:
        if capacity > self.LARGEST:
            raise ValueError(f"capacity was {capacity}, must be at most {self.LARGEST} with priorities")
        super().__init__(capacity, device=device)
        self.alpha = alpha
        self._mass = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._heaviest = torch.full((), round(self.UNIT), dtype=torch.int64, device=device)

    def draw(self, count: int, generator: torch.Generator, beta: float) -> Drawn:
        """A batch by priority.

        Args:
            count: B.
            generator: source of the draws.
            beta: how much of the preference the weights undo, 1 for all of it; they are scaled to at most 1.

        Raises:
            ValueError: the buffer is empty.
        """
        if self.size == 0:
            raise ValueError("the replay buffer is empty: add transitions before sampling")
        u = torch.rand(count, generator=generator, dtype=torch.float64, device=generator.device).to(
            self.device
        )
        reached = self._mass.cumsum(0)
        places = locate(reached, u)
        share = self._mass[places].double() / reached[-1]
        weights = (share * self.size).pow(-beta)
        return Drawn(self._at(places), places, (weights / weights.max()).float())

    def learned(self, places: Tensor, losses: Tensor) -> None:
        """See ReplayBuffer.learned; of a transition that was drawn twice the larger loss is kept."""
        priority = (losses.detach().double().abs() + self.EPSILON).pow(self.alpha)
        mass = (priority * self.UNIT).round().clamp(1, self.HEAVIEST).long()
        # Two writes to one place would leave whichever came last, which a device does not promise.
        self._mass.scatter_reduce_(0, places, mass, "amax", include_self=False)
        self._heaviest = torch.maximum(self._heaviest, mass.max())

    def _added(self, places: Tensor) -> None:
        self._mass[places] = self._heaviest

    def tensors(self) -> dict[str, Tensor]:
        """See ReplayBuffer.tensors; masses beside."""
        return super().tensors() | {"mass": self._mass[: self.size], "heaviest": self._heaviest}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """See ReplayBuffer.restore."""
        super().restore(tensors)
        self._mass[: self.size] = tensors["mass"].to(self.device)
        self._heaviest.copy_(tensors["heaviest"])


def locate(reached: Tensor, u: Tensor) -> Tensor:
    """The item whose share of the total holds each of some points.

    Args:
        reached: [n] int64, running sums of masses, the last one above 0.
        u: [B] float64 in [0, 1]; 1 is taken for the last mass.

    Returns:
        [B] int64 positions; never one without mass.
    """
    total = reached[-1]
    # A product of a double may round up to the total, behind which there is nothing.
    point = torch.minimum((u * total).long(), total - 1)
    return torch.searchsorted(reached, point, right=True)
