"""How the field's reference architectures meet our protocol: a window of the past, carried from block to block.

They were published for windows cut out of a day. Here each row is given the rows before it as its window, so that
they are trained and asked on exactly the rows that ours is; what lies before a segment's first row is zero, which
after the scaler is the average row. Elapsed time reaches them as a feature (`log1p_duration`) and nowhere else.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from alpha_core.nn.network import Network
from alpha_core.shapes import FEATURES


class Carried(NamedTuple):
    """State of a reference: the scaled rows that the next window begins with, and what a recurrent layer keeps."""

    parts: tuple[Tensor, ...]  # each [B, ...]; the first is rows [B, past, F]

    def detach(self) -> "Carried":
        """The same numbers without history."""
        return Carried(tuple(part.detach() for part in self.parts))

    def tensors(self) -> dict[str, Tensor]:
        """The parts by their position."""
        return {str(index): part for index, part in enumerate(self.parts)}

    def cleared(self, fresh: Tensor) -> "Carried":
        """Zeros for the sequences that start afresh; fresh is [B] bool."""
        return Carried(tuple(p.masked_fill(fresh.view(-1, *(1,) * (p.dim() - 1)), 0.0) for p in self.parts))


class Reference(Network[Carried]):
    """A causal network of a bounded past.

    Args:
        feature_clip: see Network.
        past: rows before a row that its logits are made from.
    """

    def __init__(self, feature_clip: float, past: int) -> None:
        super().__init__(feature_clip)
        self.past = past

    def initial_state(self, batch: int) -> Carried:
        """Zeros."""
        return Carried((self.mean.new_zeros(batch, self.past, FEATURES),))

    def forward(
        self,
        x: Tensor,
        dt: Tensor,
        state: Carried | None = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, Carried]:
        """See Network.forward; references know no clock."""
        self.require(x, dt, state, reset)
        x = self.scaled(x)
        carried = self.initial_state(len(x)) if state is None else state
        cuts = [0] if reset is None else sorted({0, *torch.nonzero(reset.any(0)).flatten().tolist()})
        logits = []
        for start, stop in zip(cuts, [*cuts[1:], x.shape[1]], strict=True):
            if reset is not None:
                carried = carried.cleared(reset[:, start])
            rows = torch.cat((carried.parts[0], x[:, start:stop]), dim=1)
            out, memory = self.unbroken(rows, carried.parts[1:])
            carried = Carried((rows[:, rows.shape[1] - self.past :], *memory))
            logits.append(out)
        return torch.cat(logits, dim=1) / self.temperature, carried

    def unbroken(self, rows: Tensor, memory: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Rows of which none starts afresh.

        Args:
            rows: [B, past + T, F] scaled, the carried ones first.
            memory: of the recurrent layer, empty without one.

        Returns:
            logits [B, T, H] and the memory after.
        """
        raise NotImplementedError

    def state_from(self, tensors: dict[str, Tensor]) -> Carried:
        """See Network.state_from."""
        return Carried(tuple(tensors[str(index)] for index in range(len(tensors))))
