"""Folds in time order, everything fitted inside each: how the choice of a cell is made, and how far it travels."""

import json
from collections.abc import Sequence

import polars as pl

from alpha_pipeline.evaluation.choice import ChosenCell, choose_cell
from alpha_pipeline.evaluation.splits import walk_forward
from alpha_pipeline.provenance import canonical_json
from alpha_pipeline.report.figures import fold_figure, grid_figure
from alpha_pipeline.research.folds import FoldOutcome, FoldTask, run_folds
from alpha_pipeline.results import StageResult
from alpha_pipeline.schemas import validate
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.fxcache import FILE
from alpha_pipeline.stages.models import load_rows

VERSION = "1"
CHOICE_FILE = "chosen_cell.json"


def run(context: StageContext) -> StageResult:
    """Fit and test every fold, then choose the one cell that the gate will test out of sample."""
    config = context.config
    rows = load_rows(context.scope, Days.IN_SAMPLE)
    files = tuple(context.store.get("fxcache", day).path / FILE for day in rows.days)
    folds = walk_forward(rows.line, config.walk_forward)
    tasks = [
        FoldTask(config=config, days=rows.days, files=files, fold=f, work=context.work / f"fold-{f.index}")
        for f in folds
    ]
    outcomes = run_folds(tasks, context.scope.report)
    chosen, candidates = choose_cell(
        [o.grid for o in outcomes], config.grid, config.gate, tick_size=config.instrument.tick_size
    )
    (context.out / CHOICE_FILE).write_text(canonical_json(chosen))
    cells = pl.concat([o.grid.cells.with_columns(fold=pl.lit(o.fold.index)) for o in outcomes])
    cells.write_parquet(context.out / "cells.parquet")
    table = _fold_table(outcomes, chosen)
    return StageResult(
        metrics=_metrics(table, chosen),
        params={"folds": len(folds), "chosen_cost": chosen.cost, "chosen_threshold": str(chosen.threshold)},
        tables={"folds": table, "candidates": candidates},
        figures={"folds": fold_figure(table), "grid_walk_forward": grid_figure(_mean_cells(cells))},
        checks=validate("folds", table),
    )


def chosen_cell(context: StageContext) -> ChosenCell:
    """The published choice."""
    return ChosenCell(**json.loads((context.upstream("walk_forward") / CHOICE_FILE).read_text()))


def _fold_table(outcomes: Sequence[FoldOutcome], chosen: ChosenCell) -> pl.DataFrame:
    """One row per fold: its rows, its AUC and the chosen cell's result on its test rows."""
    lines = []
    for outcome in outcomes:
        cell = outcome.grid.cells.filter(
            (pl.col("cost") == chosen.cost) & (pl.col("threshold") == (chosen.threshold or 0.0))
        )
        lines.append(
            {
                "fold": outcome.fold.index,
                "train_rows": len(outcome.fold.train),
                "validation_rows": len(outcome.fold.validation),
                "test_start": outcome.fold.test.start,
                "test_rows": len(outcome.fold.test),
                "auc": outcome.auc,
                "auc_low": outcome.auc_low,
                "kill_criteria_passed": all(check.passed for check in outcome.kill),
                "mean_pnl_ticks": cell["mean_pnl_ticks"][0],
                "sharpe_episode": cell["sharpe_episode"][0],
                "episodes": cell["episodes"][0],
            }
        )
    return pl.DataFrame(
        lines, schema_overrides=dict.fromkeys(("auc", "auc_low", "sharpe_episode"), pl.Float64)
    )


def _metrics(table: pl.DataFrame, chosen: ChosenCell) -> dict[str, float]:
    figures = {
        f"{name}_{kind}": value for name in ("auc", "mean_pnl_ticks") for kind, value in _spread(table[name])
    }
    return figures | ({} if chosen.sharpe is None else {"chosen_in_sample_sharpe": chosen.sharpe})


def _spread(column: pl.Series) -> list[tuple[str, float]]:
    known = column.drop_nulls()
    pairs = [("mean", known.mean()), ("sd", known.std())]
    return [(kind, float(value)) for kind, value in pairs if isinstance(value, int | float)]


def _mean_cells(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.group_by("cost", "threshold", maintain_order=True).agg(pl.col("mean_pnl_ticks").mean())


STAGE = Stage(
    name="walk_forward",
    description="Sequential folds, purged and embargoed, everything fitted inside each; chooses the cell to judge.",
    group="evaluation",
    kinds=frozenset({"torch", "polars"}),
    per_day=False,
    upstream=(
        Upstream(stage="fxcache", days=Days.IN_SAMPLE),
        Upstream(stage="perception_model", days=Days.WHOLE, content=False),
    ),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: c.model_dump(exclude={"quality", "simulator", "features", "ingest"}),
    run=run,
    checks={"folds_schema": True},
)
