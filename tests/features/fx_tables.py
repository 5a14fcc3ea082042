"""Small random markets as canonical tables, with every awkward case that the columns allow.

A market is a list of plain dicts, one an event, so that the oracle, and tests that cut, corrupt or repeat
events, need no arrays.
"""

import copy

import numpy as np
import pyarrow as pa

LEVELS = 10
TIMESTAMP = pa.timestamp("ns", tz="UTC")
START = 1_748_908_801_024_200_193
GOOD, ONE_SIDED, LOCKED, CROSSED = range(4)


def book(bids, asks):
    """A book of (price, size, count) levels, best first; what is not given is absent."""

    def side(levels, part):
        return [level[part] for level in levels] + [None if part == 0 else 0] * (LEVELS - len(levels))

    return {
        f"{name}_{kind}": side(levels, part)
        for name, levels in (("bid", bids), ("ask", asks))
        for part, kind in enumerate(("px", "sz", "ct"))
    }


def event(shape, ts, segment=0, state=GOOD, trades=()):
    """One event; trades are (price, size, aggressor)."""
    return {**copy.deepcopy(shape), "ts": ts, "segment": segment, "state": state, "trades": list(trades)}


def ladder(mid, spread=1, sizes=(10,) * LEVELS, depth=LEVELS, counts=2):
    """A regular book whose best bid is `mid`."""
    bids = [(mid - k, sizes[k], counts) for k in range(depth)]
    asks = [(mid + spread + k, sizes[-1 - k], counts) for k in range(depth)]
    return book(bids, asks)


def snapshot_table(events):
    """The canonical snapshot table."""
    ts = pa.array([e["ts"] for e in events], pa.int64())
    columns = {
        "ts_event": pa.array([e["ts"] - 150 for e in events], pa.int64()).cast(TIMESTAMP),
        "ts_recv": ts.cast(TIMESTAMP),
        "sequence": pa.array(range(len(events)), pa.uint32()),
        "instrument_id": pa.array([7] * len(events), pa.uint32()),
        "action": pa.array(["M"] * len(events)),
        "side": pa.array(["N"] * len(events)),
        "price": pa.array([None] * len(events), pa.int64()),
        "size": pa.array([0] * len(events), pa.uint32()),
    }
    for kind, type_ in (("px", pa.int64()), ("sz", pa.uint32()), ("ct", pa.uint32())):
        for side in ("bid", "ask"):
            for level in range(LEVELS):
                values = [e[f"{side}_{kind}"][level] for e in events]
                columns[f"{side}_{kind}_{level:02d}"] = pa.array(values, type_)
    columns["flags"] = pa.array([128] * len(events), pa.uint8())
    columns["book_state"] = pa.array([e["state"] for e in events], pa.uint8())
    columns["segment"] = pa.array([e["segment"] for e in events], pa.int32())
    return pa.table(columns)


def trade_table(events):
    """The canonical trade table."""
    rows = [(index, *trade, e) for index, e in enumerate(events) for trade in e["trades"]]
    return pa.table(
        {
            "ts_event": pa.array([e["ts"] - 150 for *_, e in rows], pa.int64()).cast(TIMESTAMP),
            "ts_recv": pa.array([e["ts"] for *_, e in rows], pa.int64()).cast(TIMESTAMP),
            "price": pa.array([price for _, price, *_ in rows], pa.int64()),
            "size": pa.array([size for _, _, size, *_ in rows], pa.uint32()),
            "aggressor": pa.array([aggressor for *_, aggressor, _ in rows], pa.int8()),
            "bid_px": pa.array([e["bid_px"][0] for *_, e in rows], pa.int64()),
            "ask_px": pa.array([e["ask_px"][0] for *_, e in rows], pa.int64()),
            "sequence": pa.array([index for index, *_ in rows], pa.uint32()),
            "snapshot_row": pa.array([index for index, *_ in rows], pa.int64()),
        }
    )


def tables(events):
    """Both tables."""
    return snapshot_table(events), trade_table(events)


def random_market(seed, n, *, mid=5, segments=3, bad=0.08, thin=0.2):
    """A walk around mid 0 with thin books, gaps between levels, bad states, equal times and busy trades."""
    g = np.random.default_rng(seed)
    cuts = sorted(g.choice(np.arange(1, n), segments - 1, replace=False).tolist()) if segments > 1 else []
    events, ts, side_gap = [], START, None
    for j in range(n):
        segment = sum(j >= c for c in cuts)
        ts += int(
            g.choice(
                [0, 1, 40_000, 3_000_000, 250_000_000, 7_000_000_000], p=[0.2, 0.1, 0.3, 0.3, 0.09, 0.01]
            )
        )
        if g.random() < 0.3 or side_gap is None:
            mid += int(g.integers(-2, 3))
            spread = int(g.choice([1, 1, 1, 2, 3]))
            side_gap = (
                np.cumsum(g.choice([1, 1, 2], LEVELS)),
                np.cumsum(g.choice([1, 1, 2], LEVELS)),
                int(g.integers(2, LEVELS)) if g.random() < thin else LEVELS,
            )
        bid_steps, ask_steps, depth = side_gap
        shape = book(
            [(mid - int(s) + 1, int(g.integers(1, 60)), int(g.integers(1, 9))) for s in bid_steps[:depth]],
            [
                (mid + spread + int(s) - 1, int(g.integers(1, 60)), int(g.integers(1, 9)))
                for s in ask_steps[:depth]
            ],
        )
        state = GOOD
        if g.random() < bad:
            state = int(g.integers(1, 4))
            _spoil(shape, state)
        trades = [_trade(g, mid, spread) for _ in range(int(g.choice([0, 1, 3], p=[0.5, 0.3, 0.2])))]
        events.append(event(shape, ts, segment, state, trades))
    return events


def _trade(g, mid, spread):
    aggressor = int(g.choice([-1, 0, 1], p=[0.45, 0.1, 0.45]))
    touch = mid + spread if aggressor > 0 else mid
    price = touch if g.random() < 0.4 else mid + int(g.integers(-9, 11))
    return price, int(g.integers(1, 8)), aggressor


def _spoil(shape, state):
    if state == ONE_SIDED:
        shape["bid_px"] = [None] * LEVELS
        shape["bid_sz"] = shape["bid_ct"] = [0] * LEVELS
    else:
        shift = shape["ask_px"][0] - shape["bid_px"][0] + (1 if state == CROSSED else 0)
        shape["bid_px"] = [None if p is None else p + shift for p in shape["bid_px"]]
