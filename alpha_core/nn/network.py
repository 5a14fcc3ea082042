"""What every network of the perception has in common: a scaler before it, temperatures behind it, carried state."""

from typing import ClassVar, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from alpha_core.errors import DataError
from alpha_core.nn.inputs import require_rows, require_state
from alpha_core.shapes import FEATURES, HORIZONS


class State(Protocol):
    """What a row leaves to the next, for B sequences at once."""

    def detach(self) -> Self:
        """The same numbers without history: the cut of truncated back-propagation."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by a name, for a checkpoint; `Network.state_from` is the inverse."""
        ...


S = TypeVar("S", bound=State)


class Network(nn.Module, Generic[S]):
    """Logits at five horizons from rows in time order. The scaler and the temperatures are buffers.

    Args:
        feature_clip: scaled features are cut at +- this many standard deviations.
    """

    steady: ClassVar[bool] = False
    """Whether `forward` launches the same kernels whatever its arguments hold, so that a graph can record it."""

    mean: Tensor
    scale: Tensor
    temperature: Tensor

    def __init__(self, feature_clip: float) -> None:
        super().__init__()
        self.clip = feature_clip
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.register_buffer("scale", torch.ones(FEATURES))
        self.register_buffer("temperature", torch.ones(len(HORIZONS)))

    def scaled(self, x: Tensor) -> Tensor:
        """Raw features [..., F] in standard deviations of the training rows, clipped."""
        return ((x - self.mean) / self.scale).clamp(-self.clip, self.clip)

    def gate(self, x: Tensor) -> Tensor:
        """Share of attention that each feature of a row gets, [..., F] summing to 1; uniform by default."""
        return torch.full_like(x, 1 / x.shape[-1])

    def forward(
        self, x: Tensor, dt: Tensor, state: S | None = None, reset: Tensor | None = None
    ) -> tuple[Tensor, S]:
        """A whole sequence.

        Args:
            x: [B, T, F] raw features.
            dt: [B, T] seconds since the previous row.
            state: left by the rows before; None to start afresh.
            reset: [B, T] bool, True on the first row of a segment; None when no row is.

        Returns:
            logits [B, T, H] and the last state.

        Raises:
            DataError: an argument has another shape or dtype, or lies on another device than the weights.
        """
        raise NotImplementedError

    def require(self, x: Tensor, dt: Tensor, state: S | None, reset: Tensor | None) -> None:
        """Check the arguments of `forward`. Raises DataError as it says."""
        require_rows(x, dt, reset, like=self.mean)
        if state is not None:
            require_state(state.tensors(), x.shape[0], like=self.mean)

    def initial_state(self, batch: int) -> S:
        """The state of so many sequences that start afresh."""
        raise NotImplementedError

    def state_from(self, tensors: dict[str, Tensor]) -> S:
        """The state whose `tensors` these are."""
        raise NotImplementedError

    def step(self, x: Tensor, dt: Tensor, state: S | None = None) -> tuple[Tensor, S]:
        """One row as it arrives live: x [B, F], dt [B] to logits [B, H] and the state after."""
        if x.dim() != 2 or dt.dim() != 1:
            raise DataError(
                f"x has shape {list(x.shape)} and dt {list(dt.shape)}, must be [B, {FEATURES}] and [B]"
            )
        logits, after = self(x[:, None], dt[:, None], state)
        return logits[:, 0], after
