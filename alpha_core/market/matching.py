"""The exchange, batched: what the tape gives a resting order, and what an order takes from the book.

Rules, for a resting bid at price P over the interval (row i, row i + 1]; an ask is the mirror image.

* Volume THROUGH is what sell aggressors got below P, volume AT is what they got at P. Both come from the
  tape's volume bins when P is 0..6 ticks below row i's bid. Where bins cannot tell (P above that bid, or 7
  ticks and more below it) the farthest trade proves one lot: at P when it equals P, through P when it lies
  below; a P above row i's bid is also traded through by all binned volume.
* An order never gets more lots than the tape traded there. THROUGH always fills. AT fills by mode: never
  (pessimistic), always (touch), what exceeds the queue ahead (queue), if priority is drawn (poisson).
* A book that moves onto the order without a print (row i + 1's ask at or below P) fills it at P, up to the
  size displayed at that ask: whoever posted it would have met our bid. This adverse fill is the same in all
  modes.
* Queue ahead, in lots, begins at the size displayed at P on arrival: 0 at an empty price between visible
  levels, QUEUE_UNKNOWN beyond the tenth level. Each interval it falls by AT and then by the stated share of
  what was cancelled at row i's bid if P is that bid, to 0 when P was traded through, and to the size
  displayed at P on row i + 1 where that is visible. Cancellations therefore help from the next interval on.
* Poisson draws one uniform per interval and compares it with 1 − exp(−λ Δt) of that interval, at the
  order's level (1 + number of better levels on row i) and queue ahead; orders beyond level 5 fill only when
  traded through.
* Orders that take liquidity walk the displayed sizes from the touch of the row they arrive on. The replayed
  book is never depleted by us. What the ten levels cannot give is not filled; only at the settlement it
  trades one tick beyond the deepest level, so that every episode ends flat.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from alpha_core.market.config import FillMode
from alpha_core.market.fills import FILL_LEVELS, QUEUE_TABLE, UNIFORM_TABLE
from alpha_core.market.tables import FLOW_WIDTH, LADDER_WIDTH, MarketTables
from alpha_core.rng import Purpose, philox_uniform
from alpha_core.shapes import LEVELS

QUEUE_UNKNOWN = 2**30
"""Queue ahead of an order beyond the tenth level: only a trade through its price fills it."""

NO_LIMIT = -(2**40)


@dataclass(frozen=True, kw_only=True, slots=True)
class RestingOrder:
    """At most one order per environment; all [E] int64.

    Attributes:
        side: +1 bid, −1 ask, 0 none.
        price: ticks; meaningless without an order.
        left: lots still to fill; 0 without an order.
        queue: lots ahead; kept in the queue and poisson modes only.
        level: 1 + number of better displayed levels, at most FILL_LEVELS + 1; kept with the queue.
    """

    side: Tensor
    price: Tensor
    left: Tensor
    queue: Tensor
    level: Tensor

    @classmethod
    def none(cls, like: Tensor) -> "RestingOrder":
        """No order, for each element of an [E] int64 tensor."""
        zero = torch.zeros_like(like)
        return cls(side=zero, price=zero, left=zero, queue=zero, level=zero)


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
        cancelled=torch.where(away == 0, cancelled, 0),
    )


def priority(tables: MarketTables, row: Tensor, order: RestingOrder, uniform: Tensor) -> Tensor:
    """Whether the fitted intensity grants priority over the interval after `row`, [E] bool."""
    column = 2 * (order.level.clamp(1, FILL_LEVELS) - 1) + (order.side < 0)
    hazard = tables.hazard.gather(0, row * (2 * FILL_LEVELS) + column)
    factor = tables.queue_factor.gather(0, order.queue.clamp(max=QUEUE_TABLE))
    waiting = tables.waiting.gather(0, (uniform * UNIFORM_TABLE).long())
    return (waiting < hazard * factor) & (order.level <= FILL_LEVELS)


def passive_lots(
    tables: MarketTables,
    row: Tensor,
    order: RestingOrder,
    tape: Printed,
    *,
    mode: int,
    draw: tuple[int, Tensor, Tensor],
) -> Tensor:
    """Lots that the tape gives the order, [E] int64; `draw` is (seed, episode, step) of the poisson mode."""
    lots = tape.through
    if mode == FillMode.TOUCH:
        lots = lots + tape.at
    elif mode == FillMode.QUEUE:
        lots = lots + (tape.at - order.queue).clamp(min=0)
    elif mode == FillMode.POISSON:
        uniform = philox_uniform(draw[0], draw[1], draw[2], Purpose.FILL)
        lots = lots + tape.at * priority(tables, row, order, uniform)
    return torch.minimum(lots, order.left)


def queue_after(order: RestingOrder, tape: Printed, share_milli: int) -> Tensor:
    """Queue ahead after the interval's trades and cancellations, [E] int64 lots."""
    cancelled = torch.div(tape.cancelled * share_milli, 1000, rounding_mode="floor")
    queue = (order.queue - tape.at - cancelled).clamp(min=0)
    return queue * (tape.through == 0)


def find_in_ladder(tables: MarketTables, row: Tensor, order: RestingOrder) -> tuple[Tensor, Tensor]:
    """Where an order stands in a row's book.

    Returns:
        [E] int64 lots displayed at its price (QUEUE_UNKNOWN where the price is not visible), and [E] int64
        level.
    """
    ladder = tables.ladder.index_select(0, 2 * row + (order.side < 0)).t().contiguous()
    price = (order.price * order.side).int()
    displayed = torch.where(ladder[:LEVELS] == price, ladder[LEVELS : 2 * LEVELS], 0).sum(0)
    visible = ladder[LEVELS - 1] <= price
    level = 1 + (ladder[:FILL_LEVELS] > price).sum(0)
    return torch.where(visible, displayed, QUEUE_UNKNOWN), level


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
