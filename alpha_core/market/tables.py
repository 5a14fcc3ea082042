"""The cached rows, rearranged once so that a step reads each of them with one short gather.

Prices in a ladder are signed: ticks on the bid side, minus ticks on the ask side, so that on both sides a
larger number is a better price and an absent level (UNDEFINED_TICKS) is worse than any other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from alpha_core.errors import DataError
from alpha_core.market.data import TAPE_OFFSETS, TAPE_SIDE, MarketData
from alpha_core.market.fills import FillModel, waiting_times
from alpha_core.shapes import LEVELS, UNDEFINED_TICKS

QUOTE_WIDTH = 8
"""[0] bid 1, [1] ask 1, [2] bid 2, [3] ask 2 in ticks, [4] mid2, [5] bid size 1, [6] ask size 1, [7]
unused."""

LADDER_WIDTH = 2 * LEVELS + 4
"""[0:10] signed prices, [10:20] sizes, [20] signed price one tick beyond the deepest level, [21:] unused."""

FLOW_WIDTH = TAPE_OFFSETS + 4
"""[0:8] aggressor volume k ticks from the touch and beyond, [8] zero, [9] ticks from the touch to the
farthest trade (UNDEFINED_TICKS when none), [10] size cancelled at the touch, [11] unused."""

OFI_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class MarketTables:
    """Read-only tensors of a rollout. Side 0 is the bid side, side 1 the ask side.

    Attributes:
        compact: whether no level without size stands before one with size, so that n levels hold n lots.
        quote: [R, 8] int32, see QUOTE_WIDTH.
        ladder: [2R, 24] int32, row 2r + side, see LADDER_WIDTH.
        flow: [2R * 12] int32, row 2r + side, what fills a resting order of that side; see FLOW_WIDTH.
        view: [R, 10] float32, the market's part of the observation, zeros in the columns of the agent's own
            state.
        edge: [R] float32, sigmoid(alpha) − 1/2.
        hazard: [R * 10] float32, `FillModel.hazards`; one zero when there is no model.
        queue_factor: [n] float32, `FillModel.queue_factors`; one zero when there is no model.
        waiting: [65 536] float32, `fills.waiting_times`.
    """

    compact: bool
    quote: Tensor
    ladder: Tensor
    flow: Tensor
    view: Tensor
    edge: Tensor
    hazard: Tensor
    queue_factor: Tensor
    waiting: Tensor


def build_tables(data: MarketData, model: FillModel | None) -> MarketTables:
    """Rearrange a market, on the CPU whatever its device, so that all devices get equal bits.

    Raises:
        DataError: a row without a good touch, or a column of the observation that is not finite.
    """
    device, data = data.mid2.device, data.to("cpu")
    _check_touch(data)
    ladder = _ladders(data)
    absent = torch.zeros(1)
    tables = {
        "quote": _quotes(data),
        "ladder": ladder,
        "flow": _flows(data),
        "view": market_view(data),
        "edge": (torch.sigmoid(data.alpha.double()) - 0.5).float(),
        "hazard": absent if model is None else model.hazards(data).flatten(),
        "queue_factor": absent if model is None else model.queue_factors(),
        "waiting": waiting_times(),
    }
    filled = ladder[:, LEVELS : 2 * LEVELS] > 0
    compact = not bool((filled[:, 1:] & ~filled[:, :-1]).any())
    return MarketTables(compact=compact, **{k: v.contiguous().to(device) for k, v in tables.items()})


def _check_touch(data: MarketData) -> None:
    touch = data.book[:, 0]
    good = (touch[:, 0] > UNDEFINED_TICKS) & (touch[:, 1] > touch[:, 0]) & (touch[:, 2:] > 0).all(1)
    good &= data.mid2 == touch[:, 0] + touch[:, 1]
    if not bool(good.all()):
        row = int(torch.nonzero(~good)[0])
        raise DataError(
            f"market row {row}: touch (bid, ask, bid size, ask size) was {touch[row].tolist()} and mid2 "
            f"{int(data.mid2[row])}, must be a defined bid below a defined ask with positive sizes and their "
            "sum; keep only good book states"
        )


def _quotes(data: MarketData) -> Tensor:
    book = data.book
    columns = [
        book[:, 0, 0],
        book[:, 0, 1],
        book[:, 1, 0],
        book[:, 1, 1],
        data.mid2,
        book[:, 0, 2],
        book[:, 0, 3],
    ]
    return torch.stack([*columns, torch.zeros_like(data.mid2)], dim=1)


def _ladders(data: MarketData) -> Tensor:
    price, size = data.book[:, :, :2].transpose(1, 2).clone(), data.book[:, :, 2:].transpose(1, 2)
    defined = price > UNDEFINED_TICKS
    price[:, 1] = torch.where(defined[:, 1], -price[:, 1], UNDEFINED_TICKS)
    beyond = torch.where(defined, price, 2**31 - 1).amin(dim=2, keepdim=True) - 1
    unused = beyond.new_zeros(data.rows, 2, LADDER_WIDTH - 2 * LEVELS - 1)
    size = torch.where(defined, size, 0)
    return torch.cat([price, size, beyond, unused], dim=2).flatten(0, 1).int()


def _flows(data: MarketData) -> Tensor:
    tape, touch = data.tape.long(), data.book[:, 0].long()
    sides = []
    for start, near, sign, cancel in ((TAPE_SIDE, touch[:, 0], 1, 20), (0, touch[:, 1], -1, 21)):
        volume = tape[:, start : start + TAPE_OFFSETS]
        beyond = volume.flip(1).cumsum(1).flip(1)
        extreme = tape[:, start + TAPE_OFFSETS]
        reach = torch.where(extreme > UNDEFINED_TICKS, sign * (near - extreme), UNDEFINED_TICKS)
        zero = torch.zeros_like(reach)
        sides.append(torch.stack([*beyond.unbind(1), zero, reach, tape[:, cancel], zero], dim=1))
    return torch.stack(sides, dim=1).clamp(-(2**31), 2**31 - 1).int().flatten()


def market_view(data: MarketData) -> Tensor:
    """The observation's market columns, [R, 10] float32; see `observation.OBSERVATION_NAMES`."""
    zero = torch.zeros(data.rows)
    flow = _recent_flow(data)
    columns = [
        data.alpha.float(),
        (data.book[:, 0, 1] - data.book[:, 0, 0]).float(),
        *(zero, zero, zero),
        (torch.sign(flow) * torch.log1p(flow.abs())).float(),
        data.column("queue_imbalance_1").float(),
        data.column("log_volatility_ema").float(),
        zero,
        data.column("microprice_minus_mid").float(),
    ]
    view = torch.stack(columns, dim=1)
    if not bool(torch.isfinite(view).all()):
        row, column = torch.nonzero(~torch.isfinite(view))[0].tolist()
        raise DataError(
            f"market row {row}: observation column {column} was {float(view[row, column])}, must be finite; "
            "rebuild the cache or drop the row"
        )
    return view


def _recent_flow(data: MarketData) -> Tensor:
    """Order-flow imbalance at level 1 summed over the last OFI_ROWS rows of the segment, [R] float64 lots."""
    flow, segment = data.column("ofi_1").double(), data.segment
    total = flow.clone()
    for back in range(1, OFI_ROWS):
        same = segment[back:] == segment[:-back]
        total[back:] += torch.where(same, flow[:-back], 0.0)
    return total
