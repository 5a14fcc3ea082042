"""Precondition: the out-of-sample record can be tested at all."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged
from alpha_pipeline.evaluation.evidence import GateEvidence, record_problems


@dataclass(frozen=True)
class UsableRecord:
    """Enough days, finite and varying PnL, trades, no repeated timestamps."""

    number: int = 0
    name: str = "usable_record"
    title: str = "Out-of-sample record can be tested"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
        """The figure is the number of out-of-sample days."""
        problems = record_problems(evidence, config)
        days = len(evidence.oos.chosen.days) if evidence.oos else 0
        sentence = "; ".join(problems) if problems else f"{days} out-of-sample days with finite, varying PnL"
        return judged(
            self,
            not problems,
            sentence,
            figure=float(days),
            threshold=float(config.min_oos_days),
            margin=float(days - config.min_oos_days),
        )
