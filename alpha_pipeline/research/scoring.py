"""How good a perception is on rows it was not fitted on: one protocol for validation, folds, gate and comparison."""

import numpy as np
from torch import Tensor

from alpha_core.shapes import HORIZONS
from alpha_core.training.perception import HorizonMetrics, perception_metrics
from alpha_pipeline.evaluation.splits import RowRange, Timeline
from alpha_pipeline.research.rows import Rows

SHORTEST_BLOCK = 500
"""Rows of a bootstrap block at least: what moves features moves them for longer than a short label."""


def scored(logits: Tensor, rows: Rows, part: RowRange, *, resamples: int, seed: int) -> list[HorizonMetrics]:
    """Figures per horizon, with block-bootstrap intervals.

    Args:
        logits: [n, 5] of the rows of `part`.
        rows: the days.
        part: which rows the logits belong to.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """
    blocks = [max(SHORTEST_BLOCK, label_rows(rows.line, horizon)) for horizon in HORIZONS]
    return perception_metrics(logits, rows.part(part), block=blocks, resamples=resamples, seed=seed)


def label_rows(line: Timeline, horizon: int) -> int:
    """Most rows that lie within one label of `horizon` snapshots; labels closer than that overlap."""
    ahead = np.searchsorted(line.position, line.position + horizon, "left")
    return int((ahead - np.arange(len(line))).max())


def named_figures(scores: list[HorizonMetrics]) -> dict[str, float]:
    """The figures that runs are compared by, `<figure>_<horizon>`; undefined ones are left out."""
    names = ("auc", "auc_low", "auc_high", "brier", "mcc", "accuracy")
    figures = {f"{name}_{s.horizon}": getattr(s, name) for name in names for s in scores}
    return {name: value for name, value in figures.items() if value is not None}
