"""What the environment replays: the read-only tensors of one or more cached days."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

TAPE_OFFSETS = 8
TAPE_SIDE = TAPE_OFFSETS + 2
TAPE_WIDTH = 2 * TAPE_SIDE + 2
"""Layout of one `tape` row, all int32, describing the interval (row i, row i+1]:

    [0:8]    volume of BUY aggressors at ask_px(i) + k ticks, k = 0..6 exact, k = 7 means 7 and more
    [8]      highest price a buy aggressor paid, UNDEFINED_TICKS when none traded
    [9]      number of buy-aggressor trades
    [10:18]  volume of SELL aggressors at bid_px(i) - k ticks, k as above
    [18]     lowest price a sell aggressor got, UNDEFINED_TICKS when none traded
    [19]     number of sell-aggressor trades
    [20]     size cancelled at price bid_px(i), [21] size cancelled at price ask_px(i)

A trade at a better price than the touch of row i (below the ask for a buy, above the bid for a sell) counts
in the number and the extreme but in no volume bin. Trades of unknown aggressor count nowhere. The last row
of a segment has an empty tape.
"""


@dataclass(frozen=True, kw_only=True)
class MarketData:
    """Rows of one or several days on one device, in time order; no segment spans a session break or a roll.

    Attributes:
        mid2: [R] int32, bid + ask of the touch, that is the mid in half ticks.
        book: [R, 10, 4] int32, per level (bid price, ask price in ticks, bid size, ask size in lots).
        tape: [R, 22] int32, see TAPE_WIDTH.
        segment: [R] int32, identity of the contiguous stretch a row belongs to (unique across days).
        day: [R] int32, index of the trading day a row belongs to.
        seconds: [R] float32, time from this row to the next one in seconds; 0 on the last row of a segment.
        second_of_day: [R] float32, seconds since UTC midnight of the row's ts, in [0, 86 400]
            (86 400 itself only by float32 rounding).
        features: [R, 40] float32, unnormalised, columns named by `feature_names`.
        feature_names: names of the 40 columns.
        alpha: [R] float32, the perception's logit at the trading horizon; zeros before it is trained.
    """

    mid2: Tensor
    book: Tensor
    tape: Tensor
    segment: Tensor
    day: Tensor
    seconds: Tensor
    second_of_day: Tensor
    features: Tensor
    feature_names: tuple[str, ...]
    alpha: Tensor

    @property
    def rows(self) -> int:
        """R, the number of decision points."""
        return self.mid2.shape[0]

    def column(self, name: str) -> Tensor:
        """One feature by name, [R] float32. Raises ValueError (tuple.index) for an unknown name."""
        return self.features[:, self.feature_names.index(name)]

    def with_alpha(self, alpha: Tensor) -> "MarketData":
        """The same market seen through a trained perception; alpha is [R] float32 logits."""
        if alpha.shape != self.mid2.shape:
            raise ValueError(f"alpha has shape {tuple(alpha.shape)}, must be {tuple(self.mid2.shape)}")
        return replace(self, alpha=alpha.to(self.mid2.device, torch.float32))

    def slice(self, start: int, stop: int) -> "MarketData":
        """Rows [start, stop), sharing storage."""
        return self._map(lambda t: t[start:stop])

    def to(self, device: str | torch.device) -> "MarketData":
        """The same rows on another device."""
        return self._map(lambda t: t.to(device))

    def _map(self, apply: Callable[[Tensor], Tensor]) -> "MarketData":
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "feature_names"}
        return replace(self, **{name: apply(tensor) for name, tensor in tensors.items()})
