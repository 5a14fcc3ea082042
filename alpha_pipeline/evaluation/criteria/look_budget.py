"""Criterion 5: the level of the test halves with every earlier look at the same days."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged
from alpha_pipeline.evaluation.criteria.positive_mean import the_test
from alpha_pipeline.evaluation.evidence import GateEvidence


def budgeted_alpha(alpha: float, earlier_looks: int) -> float:
    """alpha / 2^looks, the level left after earlier looks: all looks together stay below 2 alpha."""
    return alpha * 0.5 ** min(earlier_looks, 1000)


@dataclass(frozen=True)
class LookBudget:
    """The p value of criterion 3 is within what earlier looks have left of alpha."""

    number: int = 5
    name: str = "look_budget"
    title: str = "Look budget"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
        """The figure is the p value, the threshold the level that is left."""
        if evidence.looks is None:
            return judged(self, False, "the ledger of looks was not consulted")
        looks = evidence.looks
        left = budgeted_alpha(config.alpha, looks.earlier)
        details = {"earlier_looks": looks.earlier, "overlapping_looks": looks.overlapping}
        test = the_test(evidence, config)
        if test is None or test.p_value is None:
            return judged(self, False, "there is no p value", threshold=left, details=details)
        return judged(
            self,
            test.p_value <= left,
            f"p = {test.p_value:.2g}, must be at most {left:.2g} after {looks.earlier} earlier looks "
            "at these days",
            figure=test.p_value,
            threshold=left,
            margin=left - test.p_value,
            details=details,
        )
