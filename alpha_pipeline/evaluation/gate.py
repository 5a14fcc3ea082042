"""The gate: all criteria over one set of evidence, and the verdict with its reasons."""

import logging
import math
from collections.abc import Sequence

from alpha_core.metrics.sharpe import sharpe
from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria import all_criteria
from alpha_pipeline.evaluation.criteria.base import (
    Criterion,
    CriterionResult,
    Detail,
    Status,
    judged,
)
from alpha_pipeline.evaluation.criteria.look_budget import budgeted_alpha
from alpha_pipeline.evaluation.criteria.positive_mean import the_test
from alpha_pipeline.evaluation.evidence import GateEvidence
from alpha_pipeline.evaluation.series import PnlSeries
from alpha_pipeline.evaluation.statistics import (
    low_activity,
    observations_needed,
    probabilistic_sharpe,
)
from alpha_pipeline.evaluation.verdict import Verdict

_LOG = logging.getLogger(__name__)


def judge(evidence: GateEvidence, config: GateConfig, criteria: Sequence[Criterion] | None = None) -> Verdict:
    """Assess every criterion; PASS needs each evaluated one to hold.

    A criterion that raises has failed, with the error as its reason: a broken step must never read as a pass.

    Args:
        evidence: what to judge.
        config: the rules.
        criteria: None for all of them.
    """
    results = [_assess(c, evidence, config) for c in (all_criteria() if criteria is None else criteria)]
    evaluated = [r for r in results if r.status is not Status.NOT_EVALUATED]
    passed = bool(evaluated) and not any(r.failed for r in evaluated)
    return Verdict(
        passed=passed,
        headline=_headline(passed, results),
        instrument=evidence.instrument,
        criteria=results,
        context=_context(evidence, config),
        warnings=_warnings(evidence, config, results),
        chosen=evidence.chosen,
        oos_days=evidence.oos.chosen.days if evidence.oos else (),
        digests=evidence.digests,
    )


def _assess(criterion: Criterion, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
    try:
        return criterion.assess(evidence, config)
    except Exception as error:
        _LOG.exception("criterion %s could not be computed", criterion.name)
        return judged(criterion, False, f"could not be computed: {type(error).__name__}: {error}")


def _headline(passed: bool, results: Sequence[CriterionResult]) -> str:
    left_out = [r for r in results if r.status is Status.NOT_EVALUATED]
    failures = [r for r in results if r.failed]
    evaluated = len(results) - len(left_out)
    if passed:
        said = f"PASS: all {evaluated} evaluated criteria hold."
    else:
        reasons = "; ".join(f"{r.number} ({r.title.lower()}): {r.sentence}" for r in failures)
        said = f"FAIL by {len(failures)} of {evaluated} evaluated criteria. {reasons}."
    if not left_out:
        return said
    names = " and ".join(f"{r.number} ({r.title.lower()})" for r in left_out)
    return f"{said} Not evaluated in this version: {names}."


def _context(evidence: GateEvidence, config: GateConfig) -> dict[str, Detail]:
    """Figures that decide nothing: Sharpe, its probability, and how many days are missing."""
    context: dict[str, Detail] = {
        "in_sample_sharpe": evidence.chosen.sharpe,
        "in_sample_unit": evidence.chosen.unit,
        "in_sample_sessions": evidence.chosen.sessions,
        "cells_tried_in_sample": evidence.chosen.tried,
        "earlier_looks": evidence.looks.earlier if evidence.looks else None,
        "overlapping_looks": evidence.looks.overlapping if evidence.looks else None,
    }
    if evidence.oos is None:
        return context
    series = evidence.oos.chosen
    return context | _sharpe_context(series, evidence) | _power_context(evidence, config)


def _sharpe_context(series: PnlSeries, evidence: GateEvidence) -> dict[str, Detail]:
    daily = series.by_day()
    session = sharpe(daily)
    annual = session.annualised(evidence.sessions_a_year)
    return {
        "oos_days": daily.size,
        "oos_pnl_ticks": float(series.pnl_ticks.sum()),
        "oos_mean_per_episode_ticks": series.mean_per_episode,
        "oos_trades": int(series.trades.sum()),
        "oos_sharpe_session": session.value,
        "oos_sharpe_session_se": session.standard_error,
        "oos_sharpe_annual": annual.value,
        "oos_sharpe_annual_se": annual.standard_error,
        "oos_annual_factor": math.sqrt(evidence.sessions_a_year),
        "oos_sharpe_undefined": session.reason,
    }


def _power_context(evidence: GateEvidence, config: GateConfig) -> dict[str, Detail]:
    test = the_test(evidence, config)
    if test is None or evidence.oos is None:
        return {"probabilistic_sharpe": None, "days_needed": None, "days_missing": None}
    seen = evidence.oos.chosen.observations(config.min_sessions)
    alpha = budgeted_alpha(config.alpha, evidence.looks.earlier if evidence.looks else 0)
    needed = observations_needed(test, alpha=alpha, power=config.power)
    days = None if needed is None else math.ceil(needed * seen.sessions / seen.pnl.size)
    return {
        "probabilistic_sharpe": probabilistic_sharpe(seen.pnl),
        "power": config.power,
        "days_needed": days,
        "days_missing": None if days is None else max(0, days - seen.sessions),
    }


def _warnings(evidence: GateEvidence, config: GateConfig, results: Sequence[CriterionResult]) -> list[str]:
    said = [
        f"AUC at {at.horizon} snapshots is {at.auc:.3f}, above {config.auc_alarm}: suspect a leak"
        for at in evidence.perception
        if at.auc is not None and at.auc > config.auc_alarm
    ]
    if evidence.looks and evidence.looks.overlapping:
        said.append(f"{evidence.looks.overlapping} earlier looks saw part of these days in another span")
    if evidence.oos is not None:
        said += _record_warnings(evidence.oos.chosen, config)
    if any(_tests_disagree(result, config.alpha) for result in results):
        said.append("the HAC t and the block bootstrap disagree at this level")
    return said


def _record_warnings(series: PnlSeries, config: GateConfig) -> list[str]:
    said, seen = [], series.observations(config.min_sessions)
    if low_activity(seen.pnl):
        said.append(f"low activity: fewer than a tenth of the {seen.pnl.size} {seen.unit}s have any PnL")
    if seen.unit != "session":
        said.append(
            f"{seen.sessions} out-of-sample sessions, fewer than {config.min_sessions}: tested on intraday "
            "blocks, which cannot show how profit varies from day to day"
        )
    return said


def _tests_disagree(result: CriterionResult, alpha: float) -> bool:
    ours, beside = result.details.get("p_value"), result.details.get("p_value_bootstrap")
    if not isinstance(ours, float) or not isinstance(beside, float):
        return False
    return (ours <= alpha) != (beside <= alpha)
