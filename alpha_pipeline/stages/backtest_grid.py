"""Costs x thresholds of the published policy, in sample: to explore, not to judge."""

import polars as pl

from alpha_core.market.config import FillMode
from alpha_core.training.policy_file import load_policy
from alpha_pipeline.evaluation.grid import run_grid
from alpha_pipeline.report.figures import grid_figure
from alpha_pipeline.research.fitting import plan_on
from alpha_pipeline.results import StageResult
from alpha_pipeline.schemas import validate
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.models import POLICY_FOLDER, baseline_of, in_sample, published_backtest

VERSION = "1"


def run(context: StageContext) -> StageResult:
    """All cells in one lockstep batch over the in-sample validation rows, which the policy was trained on."""
    config, sample = context.config, in_sample(context.scope)
    policy = load_policy(context.upstream("execution_policy") / POLICY_FOLDER)
    plan = plan_on(sample.rows, sample.validation, config, overlapping=True)
    grid = run_grid(
        published_backtest(context, sample.rows),
        policy,
        plan,
        config.grid,
        sample="in-sample",
        baseline=baseline_of(context),
        fill_mode=FillMode.POISSON,
    )
    grid.cells.write_parquet(context.out / "cells.parquet")
    grid.episodes.write_parquet(context.out / "episodes.parquet")
    best = grid.cells.sort("mean_pnl_ticks", descending=True)
    context.scope.report(f"backtest grid: {grid.cells.height} cells x {len(plan)} in-sample episodes")
    return StageResult(
        metrics={
            "cells": float(grid.cells.height),
            "steps": float(grid.episodes.height * plan.decisions),
            "best_in_sample_mean_pnl_ticks": float(best["mean_pnl_ticks"][0]),
        },
        params={"episodes": len(plan), "decisions": plan.decisions, "overlapping": plan.overlapping},
        tables={"cells": grid.cells},
        figures={"grid_in_sample": grid_figure(grid.cells)},
        checks=validate("grid", pl.DataFrame(grid.cells)),
    )


STAGE = Stage(
    name="backtest_grid",
    description="30 cells of cost x entry threshold, all in one batch, in sample.",
    group="evaluation",
    kinds=frozenset({"torch", "polars"}),
    per_day=False,
    upstream=(
        Upstream(stage="fxcache", days=Days.IN_SAMPLE),
        Upstream(stage="fill_model", days=Days.WHOLE),
        Upstream(stage="perception_model", days=Days.WHOLE),
        Upstream(stage="random_baseline", days=Days.WHOLE),
        Upstream(stage="execution_policy", days=Days.WHOLE),
    ),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: [c.market, c.grid, c.walk_forward, c.gate.horizon_index, c.instrument, c.numerics],
    run=run,
    checks={"grid_schema": True},
)
