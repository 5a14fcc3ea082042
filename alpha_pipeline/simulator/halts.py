"""Rare halts, laid into a finished day: the book is cleared, nothing comes for a while, an auction gathers orders,
one price clears it, and trading goes on with the book of before.

A halt does not know what the market will do, and the market does not know of the halt: the mid on either side is the
same, so that a market without alpha stays one. Before the uncrossing every book is one-sided, locked or crossed: none
can be traded in, and none should be decided on.
"""

from dataclasses import dataclass

import numpy as np

from alpha_pipeline.ingest.records import UNDEF_PRICE, Flag
from alpha_pipeline.simulator.config import SimulatorConfig

SECOND = 10**9
QUIET_SHARE = (0.1, 0.9)
"""Halts begin in this part of a day's events, so that trading lies on either side."""

GATHERING_SECONDS = 60
AUCTION_EVENTS = (6, 20)
PRINTS = (1, 4)


@dataclass(frozen=True, kw_only=True)
class HaltedDay:
    """A day with its halts.

    Attributes:
        records: [N'] MBP10_DTYPE, sequence numbers anew.
        truth: [events'] the latent signal, which stands still in a halt.
        halts: number of halts.
    """

    records: np.ndarray
    truth: np.ndarray
    halts: int


def with_halts(
    records: np.ndarray, truth: np.ndarray, config: SimulatorConfig, tick_nanos: int, rng: np.random.Generator
) -> HaltedDay:
    """Lay halts into a day, `config.halts_per_day` of them on average.

    Args:
        records: [N] MBP10_DTYPE of one uninterrupted session.
        truth: [events] float32.
        config: number and length of halts.
        tick_nanos: price increment in units of 1e-9.
        rng: a stream of its own, so that trading is the same with and without halts.
    """
    ends = np.flatnonzero(records["flags"] & np.uint8(Flag.LAST))
    low, high = (int(share * len(ends)) for share in QUIET_SHARE)
    count = min(int(rng.poisson(config.halts_per_day)), max(0, high - low))
    events = np.sort(rng.choice(np.arange(low, high), size=count, replace=False)) if count else []
    parts, signal, begin, shift = [], [], 0, np.uint64(0)
    since = 0
    for event in events:
        end = int(ends[event]) + 1
        parts.append(_later(records[begin:end], shift))
        pause = round(config.halt_seconds * float(rng.uniform(0.5, 1.5)) * SECOND)
        halt = _halt(parts[-1][-1:], pause, tick_nanos, rng)
        parts.append(halt)
        added = int(np.count_nonzero(halt["flags"] & np.uint8(Flag.LAST)))
        signal += [truth[since : event + 1], np.full(added, truth[event], truth.dtype)]
        begin, since, shift = end, int(event) + 1, shift + np.uint64(pause)
    parts.append(_later(records[begin:], shift))
    whole = np.concatenate(parts)
    whole["sequence"] = np.arange(1, len(whole) + 1)
    return HaltedDay(records=whole, truth=np.concatenate([*signal, truth[since:]]), halts=count)


def _later(records: np.ndarray, nanoseconds: np.uint64) -> np.ndarray:
    moved = records.copy()
    for name in ("ts_event", "ts_recv"):
        moved[name] += nanoseconds
    return moved


def _halt(before: np.ndarray, pause: int, tick_nanos: int, rng: np.random.Generator) -> np.ndarray:
    """The records of one halt after the event that ended with `before` [1]; the last one shows its book again."""
    gathering = int(rng.integers(*AUCTION_EVENTS))
    prints = int(rng.integers(*PRINTS))
    rows = np.repeat(before, 1 + gathering + prints + 1)
    rows["flags"] = np.uint8(Flag.LAST)
    _clear(rows[:1])
    middle = rows[1 : 1 + gathering]
    _gather(middle, tick_nanos, rng)
    _uncross(rows[1 + gathering :], middle[-1], rng)
    opening = pause - min(GATHERING_SECONDS * SECOND, pause // 2)
    steps = np.sort(rng.integers(opening, pause - 1000, gathering))
    offsets = np.concatenate([[1000], steps, np.full(prints + 1, pause - 500)]).astype(np.uint64)
    rows["ts_event"] += offsets
    rows["ts_recv"] += offsets
    return rows


def _clear(rows: np.ndarray) -> None:
    rows["action"], rows["side"], rows["price"], rows["size"], rows["depth"] = b"R", b"N", UNDEF_PRICE, 0, 0
    _hide(rows["levels"], np.arange(rows["levels"].shape[1]), ("bid", "ask"))


def _hide(levels: np.ndarray, which: np.ndarray, sides: tuple[str, ...]) -> None:
    for side in sides:
        levels[f"{side}_px"][:, which] = UNDEF_PRICE
        for name in ("sz", "ct"):
            levels[f"{side}_{name}"][:, which] = 0


def _gather(rows: np.ndarray, tick_nanos: int, rng: np.random.Generator) -> None:
    """Orders of an auction: the first third shows one side alone, then both, locked or crossed."""
    side = np.where(rng.random(len(rows)) < 0.5, b"B", b"A")
    first = b"B" if side[0] == b"B" else b"A"
    one_sided = max(1, len(rows) // 3)
    side[:one_sided] = first
    through = rng.integers(1, 5, len(rows)) * tick_nanos  # the spread of before was at least a tick
    rows["levels"]["bid_px"] += through[:, None]
    rows["levels"]["ask_px"] -= np.int64(tick_nanos)
    shown = np.minimum(1 + np.arange(len(rows)), rows["levels"].shape[1])
    for k, levels in enumerate(shown):
        _hide(rows["levels"][k : k + 1], np.arange(levels, rows["levels"].shape[1]), ("bid", "ask"))
    _hide(
        rows["levels"][:one_sided],
        np.arange(rows["levels"].shape[1]),
        ("ask",) if first == b"B" else ("bid",),
    )
    rows["action"], rows["side"], rows["depth"] = b"A", side, 0
    touch = np.where(side == b"B", rows["levels"]["bid_px"][:, 0], rows["levels"]["ask_px"][:, 0])
    rows["price"], rows["size"] = touch, rng.integers(1, 30, len(rows))


def _uncross(rows: np.ndarray, crossed: np.void, rng: np.random.Generator) -> None:
    """Trades without aggressor at one price, over the crossed book; then the book of before, in the same event."""
    prints, last = rows[:-1], rows[-1:]
    prints["levels"] = crossed["levels"]
    prints["action"], prints["side"], prints["flags"], prints["depth"] = b"T", b"N", 0, 0
    prints["price"], prints["size"] = crossed["levels"]["ask_px"][0], rng.integers(1, 50, len(prints))
    last["action"], last["side"], last["price"], last["size"], last["depth"] = b"M", b"N", UNDEF_PRICE, 0, 0
