"""Whether rows reach an accelerator in time: an epoch of the perception's training, resident and streamed from files.

    python benchmarks/perception_input.py [--device cpu] [--days 20] [--rows 500000] [--updates 60]

needs torch and numpy, nothing else. The days are files of noise that are memory-mapped, so each block is gathered
from as many places as there are streams. `wait` is the share of the time in which the device had no work because its
input was not there; the bar is 5 %. Both ways must end with the same loss, to the last bit.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

from alpha_core.shapes import FEATURES, HORIZONS
from alpha_core.training.config import PerceptionConfig
from alpha_core.training.perception import new_model
from alpha_core.training.sequences import MappedData
from alpha_core.training.trainer import Trainer

BAR = 0.05


def days_of_noise(folder: Path, days: int, rows: int) -> MappedData:
    """Mapped files with `rows` decision points each."""
    rng = np.random.default_rng(0)
    parts = []
    for day in range(days):
        np.save(folder / f"{day}.npy", rng.standard_normal((rows, FEATURES), np.float32))
        parts.append(np.load(folder / f"{day}.npy", mmap_mode="r"))
    labels = rng.integers(-2, 3, (days * rows, len(HORIZONS)), np.int32)
    return MappedData(
        features=tuple(parts),
        seconds_since_previous=torch.from_numpy(rng.random(days * rows, np.float32)),
        labels=torch.from_numpy(labels),
        valid=torch.ones(labels.shape, dtype=torch.bool),
        segment=torch.arange(days).repeat_interleave(rows),
    )


def measure(
    data: MappedData, config: PerceptionConfig, device: str, updates: int
) -> tuple[float, float, float]:
    """(milliseconds an update, share of waiting, sum of losses) of so many updates after ten more."""
    run = Trainer(new_model(data, config, seed=0).to(device), data, config, seed=0)
    if run.per_epoch < updates + 10:
        raise SystemExit(
            f"an epoch has {run.per_epoch} updates, needs {updates + 10}: give more days or rows"
        )
    run.run(10)
    run.loss.item()
    run.clock.share()
    began = time.perf_counter()
    run.run(updates)
    loss = run.loss.item()
    return (time.perf_counter() - began) / updates * 1e3, run.clock.share(), loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--updates", type=int, default=60)
    given = parser.parse_args()
    print(f"{given.days} days of {given.rows} rows, {given.device}, torch {torch.__version__}")
    print(f"{'B':>4} {'T':>5} {'source':>9} {'ms/update':>10} {'wait':>7} {'loss':>12}")
    with tempfile.TemporaryDirectory() as folder:
        data = days_of_noise(Path(folder), given.days, given.rows)
        for streams in (64, 512):
            config = PerceptionConfig(streams=streams, mirror=False, resident_gib=1e6)
            for name, changed in (("resident", config), ("streamed", replace(config, resident_gib=0.0))):
                ms, wait, loss = measure(data, changed, given.device, given.updates)
                told = "" if wait <= BAR else f"  above the bar of {BAR:.0%}"
                print(
                    f"{streams:>4} {config.length:>5} {name:>9} {ms:>10.2f} {wait:>7.2%} {loss:>12.6f}{told}"
                )


if __name__ == "__main__":
    main()
