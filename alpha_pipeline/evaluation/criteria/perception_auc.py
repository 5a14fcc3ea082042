"""Criterion 1: the perception tells up from down out of sample."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged
from alpha_pipeline.evaluation.evidence import GateEvidence, PerceptionEvidence

CHANCE = 0.5


@dataclass(frozen=True)
class PerceptionAuc:
    """Lower bound of the AUC at the trading horizon above one half."""

    number: int = 1
    name: str = "perception_auc"
    title: str = "Perception beats chance"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
        """The figure is the lower bound of the AUC's interval."""
        found = [p for p in evidence.perception if p.horizon == config.horizon]
        if len(found) != 1:
            return judged(
                self, False, f"{len(found)} AUC figures at {config.horizon} snapshots", threshold=CHANCE
            )
        at = found[0]
        if at.auc is None or at.auc_low is None:
            return judged(self, False, _undefined(at), threshold=CHANCE)
        return judged(
            self,
            at.auc_low > CHANCE,
            f"AUC at {at.horizon} snapshots is {at.auc:.4f} with lower bound {at.auc_low:.4f}, "
            f"must be above {CHANCE} ({at.n} labels)",
            figure=at.auc_low,
            threshold=CHANCE,
            margin=at.auc_low - CHANCE,
            details={"auc": at.auc, "auc_high": at.auc_high, "labels": at.n},
        )


def _undefined(at: PerceptionEvidence) -> str:
    if at.auc is None:
        return f"AUC at {at.horizon} snapshots is undefined: one class only among {at.n} labels"
    return (
        f"AUC at {at.horizon} snapshots is {at.auc:.4f} without a lower bound: {at.n} labels are too few for "
        "the blocks of its interval"
    )
