"""The features, labels and tape again, event by event in plain Python, from the definitions alone.

Shares no code with the product and keeps all history, so that nothing depends on carried state.
"""

import math
from itertools import groupby, pairwise

LEVELS = 10
HORIZONS = (30, 100, 300, 1000, 6000)
PERIODS = (60.0, 6.0, 0.6, 0.06)
NONE = -(2**31)


def good_events(events):
    """Good events by segment, each with the trades of the bad events before it."""
    stretches = []
    for _, group in groupby(events, key=lambda e: e["segment"]):
        waiting, good = [], []
        for e in group:
            waiting += e["trades"]
            if e["state"] == 0:
                good.append({**e, "trades": waiting})
                waiting = []
        if good:
            stretches.append(good)
    return stretches


def picks(stretch, sampler):
    """Positions of rows among a segment's good events."""
    kind, value = sampler
    if kind == "every_event":
        return list(range(0, len(stretch), value))
    if kind == "imbalance":
        return imbalance_picks(stretch, value)
    if kind in AMOUNT:
        chosen, filled = [0], 0
        for j in range(1, len(stretch)):
            filled += sum(AMOUNT[kind](*t) for t in stretch[j]["trades"])
            if filled >= value:
                chosen.append(j)
                filled = 0
        return chosen
    cells = [e["ts"] // (value * 1_000_000) for e in stretch]
    return [j for j in range(len(stretch)) if j == 0 or cells[j] != cells[j - 1]]


AMOUNT = {
    "tick": lambda price, size, side: 1,
    "volume": lambda price, size, side: size,
    "dollar": lambda price, size, side: abs(price) * size,
}


def imbalance_picks(stretch, rule):
    """Closing events of a segment's bars; `bars` holds (trades, mean flow) of those closed so far."""
    chosen, inside, bars = [0], [], []
    for j in range(1, len(stretch)):
        new = [t[2] * AMOUNT[rule.flow](*t) for t in stretch[j]["trades"]]
        inside += new
        if new and bar_is_full(inside, rule, bars):
            chosen.append(j)
            bars.append((len(inside), sum(inside) / len(inside)))
            inside = []
    return chosen


def bar_is_full(inside, rule, bars):
    if not bars:
        return len(inside) >= rule.expected_trades
    length = min(max(ema([b[0] for b in bars], rule.half_life_bars), rule.min_trades), rule.max_trades)
    mean = ema([b[1] for b in bars], rule.half_life_bars)
    enough = len(inside) >= rule.min_trades and abs(sum(inside)) >= length * abs(mean)
    return enough or len(inside) >= rule.max_trades


def mid(e):
    return (e["bid_px"][0] + e["ask_px"][0]) / 2


def contrast(x, y):
    return (x - y) / (x + y) if x + y else 0.0


def ofi(now, old, level):
    """Cont, Kukanov, Stoikov at one level; an absent quote has size 0 and lies beyond every price."""

    def quote(e, side, infinity):
        price = e[f"{side}_px"][level]
        return (infinity, 0) if price is None else (price, e[f"{side}_sz"][level])

    (b, B), (b0, B0) = quote(now, "bid", -math.inf), quote(old, "bid", -math.inf)
    (a, A), (a0, A0) = quote(now, "ask", math.inf), quote(old, "ask", math.inf)
    return (b >= b0) * B - (b <= b0) * B0 - (a <= a0) * A + (a >= a0) * A0


def shape_features(e):
    m = mid(e)
    bids = [(p, s, c) for p, s, c in zip(e["bid_px"], e["bid_sz"], e["bid_ct"], strict=True) if p is not None]
    asks = [(p, s, c) for p, s, c in zip(e["ask_px"], e["ask_sz"], e["ask_ct"], strict=True) if p is not None]
    (b, B, _), (a, A, _) = bids[0], asks[0]
    micro = (a * B + b * A) / (A + B) if A + B else m
    depth = [sum(s for _, s, _ in side) for side in (bids, asks)]
    count = [sum(c for _, _, c in side) for side in (bids, asks)]
    distance = [
        sum(s * abs(p - m) for p, s, _ in side) / d if d else 0.0
        for side, d in zip((bids, asks), depth, strict=True)
    ]
    mean = [d / c if c else None for d, c in zip(depth, count, strict=True)]
    return [
        a - b,
        micro - m,
        *(
            contrast(
                e["bid_sz"][k] if e["bid_px"][k] is not None else 0,
                e["ask_sz"][k] if e["ask_px"][k] is not None else 0,
            )
            for k in range(5)
        ),
        contrast(*depth),
        math.log(1 + sum(depth)),
        contrast(distance[1], distance[0]),
        0.0 if None in mean else contrast(*mean),
    ]


def flow_features(stretch, previous, j):
    """Flows over (previous, j] of one segment's good events."""
    if previous is None:
        return [0] * 8, 0
    per_level = [
        sum(ofi(stretch[k], stretch[k - 1], level) for k in range(previous + 1, j + 1))
        for level in range(LEVELS)
    ]
    trades = [t for k in range(previous + 1, j + 1) for t in stretch[k]["trades"]]
    signed = sum(size * side for _, size, side in trades)
    count = sum(side for _, _, side in trades)
    return [*per_level[:5], sum(per_level[5:]), signed, count], len(trades)


def ema(values, half_life):
    """First value seeds."""
    alpha = 1 - 2 ** (-1 / half_life)
    y = values[0]
    for x in values[1:]:
        y += alpha * (x - y)
    return y


def dynamics_features(mids, seconds, trades, config):
    """From the histories of a segment's rows up to and with the present one."""
    change = mids[-1] - mids[-2] if len(mids) > 1 else 0.0
    variance = rate = 0.0
    if len(mids) > 1:
        variance = ema([(y - x) ** 2 for x, y in pairwise(mids)], config.volatility_half_life_rows)
        half = config.intensity_half_life_rows
        rate = ema(trades[1:], half) / max(ema(seconds[1:], half), 1e-6)
    return [
        change,
        mids[-1] - mids[max(len(mids) - 11, 0)],
        0.5 * math.log(variance + config.volatility_floor_ticks**2),
        math.log(rate + config.intensity_floor_per_second),
        math.log1p(seconds[-1]),
    ]


def time_features(seconds):
    return [wave(2 * math.pi * seconds / period) for period in PERIODS for wave in (math.sin, math.cos)]


def rows(events, sampler, config):
    """Every row of the day as a dict."""
    out, base = [], 0
    for stretch in good_events(events):
        chosen = picks(stretch, sampler)
        mids, seconds, trades, old = [], [], [], [0] * 8
        for r, j in enumerate(chosen):
            previous = chosen[r - 1] if r else None
            now = stretch[j]
            flows, count = flow_features(stretch, previous, j)
            ns = now["ts"] - stretch[previous]["ts"] if r else 0
            mids.append(mid(now))
            seconds.append(ns / 1e9)
            trades.append(count)
            inside = [t for k in range(previous + 1, j + 1) for t in stretch[k]["trades"]] if r else []
            before = [t for k in range(j + 1) for t in stretch[k]["trades"]]
            ahead = {h: mid(stretch[j + h]) if j + h < len(stretch) else None for h in HORIZONS}
            features = [
                *shape_features(now),
                *flows,
                *(x - y if r else 0 for x, y in zip(flows, old, strict=True)),
                *dynamics_features(mids, seconds, trades, config),
                *time_features(ns / 1e9),
            ]
            out.append(
                {
                    "ts": now["ts"],
                    "segment": now["segment"],
                    "event_index": base + j,
                    "features": features,
                    "mid2": round(2 * mid(now)),
                    "mid_open": round(2 * (mids[-2] if r else mids[-1])),
                    "duration_ns": ns,
                    "raw_open": inside[0][0] if inside else None,
                    "high": max((p for p, *_ in inside), default=None),
                    "low": min((p for p, *_ in inside), default=None),
                    "volume": sum(size for _, size, _ in inside),
                    "notional": sum(p * size for p, size, _ in inside),
                    "trades": len(inside),
                    "signed_volume": sum(side * size for _, size, side in inside),
                    "last_trade": before[-1][0] if before else None,
                    "labels": [None if m is None else round(2 * (m - mid(now))) for m in ahead.values()],
                    "tape": tape(stretch, chosen, r),
                }
            )
            old = flows
        base += len(stretch)
    return out


def displayed(e, side, price):
    """Size at a price, None where the ten levels do not reach."""
    prices = e[f"{side}_px"]
    if price in prices:
        return e[f"{side}_sz"][prices.index(price)]
    worst = prices[-1]
    better = worst is None or (price > worst if side == "bid" else price < worst)
    return 0 if better else None


def unanswered(stretch, side, price, start, j):
    """Traded size at a price, over events start + 1 .. j, that no change of displayed size answered."""
    total = 0
    for k in range(start + 1, j + 1):
        total += traded(stretch[k], side, price)
        if displayed(stretch[k], side, price) != displayed(stretch[k - 1], side, price):
            total = 0
    return total


def traded(e, side, price):
    """Size of the trades at a price that can have taken from that side."""
    same_side = 1 if side == "bid" else -1
    return sum(size for p, size, aggressor in e["trades"] if p == price and aggressor != same_side)


def cancels(stretch, chosen, r, side):
    """Cancelled size at the touch price of row r until row r + 1, by the rule of the tape's docstring."""
    price = stretch[chosen[r]][f"{side}_px"][0]
    start = r
    while start and stretch[chosen[start - 1]][f"{side}_px"][0] == price:
        start -= 1
    total = 0
    for k in range(chosen[r] + 1, chosen[r + 1] + 1):
        before, now = displayed(stretch[k - 1], side, price), displayed(stretch[k], side, price)
        if before is not None and now is not None and now < before:
            explained = unanswered(stretch, side, price, chosen[start], k - 1)
            explained += traded(stretch[k], side, price)
            total += max(before - now - explained, 0)
    return total


def tape(stretch, chosen, r):
    """The 22 numbers of the interval (row r, row r + 1]."""
    out = [0] * 22
    out[8] = out[18] = NONE
    if r + 1 == len(chosen):
        return out
    now = stretch[chosen[r]]
    trades = [t for k in range(chosen[r] + 1, chosen[r + 1] + 1) for t in stretch[k]["trades"]]
    for side, base, touch in ((1, 0, now["ask_px"][0]), (-1, 10, now["bid_px"][0])):
        mine = [(p, s) for p, s, aggressor in trades if aggressor == side]
        for p, s in mine:
            offset = side * (p - touch)
            if offset >= 0:
                out[base + min(offset, 7)] += s
        if mine:
            out[base + 8] = side * max(side * p for p, _ in mine)
            out[base + 9] = len(mine)
    out[20], out[21] = cancels(stretch, chosen, r, "bid"), cancels(stretch, chosen, r, "ask")
    return out
