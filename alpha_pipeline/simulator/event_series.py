"""A simulated day by event, from the records alone but for the latent signal."""

from dataclasses import dataclass

import numpy as np

from alpha_pipeline.ingest.records import UNDEF_PRICE, Flag
from alpha_pipeline.simulator.days import SimulatedDay

SECOND = 10**9


@dataclass(frozen=True, kw_only=True)
class EventSeries:
    """Trading without a break, by event.

    Attributes:
        time_ns: [events] int64, UTC time of the event.
        mid2: [events] int64, bid + ask in ticks, after the event.
        spread: [events] int64 ticks.
        imbalance: [events] float64, (bid size - ask size) / sum at the touch.
        signed_volume: [events] float64 lots, bought minus sold by market orders.
        trade_sign: [trades] float64, +1 or -1 per event with trades, in order.
        ofi: [events] float64, order-flow imbalance of the touch (Cont, Kukanov, Stoikov 2014).
        signal: [events] float64, the latent signal.
        depth: [10] float64, mean size by level, both sides.
    """

    time_ns: np.ndarray
    mid2: np.ndarray
    spread: np.ndarray
    imbalance: np.ndarray
    signed_volume: np.ndarray
    trade_sign: np.ndarray
    ofi: np.ndarray
    signal: np.ndarray
    depth: np.ndarray


def stretches(day: SimulatedDay) -> list[SimulatedDay]:
    """The parts of a day between halts: runs of events after which the book is two-sided and not crossed."""
    records = day.records
    ends = _ends(records)
    starts = np.concatenate(([0], ends[:-1] + 1))
    touch = records["levels"][ends][:, 0]
    bid, ask = touch["bid_px"], touch["ask_px"]
    tradable = (bid != UNDEF_PRICE) & (ask != UNDEF_PRICE) & (bid < ask)
    turns = np.flatnonzero(np.diff(np.concatenate(([False], tradable, [False])).astype(np.int8)))
    return [
        SimulatedDay(records=records[starts[first] : ends[past - 1] + 1], truth=day.truth[first:past])
        for first, past in turns.reshape(-1, 2)
    ]


def event_series(day: SimulatedDay, tick_nanos: int) -> EventSeries:
    """Reduce the records of one stretch to one row per event.

    Args:
        day: a stretch, or a day without halts.
        tick_nanos: price increment in units of 1e-9.
    """
    records = day.records
    ends = _ends(records)
    levels = records["levels"][ends]
    bid, ask = levels["bid_px"][:, 0] // tick_nanos, levels["ask_px"][:, 0] // tick_nanos
    bid_lots, ask_lots = (levels[k][:, 0].astype(np.float64) for k in ("bid_sz", "ask_sz"))
    aggressor = (records["side"] == b"B").astype(np.float64) - (records["side"] == b"A")
    starts = np.concatenate(([0], ends[:-1] + 1))
    signed = np.add.reduceat(aggressor * (records["action"] == b"T") * records["size"], starts)
    return EventSeries(
        time_ns=records["ts_event"][ends].astype(np.int64),
        mid2=bid + ask,
        spread=ask - bid,
        imbalance=(bid_lots - ask_lots) / (bid_lots + ask_lots),
        signed_volume=signed,
        trade_sign=np.sign(signed[signed != 0]),
        ofi=order_flow_imbalance(bid, ask, bid_lots, ask_lots),
        signal=day.truth.astype(np.float64),
        depth=0.5 * (levels["bid_sz"].mean(axis=0) + levels["ask_sz"].mean(axis=0)),
    )


def _ends(records: np.ndarray) -> np.ndarray:
    """Rows that end an event, [events] int64."""
    return np.flatnonzero(records["flags"] & np.uint8(Flag.LAST))


def order_flow_imbalance(
    bid: np.ndarray, ask: np.ndarray, bid_lots: np.ndarray, ask_lots: np.ndarray
) -> np.ndarray:
    """e_n of Cont, Kukanov, Stoikov (2014), [events] float64; 0 for the first event."""
    bid_step, ask_step = np.diff(bid), np.diff(ask)
    demand = np.where(bid_step >= 0, bid_lots[1:], 0.0) - np.where(bid_step <= 0, bid_lots[:-1], 0.0)
    supply = np.where(ask_step <= 0, ask_lots[1:], 0.0) - np.where(ask_step >= 0, ask_lots[:-1], 0.0)
    return np.concatenate(([0.0], demand - supply))


def change(mid2: np.ndarray, horizon: int) -> np.ndarray:
    """Change of the mid over `horizon` events in ticks, [events - horizon] float64."""
    return 0.5 * (mid2[horizon:] - mid2[:-horizon])
