"""The whole backtest grid as one batch of lanes: how many decisions a second, policy in the loop.

    python benchmarks/rollout.py [--device cpu] [--cells 30] [--episodes 500] [--decisions 600] [--rows 500000]

needs torch and numpy, nothing else. A step is one decision of one lane: observation, policy, order handling, fills
against the tape of one row, marking. The market is noise with a full book and prints on every other row. `eager`
launches every kernel, `graph` replays recorded ones, recording included; on a CPU both are the same thing.
"""

import argparse
import sys
import time
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

from alpha_core.cuda import graphs
from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.data import TAPE_OFFSETS, TAPE_SIDE, TAPE_WIDTH, MarketData
from alpha_core.market.environment import Environment
from alpha_core.market.fills import FILL_COVARIATES, FILL_LEVELS, FillModel
from alpha_core.nn.q_networks import C51Network
from alpha_core.rl.policies import Policy, QPolicy, RandomPolicy, ThresholdPolicy
from alpha_core.rl.rollout import Rollout, rollout
from alpha_core.shapes import FEATURES, LEVELS, UNDEFINED_TICKS

NAMED = (
    "spread",
    "microprice_minus_mid",
    "queue_imbalance_1",
    "ofi_1",
    "log_volatility_ema",
    "log_intensity_ema",
)
COSTS = 5


def noise_market(rows: int) -> MarketData:
    """A random walk of the touch, ten levels a tick apart, and trades at the touch on half of the rows."""
    rng = np.random.default_rng(0)
    bid = 20_000 + np.cumsum(rng.choice([-1, 0, 0, 0, 0, 0, 0, 0, 0, 1], rows))
    away = np.arange(LEVELS)
    book = np.empty((rows, LEVELS, 4), np.int32)
    book[:, :, 0], book[:, :, 1] = bid[:, None] - away, bid[:, None] + 1 + away
    book[:, :, 2:] = rng.integers(1, 30, (rows, LEVELS, 2))
    tape = np.zeros((rows, TAPE_WIDTH), np.int32)
    traded, size = rng.random((rows, 2)) < 0.25, rng.integers(1, 20, (rows, 2))
    for side, (first, price) in enumerate(((0, bid + 1), (TAPE_SIDE, bid))):
        tape[:, first] = traded[:, side] * size[:, side]
        tape[:, first + TAPE_OFFSETS] = np.where(traded[:, side], price, UNDEFINED_TICKS)
        tape[:, first + TAPE_OFFSETS + 1] = traded[:, side]
    features = np.zeros((rows, FEATURES), np.float32)
    features[:, :6] = rng.normal(size=(rows, 6))
    features[:, 0] = 1.0
    return MarketData(
        mid2=torch.from_numpy((2 * bid + 1).astype(np.int32)),
        book=torch.from_numpy(book),
        tape=torch.from_numpy(tape),
        segment=torch.zeros(rows, dtype=torch.int32),
        day=torch.zeros(rows, dtype=torch.int32),
        seconds=torch.full((rows,), 0.3),
        second_of_day=torch.full((rows,), 50_000.0),
        features=torch.from_numpy(features),
        feature_names=(*NAMED, *(f"other_{i}" for i in range(FEATURES - len(NAMED)))),
        alpha=torch.from_numpy(rng.normal(size=rows).astype(np.float32)),
    )


def fill_model() -> FillModel:
    """About one fill a second at the touch, fewer behind it."""
    intercept = torch.zeros(FILL_LEVELS, 2, dtype=torch.float64) - torch.arange(FILL_LEVELS)[:, None]
    return FillModel(intercept=intercept, slope=torch.zeros(len(FILL_COVARIATES), dtype=torch.float64))


def c51(device: str, *, thompson: bool) -> QPolicy:
    network = C51Network(64, 51, generator=torch.Generator().manual_seed(0)).requires_grad_(False)
    network.support.copy_(torch.linspace(-50, 50, 51))
    return QPolicy(network.to(device), thompson=thompson)


def seconds(environment: Environment, policy: Policy, cells: int, episodes: int, repeats: int = 3) -> float:
    """Median wall time of the whole grid, after one more."""
    lanes = cells * episodes
    starts = torch.linspace(0, environment.data.rows - environment.config.horizon - 2, episodes).long()
    cell = torch.arange(lanes) // episodes
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        done: Rollout = rollout(
            environment,
            policy,
            starts.repeat(cells),
            episode_ids=torch.arange(episodes).repeat(cells),
            cost_micro=(cell % COSTS) * 100_000,
            threshold=(cell // COSTS) * 0.02,
            fill_mode=FillMode.POISSON,
            seed=1,
        )
        assert int(done.trades.sum()) > 0
        times.append(time.perf_counter() - began)
    return sorted(times[1:])[repeats // 2]


def _eagerly(self: graphs.Repeated, steps: int) -> object:
    for _ in range(steps):
        self.state = self._step(self.state)
    return self.state


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cells", type=int, default=30)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--decisions", type=int, default=600)
    parser.add_argument("--rows", type=int, default=500_000)
    given = parser.parse_args()
    environment = Environment(
        noise_market(given.rows).to(given.device), MarketConfig(horizon=given.decisions), fill_model()
    )
    decisions = given.cells * given.episodes * given.decisions
    print(f"{given.cells} cells x {given.episodes} episodes x {given.decisions} decisions, {given.device}")
    policies = {
        "random": RandomPolicy(),
        "threshold rule": ThresholdPolicy(),
        "C51, greedy": c51(given.device, thompson=False),
        "C51, Thompson": c51(given.device, thompson=True),
    }
    for name, policy in policies.items():
        told = [("graph", seconds(environment, policy, given.cells, given.episodes))]
        if given.device != "cpu":
            with patch.object(graphs.Repeated, "take", _eagerly):
                told.append(("eager", seconds(environment, policy, given.cells, given.episodes, repeats=1)))
        print(
            f"{name:>15}: "
            + ", ".join(f"{way} {took:.3f} s = {decisions / took / 1e6:.2f} M steps/s" for way, took in told),
            flush=True,
        )


if __name__ == "__main__":
    main()
