"""Criterion 2: none of the policy's circuit breakers has opened."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged
from alpha_pipeline.evaluation.evidence import GateEvidence


@dataclass(frozen=True)
class KillCriteria:
    """Every kill criterion was measured and holds."""

    number: int = 2
    name: str = "kill_criteria"
    title: str = "Kill criteria hold"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:  # noqa: ARG002
        """The figure is the number of failed criteria."""
        checks = evidence.kill_criteria
        if not checks:
            return judged(self, False, "no kill criterion was measured", threshold=0.0)
        broken = [c for c in checks if not c.passed or c.figure is None]
        names = ", ".join(f"{c.name} = {_shown(c.figure)} (bound {_shown(c.threshold)})" for c in broken)
        sentence = f"failed: {names}" if broken else f"all {len(checks)} kill criteria hold"
        return judged(
            self,
            not broken,
            sentence,
            figure=float(len(broken)),
            threshold=0.0,
            margin=float(-len(broken)),
            details={c.name: c.figure for c in checks},
        )


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"
