"""Criteria 4 and 9, which this version does not evaluate. They are listed so that no verdict hides it."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import Criterion, CriterionResult, Status
from alpha_pipeline.evaluation.evidence import GateEvidence


def _not_evaluated(criterion: Criterion) -> CriterionResult:
    return CriterionResult(
        number=criterion.number,
        name=criterion.name,
        title=criterion.title,
        status=Status.NOT_EVALUATED,
        figure=None,
        threshold=None,
        margin=None,
        sentence="not evaluated in this version: it neither passes nor fails",
    )


@dataclass(frozen=True)
class RealityCheck:
    """In sample, superior predictive ability over all cells tried."""

    number: int = 4
    name: str = "reality_check"
    title: str = "Reality check over all cells tried"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:  # noqa: ARG002
        """Never an answer in this version."""
        return _not_evaluated(self)


@dataclass(frozen=True)
class ShadowReplay:
    """PnL under event-by-event replay close to the backtest's, with equal decisions."""

    number: int = 9
    name: str = "shadow_replay"
    title: str = "Shadow replay agrees with the backtest"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:  # noqa: ARG002
        """Never an answer in this version."""
        return _not_evaluated(self)
