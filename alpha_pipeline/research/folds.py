"""Walk-forward folds, each fitted from nothing on its own rows, side by side in processes of their own."""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from alpha_core.market.config import FillMode
from alpha_core.training.perception import Resume
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.evaluation.grid import GridResult, run_grid
from alpha_pipeline.evaluation.splits import Fold
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.research.fitting import backtest_on, fit_everything, kill_checks, plan_on
from alpha_pipeline.research.rows import join
from alpha_pipeline.research.scoring import scored
from alpha_pipeline.results import Check
from alpha_pipeline.threads import use_threads
from alpha_pipeline.workers import worker_pool

_RESAMPLES = 200


@dataclass(frozen=True, kw_only=True)
class FoldOutcome:
    """What one fold showed on rows that none of its fits had seen.

    Attributes:
        fold: its row ranges.
        grid: costs x thresholds over the test rows, episodes that do not overlap.
        auc: AUC at the trading horizon over the test rows, None when undefined.
        auc_low: lower 95 % bound.
        kill: the policy's circuit breakers.
    """

    fold: Fold
    grid: GridResult
    auc: float | None
    auc_low: float | None
    kill: Sequence[Check]


@dataclass(frozen=True, kw_only=True)
class FoldTask:
    """One fold as it travels to a process: names of files, no tensors.

    Attributes:
        config: the instrument's configuration.
        days: day keys.
        files: cache file of each day.
        fold: row ranges over these days side by side.
        work: folder from which the fold's perception goes on after a kill.
    """

    config: PipelineConfig
    days: tuple[str, ...]
    files: tuple[Path, ...]
    fold: Fold
    work: Path


def run_folds(tasks: Sequence[FoldTask], report: Callable[[str], None]) -> list[FoldOutcome]:
    """Run all folds, on a CPU as many at a time as there are cores; results come in the order of the tasks.

    A fold's result depends on its task alone, so the number of processes changes nothing but the time.
    """
    on_device = tasks[0].config.device != "cpu"
    workers = 1 if on_device else min(len(tasks), os.cpu_count() or 1)
    if workers == 1:
        return [_told(run_fold(task), len(tasks), report) for task in tasks]
    with worker_pool(workers) as pool:
        futures = [pool.submit(run_fold, task) for task in tasks]
        for done in as_completed(futures):
            _told(done.result(), len(tasks), report)
        return [future.result() for future in futures]


def run_fold(task: FoldTask) -> FoldOutcome:
    """Fit everything on the fold's training and validation rows, then run the grid on its test rows."""
    config, fold = task.config, task.fold
    use_threads(config.threads)
    rows = join([open_day(path, verify="fast") for path in task.files], task.days)
    resume = Resume(folder=task.work, report=partial(print, file=sys.stderr))
    fitted = fit_everything(rows, fold.train, fold.validation, config, resume)
    grid = run_grid(
        backtest_on(rows.market.with_alpha(fitted.alpha), fitted.fills.model, config),
        fitted.policy.policy,
        plan_on(rows, fold.test, config, overlapping=False),
        config.grid,
        sample="fold test",
        baseline=fitted.baseline,
        fill_mode=FillMode.POISSON,
    )
    scores = scored(fitted.logits[fold.test.slice], rows, fold.test, resamples=_RESAMPLES, seed=config.seed)
    score = scores[config.gate.horizon_index]
    return FoldOutcome(
        fold=fold, grid=grid, auc=score.auc, auc_low=score.auc_low, kill=kill_checks(fitted.policy)
    )


def _told(outcome: FoldOutcome, folds: int, report: Callable[[str], None]) -> FoldOutcome:
    auc = "undefined" if outcome.auc is None else f"{outcome.auc:.3f}"
    report(f"walk-forward: fold {outcome.fold.index + 1} of {folds} done, test AUC {auc}")
    return outcome
