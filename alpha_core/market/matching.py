"""The exchange, batched: what the tape gives a resting order, and what an order takes from the book.

Rules, for a resting bid at price P over the interval (row i, row i + 1]; an ask is the mirror image.

* Volume THROUGH is what sell aggressors got below P, volume AT is what they got at P. Both come from the
  tape's volume bins when P is 0..6 ticks below row i's bid. Where bins cannot tell (P above that bid, or 7
  ticks and more below it) the farthest trade proves one lot: at P when it equals P, through P when it lies
  below; a P above row i's bid is also traded through by all binned volume.
* An order never gets more lots than the tape traded there. THROUGH always fills. AT fills by mode: never
  (pessimistic), always (touch), what exceeds the queue ahead (queue), with priority (poisson).
* A book that moves onto the order without a print (row i + 1's ask at or below P) fills it at P, up to the
  size displayed at that ask: whoever posted it would have met our bid. This adverse fill is the same in all
  modes.
* Queue ahead, in lots, begins at the size displayed at P on arrival: 0 at an empty price between visible
  levels, QUEUE_UNKNOWN beyond the tenth level. Each interval it falls by AT and then by the stated share of
  what was cancelled at row i's bid if P is that bid, to 0 when P was traded through, and to the size
  displayed at P on row i + 1 where that is visible. Cancellations therefore help from the next interval on.
* Poisson gives an order priority, for good, in an interval with probability 1 − exp(−λ Δt), at the order's
  level (1 + number of better levels on row i) and queue ahead; beyond level 5 it gains none. With priority it
  fills whenever the tape trades AT its price, in that interval or later.
* Orders that take liquidity walk the displayed sizes from the touch of the row they arrive on. The replayed
  book is never depleted by us. What the ten levels cannot give is not filled; only at the settlement it
  trades one tick beyond the deepest level, so that every episode ends flat.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from alpha_core.market.config import FillMode
from alpha_core.market.fills import FILL_LEVELS, QUEUE_UNKNOWN, UNIFORM_TABLE, queue_bucket
from alpha_core.market.tables import FLOW_WIDTH, LADDER_WIDTH, MarketTables
from alpha_core.rng import Purpose, philox_uniform
from alpha_core.shapes import LEVELS

NO_LIMIT = -(2**40)
"""A signed price that any level reaches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestingOrder:
    """At most one order per environment; all [E] int64.

    Attributes:
        side: +1 bid, −1 ask, 0 none.
        price: ticks; meaningless without an order.
        left: lots still to fill; 0 without an order.
        queue: lots ahead; kept in the queue and poisson modes only.
        level: 1 + number of better displayed levels, at most FILL_LEVELS + 1; kept with the queue.
        priority: 1 once the poisson mode has granted it, else 0.
    """

    side: Tensor
    price: Tensor
    left: Tensor
    queue: Tensor
    level: Tensor
    priority: Tensor

    @classmethod
    def none(cls, like: Tensor) -> "RestingOrder":
        """No order, for each element of an [E] int64 tensor."""
        zero = torch.zeros_like(like)
        return cls(side=zero, price=zero, left=zero, queue=zero, level=zero, priority=zero)


@dataclass(frozen=True, kw_only=True, slots=True)
class Printed:
    """Tape volume that concerns a resting order over one interval; [E] int64 lots."""

    at: Tensor
    through: Tensor
    cancelled: Tensor


def printed(tables: MarketTables, row: Tensor, near: Tensor, order: RestingOrder) -> Printed:
    """Read the interval after `row` for an order; `near` is that row's touch on the order's side."""
    away = (near - order.price) * order.side
    base = (2 * row + (order.side < 0)) * FLOW_WIDTH
    beyond = tables.flow.gather(0, base + away.clamp(0, 8)).long()
    through = tables.flow.gather(0, base + (away + 1).clamp(0, 8)).long()
    reach = tables.flow.gather(0, base + 9).long()
    cancelled = tables.flow.gather(0, base + 10).long()
    at = (beyond - through) * (away < 7)
    return Printed(
        at=torch.maximum(at, (reach == away).long()),
        through=torch.maximum(through, (reach > away).long()),
        cancelled=cancelled * (away == 0),
    )


def with_priority(
    tables: MarketTables, row: Tensor, order: RestingOrder, draw: tuple[int, Tensor, Tensor]
) -> RestingOrder:
    """Let the fitted intensity grant priority over the interval after `row`.

    Args:
        tables: the market, with hazards.
        row: [E] int64.
        order: whose level and queue ahead matter.
        draw: (seed, episode [E], step [E]), the key of the uniforms.
    """
    uniform = philox_uniform(*draw, Purpose.FILL)
    column = 2 * (order.level.clamp(1, FILL_LEVELS) - 1) + (order.side < 0)
    hazard = tables.hazard.gather(0, row * (2 * FILL_LEVELS) + column)
    factor = tables.queue_factor.gather(0, queue_bucket(order.queue))
    waiting = tables.waiting.gather(0, (uniform * UNIFORM_TABLE).long())
    granted = (waiting < hazard * factor) & (order.level <= FILL_LEVELS)
    return replace(order, priority=order.priority | granted)


def passive_lots(order: RestingOrder, tape: Printed, mode: int) -> Tensor:
    """Lots that the tape gives the order, [E] int64."""
    lots = tape.through
    if mode == FillMode.TOUCH:
        lots = lots + tape.at
    elif mode == FillMode.QUEUE:
        lots = lots + (tape.at - order.queue).clamp(min=0)
    elif mode == FillMode.POISSON:
        lots = lots + tape.at * order.priority
    return torch.minimum(lots, order.left)


def met_by_touch(order: RestingOrder, far: Tensor, size: Tensor, left: Tensor) -> Tensor:
    """Lots filled because the opposite touch (`far`, of `size` lots) has moved onto the order, [E] int64."""
    meets = (order.price - far) * order.side >= 0
    return torch.minimum(size, left) * (meets & (order.side != 0))


def queue_after(order: RestingOrder, tape: Printed, share_milli: int) -> Tensor:
    """Queue ahead after the interval's trades and cancellations, [E] int64 lots."""
    cancelled = torch.div(tape.cancelled * share_milli, 1000, rounding_mode="floor")
    queue = (order.queue - tape.at - cancelled).clamp(min=0)
    return queue * (tape.through == 0)


def find_in_ladder(tables: MarketTables, row: Tensor, order: RestingOrder) -> tuple[Tensor, Tensor]:
    """Where an order stands in a row's book.

    Returns:
        [E] int64 lots displayed at its price (QUEUE_UNKNOWN where that is not visible), and [E] int64 level.
    """
    ladder = tables.ladder.index_select(0, 2 * row + (order.side < 0)).t().contiguous()
    price = (order.price * order.side).int()
    displayed = (ladder[LEVELS : 2 * LEVELS] * (ladder[:LEVELS] == price)).sum(0)
    hidden = ladder[LEVELS - 1] > price
    level = 1 + (ladder[:FILL_LEVELS] > price).sum(0)
    return displayed.masked_fill(hidden, QUEUE_UNKNOWN), level


def walk(
    tables: MarketTables,
    row: Tensor,
    *,
    direction: Tensor,
    want: Tensor,
    limit: Tensor | None,
    settle: Tensor,
    depth: int,
) -> tuple[Tensor, Tensor]:
    """Take liquidity from the displayed levels of a row.

    Args:
        tables: the market.
        row: [E] int64.
        direction: [E] int64, +1 buy, −1 sell (0 only where want is 0).
        want: [E] int64 lots.
        limit: [E] int64, worst acceptable signed price of the side taken from, or None for no limits.
        settle: [E] bool, trade what the levels cannot give one tick beyond the deepest.
        depth: levels to look at, enough for the largest want.

    Returns:
        [E] int64 lots taken and [E] int64 proceeds in ticks x lots (negative when buying).
    """
    flat, base = tables.ladder.flatten(), (2 * row + (direction > 0)) * LADDER_WIDTH
    left, proceeds = want, torch.zeros_like(want)
    for level in range(depth):
        price = flat.gather(0, base + level).long()
        take = torch.minimum(flat.gather(0, base + LEVELS + level), left)
        if limit is not None:
            take = take * (price >= limit)
        proceeds = proceeds + take * price
        left = left - take
    forced = left * settle
    beyond = flat.gather(0, base + 2 * LEVELS).long()
    return want - left + forced, proceeds + forced * beyond
