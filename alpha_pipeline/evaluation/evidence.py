"""Everything the gate judges, as plain values: judging it needs no files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from alpha_core.metrics.sharpe import degenerate_reason
from alpha_pipeline.evaluation.choice import ChosenCell
from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.looks import LookCount
from alpha_pipeline.evaluation.oos import OosSeries
from alpha_pipeline.evaluation.series import PnlSeries
from alpha_pipeline.results import Check


@dataclass(frozen=True, kw_only=True)
class PerceptionEvidence:
    """AUC of the perception on the out-of-sample rows at one horizon.

    Attributes:
        horizon: snapshots ahead.
        auc: None when only one class is present.
        auc_low: lower bound of its block-bootstrap interval.
        auc_high: upper bound.
        n: labelled rows.
    """

    horizon: int
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    n: int


@dataclass(frozen=True, kw_only=True)
class GateEvidence:
    """Input of the verdict.

    Attributes:
        instrument: what is traded.
        sessions_a_year: see `statistics.sessions_per_year`.
        chosen: the cell chosen in sample.
        oos: its out-of-sample series, None when the days could not be run.
        oos_overlapping: whether out-of-sample episodes share decisions.
        perception: one entry per horizon, out of sample.
        kill_criteria: the policy's circuit breakers.
        data_quality: checks of every day used.
        reproducibility: checks that the same inputs give the same result.
        lineage: checks that every artifact is what today's code and inputs would make.
        looks: earlier openings of these days, None when the ledger was not consulted.
        digests: name to content digest of every input.
    """

    instrument: str
    sessions_a_year: float
    chosen: ChosenCell
    oos: OosSeries | None
    perception: Sequence[PerceptionEvidence]
    kill_criteria: Sequence[Check]
    data_quality: Sequence[Check]
    reproducibility: Sequence[Check]
    lineage: Sequence[Check]
    looks: LookCount | None
    oos_overlapping: bool = False
    digests: Mapping[str, str] = field(default_factory=dict)


def record_problems(evidence: GateEvidence, config: GateConfig) -> list[str]:
    """Every reason why the out-of-sample record cannot be tested; empty when it can."""
    problems = [evidence.chosen.reason] if evidence.chosen.reason else []
    if evidence.oos is None:
        return [*problems, "there is no out-of-sample PnL"]
    problems += series_problems(evidence.oos.chosen)
    problems += _amount_problems(evidence.oos.chosen, config)
    if evidence.oos_overlapping:
        problems.append("out-of-sample episodes share decisions")
    return problems


def series_problems(series: PnlSeries) -> list[str]:
    """Faults of one series that make any statistic on it meaningless."""
    problems = []
    if series.time_ns.size and (np.diff(series.time_ns) <= 0).any():
        repeats = series.time_ns.size - np.unique(series.time_ns).size
        problems.append(
            f"{repeats} blocks repeat the timestamp of another" if repeats else "blocks are not in time order"
        )
    if len(set(series.keys)) != len(series.keys):
        problems.append("a day's block appears twice")
    if series.trades.sum() == 0:
        problems.append("no trade was made")
    reason = degenerate_reason(series.pnl_ticks)
    if reason:
        problems.append(reason)
    return problems


def _amount_problems(series: PnlSeries, config: GateConfig) -> list[str]:
    problems = []
    days, seen = len(series.days), series.observations(config.min_sessions)
    if days < config.min_oos_days:
        problems.append(f"{days} out-of-sample days, at least {config.min_oos_days} are needed")
    if seen.pnl.size < config.min_oos_blocks:
        problems.append(f"{seen.pnl.size} {seen.unit}s, at least {config.min_oos_blocks} are needed")
    return problems
