"""Criterion 3: the chosen cell earns money out of sample, tested once."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged
from alpha_pipeline.evaluation.evidence import GateEvidence, record_problems
from alpha_pipeline.evaluation.statistics import MeanTest, block_length, bootstrap_t, critical_t, hac_t


@dataclass(frozen=True)
class PositiveMean:
    """Mean PnL above zero by a studentised HAC t, a studentised block bootstrap shown beside it."""

    number: int = 3
    name: str = "positive_mean"
    title: str = "Positive mean out of sample"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
        """The figure is the t statistic, the threshold its one-sided critical value."""
        problems = record_problems(evidence, config)
        if problems or evidence.oos is None:
            return judged(self, False, "not testable: " + "; ".join(problems))
        seen = evidence.oos.chosen.observations(config.min_sessions)
        test = hac_t(seen.pnl, variance_floor=config.variance_floor)
        if test.statistic is None or test.mean is None:
            return judged(self, False, f"not testable: {test.reason}")
        beside = bootstrap_t(
            seen.pnl,
            block=block_length(test.n, config.block_length),
            resamples=config.resamples,
            seed=config.seed,
        )
        critical = critical_t(config.alpha, test.n)
        return judged(
            self,
            test.statistic > critical,
            f"mean PnL is {test.mean:+.4g} ticks per {seen.unit}, t = {test.statistic:.3f} with {test.n - 1} "
            f"degrees of freedom, must exceed {critical:.3f} (p = {test.p_value:.2g}, block bootstrap "
            f"p = {beside.p_value:.2g}, alpha = {config.alpha:g})",
            figure=test.statistic,
            threshold=critical,
            margin=test.statistic - critical,
            details={
                "mean_ticks": test.mean,
                "standard_error_ticks": test.standard_error,
                "p_value": test.p_value,
                "p_value_bootstrap": beside.p_value,
                "observations": test.n,
                "unit": seen.unit,
                "sessions": seen.sessions,
                "lags": test.lags,
            },
        )


def the_test(evidence: GateEvidence, config: GateConfig) -> MeanTest | None:
    """The gate's one test on the chosen series; None without a record."""
    if evidence.oos is None or record_problems(evidence, config):
        return None
    seen = evidence.oos.chosen.observations(config.min_sessions)
    return hac_t(seen.pnl, variance_floor=config.variance_floor)
