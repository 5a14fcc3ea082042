"""Random and hand-made markets for tests of the environment and of the fill model."""

import numpy as np
import torch

from alpha_core.market.data import TAPE_OFFSETS, TAPE_SIDE, TAPE_WIDTH, MarketData
from alpha_core.market.fills import FILL_COVARIATES, FILL_LEVELS, FillModel
from alpha_core.shapes import FEATURES, LEVELS, UNDEFINED_TICKS

USED = (
    "spread",
    "microprice_minus_mid",
    "queue_imbalance_1",
    "ofi_1",
    "log_volatility_ema",
    "log_intensity_ema",
)
NAMES = (*USED, *(f"other_{i}" for i in range(FEATURES - len(USED))))


def market_from_book(book, tape, *, segment=None, alpha=None, ofi=None, seconds=0.5, seed=0) -> MarketData:
    """MarketData around given [R, 10, 4] book and [R, 22] tape arrays; features follow from the touch."""
    book, tape = np.asarray(book, np.int64), np.asarray(tape, np.int64)
    rows = len(book)
    rng = np.random.default_rng(seed)
    bid, ask, bid_size, ask_size = (book[:, 0, i] for i in range(4))
    features = np.zeros((rows, FEATURES), np.float32)
    total = bid_size + ask_size
    features[:, 0] = ask - bid
    features[:, 1] = (bid * ask_size + ask * bid_size) / total - (bid + ask) / 2
    features[:, 2] = (bid_size - ask_size) / total
    features[:, 3] = rng.integers(-20, 21, rows) if ofi is None else ofi
    features[:, 4:6] = rng.normal(size=(rows, 2))
    segment = np.zeros(rows, np.int32) if segment is None else np.asarray(segment, np.int32)
    gaps = np.full(rows, seconds) if np.isscalar(seconds) else np.asarray(seconds)
    gaps = np.where(np.append(np.diff(segment) != 0, True), 0.0, gaps)
    return MarketData(
        mid2=torch.from_numpy((bid + ask).astype(np.int32)),
        book=torch.from_numpy(book.astype(np.int32)),
        tape=torch.from_numpy(tape.astype(np.int32)),
        segment=torch.from_numpy(segment),
        day=torch.zeros(rows, dtype=torch.int32),
        seconds=torch.from_numpy(gaps.astype(np.float32)),
        second_of_day=torch.from_numpy(np.linspace(30_000, 60_000, rows).astype(np.float32)),
        features=torch.from_numpy(features),
        feature_names=NAMES,
        alpha=torch.zeros(rows) if alpha is None else torch.as_tensor(alpha, dtype=torch.float32),
    )


def flat_market(rows, *, bid=100, ask=101, size=10, levels=LEVELS, **kwargs) -> MarketData:
    """The same book on each row, levels one tick apart, and an empty tape."""
    return market_from_book(
        np.stack([ladder(bid, ask, size, levels)] * rows), np.stack([quiet()] * rows), **kwargs
    )


def ladder(bid, ask, size=10, levels=LEVELS) -> np.ndarray:
    """[10, 4] levels one tick apart; levels beyond `levels` are absent."""
    book = np.tile(np.array([UNDEFINED_TICKS, UNDEFINED_TICKS, 0, 0]), (LEVELS, 1))
    for level in range(levels):
        book[level] = (bid - level, ask + level, size, size)
    return book


def quiet() -> np.ndarray:
    """A tape row without trades."""
    tape = np.zeros(TAPE_WIDTH, np.int64)
    tape[TAPE_OFFSETS] = tape[TAPE_SIDE + TAPE_OFFSETS] = UNDEFINED_TICKS
    return tape


def prints(*, buys=(), sells=(), touch=(100, 101), cancelled=(0, 0)) -> np.ndarray:
    """A tape row from (price, lots) of buy and sell aggressors against a touch (bid, ask)."""
    tape = quiet()
    for start, near, sign, trades in ((0, touch[1], 1, buys), (TAPE_SIDE, touch[0], -1, sells)):
        for price, lots in trades:
            away = sign * (price - near)
            if away >= 0:
                tape[start + min(away, TAPE_OFFSETS - 1)] += lots
            tape[start + TAPE_OFFSETS + 1] += 1
        if trades:
            far = max if sign > 0 else min
            tape[start + TAPE_OFFSETS] = far(price for price, _ in trades)
    tape[20], tape[21] = cancelled
    return tape


def random_market(rows, *, seed, segments=3, levels=LEVELS) -> MarketData:
    """A nasty market: gaps between levels, absent levels, jumps, prints everywhere, sizes from 1."""
    rng = np.random.default_rng(seed)
    book = np.tile(np.array([UNDEFINED_TICKS, UNDEFINED_TICKS, 0, 0]), (rows, LEVELS, 1))
    tape = np.stack([quiet()] * rows)
    segment = np.sort(rng.integers(0, segments, rows)) * 7 + 3
    mid = 1000
    for row in range(rows):
        mid += int(
            rng.choice(
                [-9, -2, -1, 0, 0, 0, 0, 1, 2, 9], p=[0.01, 0.07, 0.15] + [0.135] * 4 + [0.15, 0.07, 0.01]
            )
        )
        bid = mid - int(rng.integers(0, 3))
        ask = mid + int(rng.integers(1, 3))
        for column, touch, sign in ((0, bid, -1), (1, ask, 1)):
            price = touch
            for level in range(int(rng.integers(1, levels + 1))):
                book[row, level, column] = price
                book[row, level, column + 2] = rng.integers(1, 8)
                price += sign * int(rng.choice([1, 1, 1, 2, 3]))
        if row + 1 < rows and segment[row + 1] == segment[row]:
            tape[row] = _random_prints(rng, bid, ask)
    alpha = rng.normal(size=rows) * 1.5
    seconds = rng.exponential(0.4, rows)
    return market_from_book(book, tape, segment=segment, alpha=alpha, seconds=seconds, seed=seed)


def _random_prints(rng, bid, ask) -> np.ndarray:
    sides = []
    for near, sign in ((ask, 1), (bid, -1)):
        count = int(rng.choice([0, 1, 2, 3], p=[0.4, 0.3, 0.2, 0.1]))
        offsets = rng.choice([-2, -1, 0, 0, 0, 0, 1, 1, 2, 3, 6, 7, 9], size=count)
        sides.append([(near + sign * int(k), int(rng.integers(1, 9))) for k in offsets])
    cancelled = tuple(int(c) for c in rng.integers(0, 6, 2))
    return prints(buys=sides[0], sells=sides[1], touch=(bid, ask), cancelled=cancelled)


def some_fill_model(seed=0) -> FillModel:
    """Plausible coefficients: rates near one per second, falling with the queue and the level."""
    rng = np.random.default_rng(seed)
    intercept = 1.0 - 0.3 * np.arange(FILL_LEVELS)[:, None] + 0.1 * rng.normal(size=(FILL_LEVELS, 2))
    slope = np.array([-0.4, 0.05, 0.3, 0.2, 0.1, 0.05, -0.05])
    assert len(slope) == len(FILL_COVARIATES)
    return FillModel(intercept=torch.from_numpy(intercept), slope=torch.from_numpy(slope))


def settings(starts, episodes, seed) -> dict:
    """Arguments of `reset` for random episodes."""
    rng = np.random.default_rng(seed)
    count = episodes
    return {
        "start_rows": starts[torch.from_numpy(rng.integers(0, len(starts), count))],
        "episode_ids": torch.from_numpy(rng.integers(0, 2**40, count)),
        "cost_micro": torch.from_numpy(rng.choice([0, 250_000, 333_333], count)),
        "threshold": torch.from_numpy(rng.choice([-1.0, 0.0, 0.1, 0.3], count).astype(np.float32)),
    }


def chosen(rng, steps, episodes) -> torch.Tensor:
    """Random actions with more passive ones than chance would give, some of them not allowed."""
    weights = np.array([0.25, 0.04, 0.04, 0.17, 0.17, 0.1, 0.1, 0.08, 0.05])
    return torch.from_numpy(rng.choice(9, size=(steps, episodes), p=weights))
