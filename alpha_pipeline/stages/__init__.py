"""Stages: the boxes of the pipeline, one module each, as pure functions from upstream files to new files.

`STAGES` is the registry, upstream first. Adding a stage is a module here and a line below.
"""

from alpha_pipeline.stages import (
    backtest_grid,
    data_quality,
    execution_policy,
    fill_model,
    fxcache,
    mbp10_snapshots,
    oos_gate,
    perception_model,
    random_baseline,
    report,
    trades,
    walk_forward,
)
from alpha_pipeline.stages.base import Stage

STAGES: tuple[Stage, ...] = (
    mbp10_snapshots.STAGE,
    trades.STAGE,
    data_quality.STAGE,
    fxcache.STAGE,
    fill_model.STAGE,
    random_baseline.STAGE,
    perception_model.STAGE,
    execution_policy.STAGE,
    backtest_grid.STAGE,
    walk_forward.STAGE,
    oos_gate.STAGE,
    report.STAGE,
)
