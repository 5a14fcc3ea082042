"""What a network has to beat: the last move going on, and a logistic regression on the touch."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alpha_core.errors import DataError
from alpha_core.metrics.calibration import sigmoid
from alpha_core.shapes import HORIZONS
from alpha_core.training.scoring import direction
from alpha_core.training.sequences import SequenceData

PERSISTENCE_FEATURE = "mid_change_10"
TOUCH_FEATURES = ("spread", "microprice_minus_mid", "queue_imbalance_1", "ofi_1", "mid_change")

RIDGE = 1e-4
"""Of the mean log loss, on standardised features: enough to keep separable data finite."""

NEWTON_STEPS = 50
TOLERANCE = 1e-10
LONGEST_STEP = 1.0
"""Cap of a Newton step's largest coefficient: a full step can overshoot when features have heavy tails."""

CLIP = 10.0
"""Standardised features are cut there, as the network's are."""


def persistence_logits(train: SequenceData, data: SequenceData) -> Tensor:
    """The move of the last ten rows, in standard deviations of the training rows, at every horizon; [N, 5].

    Nothing is fitted but the unit: a market that reverts scores below one half, and that is what it says.
    """
    column = _columns(train, (PERSISTENCE_FEATURE,))[0]
    spread = float(train.features[:, column].double().std(correction=0))
    move = data.features[:, column] / (spread if spread > 0 else 1.0)
    return move[:, None].repeat(1, len(HORIZONS))


def touch_logits(train: SequenceData, data: SequenceData) -> Tensor:
    """Logistic regression per horizon on TOUCH_FEATURES, fitted on `train`; [N, 5] for `data`.

    A horizon whose training rows hold one class only gets logit 0.
    """
    columns = list(_columns(train, TOUCH_FEATURES))
    fitted, wanted = (d.features[:, columns].double().numpy() for d in (train, data))
    mean, spread = fitted.mean(0), fitted.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    fitted, wanted = (_design(np.clip((x - mean) / spread, -CLIP, CLIP)) for x in (fitted, wanted))
    out = torch.zeros(data.rows, len(HORIZONS))
    for horizon in range(len(HORIZONS)):
        mask, up = direction(train, horizon)
        if up.any() and not up.all():
            out[:, horizon] = torch.from_numpy(wanted @ fit_logistic(fitted[mask], up)).float()
    return out


def _columns(data: SequenceData, names: tuple[str, ...]) -> tuple[int, ...]:
    missing = [name for name in names if name not in data.feature_names]
    if missing:
        raise DataError(
            f"baseline features {missing} are not among the columns: pass feature_names with the rows"
        )
    return tuple(data.feature_names.index(name) for name in names)


def _design(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate((np.ones((len(x), 1)), x), axis=1)


def fit_logistic(x: NDArray[np.float64], y: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Coefficients [k] that minimise the mean log loss plus RIDGE |w|^2 / 2, by Newton's method (IRLS).

    Args:
        x: [n, k], the first column ones; its coefficient is not penalised.
        y: [n].

    Raises:
        DataError: no convergence in NEWTON_STEPS steps.
    """
    penalty = np.full(x.shape[1], RIDGE)
    penalty[0] = 0.0
    w = np.zeros(x.shape[1])
    for _ in range(NEWTON_STEPS):
        p = sigmoid(x @ w)
        gradient = x.T @ (p - y) / len(y) + penalty * w
        curvature = (x * (p * (1 - p))[:, None]).T @ x / len(y) + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        largest = float(np.abs(step).max())
        w = w - step * min(1.0, LONGEST_STEP / max(largest, TOLERANCE))
        if largest < TOLERANCE:
            return w
    raise DataError(
        f"logistic baseline did not converge in {NEWTON_STEPS} steps: look for extreme touch features"
    )
