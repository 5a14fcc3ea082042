"""How good a perception is, per horizon, with intervals; the same protocol for networks and baselines."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from alpha_core.metrics.auc import auc, leakage_alarm
from alpha_core.metrics.bootstrap import auc_interval
from alpha_core.metrics.calibration import CalibrationBin, brier, calibration_bins, mcc, sigmoid
from alpha_core.shapes import HORIZONS
from alpha_core.training.sequences import SequenceData


@dataclass(frozen=True, kw_only=True)
class HorizonMetrics:
    """Figures of one horizon over the rows that have a direction; None where undefined.

    Attributes:
        horizon: snapshots ahead.
        n: rows with a direction.
        ties: rows whose label exists but whose mid did not move.
        positive: share of rises.
        auc, auc_low, auc_high: with the 95 % moving-block interval.
        brier: mean squared error of the probability.
        mcc: Matthews correlation at probability one half.
        accuracy: share of right directions at one half.
        leakage: the AUC or the accuracy is too good to be honest.
        bins: reliability curve.
    """

    horizon: int
    n: int
    ties: int
    positive: float | None
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    brier: float | None
    mcc: float | None
    accuracy: float | None
    leakage: bool
    bins: tuple[CalibrationBin, ...]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON and tables."""
        return asdict(self)


def direction(data: SequenceData, column: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(rows that have a direction [N], the direction of those rows) at one horizon; True means up."""
    mask = data.mask[:, column].numpy()
    return mask, data.labels[:, column].numpy()[mask] > 0


def perception_metrics(
    logits: Tensor, data: SequenceData, *, block: int | Sequence[int], resamples: int, seed: int
) -> list[HorizonMetrics]:
    """Figures per horizon of logits [N, 5] over the rows of `data`.

    Args:
        logits: [N, 5], of a network or a baseline.
        data: the rows they were made for.
        block: rows per bootstrap block, at least the rows that a label spans; one number, or one for each
            horizon.
        resamples: of the bootstrap.
        seed: of the bootstrap; each horizon has a stream of its own.
    """
    blocks = [block] * len(HORIZONS) if isinstance(block, int) else block
    return [
        _horizon_metrics(logits, data, column, block=rows, resamples=resamples, seed=seed)
        for column, rows in zip(range(len(HORIZONS)), blocks, strict=True)
    ]


def _horizon_metrics(
    logits: Tensor, data: SequenceData, column: int, *, block: int, resamples: int, seed: int
) -> HorizonMetrics:
    mask, up = direction(data, column)
    score = logits[:, column].numpy()[mask]
    probability = sigmoid(score)
    said_up = score > 0
    area = auc(up, score)
    generator = np.random.default_rng([seed, column])
    interval = auc_interval(up, score, block=block, resamples=resamples, generator=generator)
    accuracy, positive = (float(np.mean(x)) if len(up) else None for x in (said_up == up, up))
    return HorizonMetrics(
        horizon=HORIZONS[column],
        n=len(up),
        ties=int((data.valid[:, column] & (data.labels[:, column] == 0)).sum()),
        positive=positive,
        auc=area,
        auc_low=interval.low,
        auc_high=interval.high,
        brier=brier(up, probability),
        mcc=mcc(up, said_up),
        accuracy=accuracy,
        leakage=leakage_alarm(area, accuracy, 0.5 if positive is None else max(positive, 1 - positive)),
        bins=tuple(calibration_bins(up, probability)),
    )


def aucs(logits: Tensor, data: SequenceData) -> list[float | None]:
    """AUC per horizon, without intervals."""
    pairs = (direction(data, column) for column in range(len(HORIZONS)))
    return [auc(up, logits[:, column].numpy()[mask]) for column, (mask, up) in enumerate(pairs)]
