"""Criterion 10: the verdict rests on clean data, a reproducible run and known origins."""

from dataclasses import dataclass

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.criteria.base import CriterionResult, judged
from alpha_pipeline.evaluation.evidence import GateEvidence


@dataclass(frozen=True)
class CleanInputs:
    """All data quality, reproducibility and lineage checks pass, and each kind has at least one."""

    number: int = 10
    name: str = "clean_inputs"
    title: str = "Data, reproducibility and lineage are clean"

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:  # noqa: ARG002
        """The figure is the number of failed or missing checks."""
        groups = {
            "data quality": evidence.data_quality,
            "reproducibility": evidence.reproducibility,
            "lineage": evidence.lineage,
        }
        problems = [f"no {name} check was made" for name, checks in groups.items() if not checks]
        problems += [
            f"{name}: {check.name} failed"
            for name, checks in groups.items()
            for check in checks
            if not check.passed
        ]
        count = sum(len(checks) for checks in groups.values())
        sentence = "; ".join(problems) if problems else f"all {count} checks pass"
        return judged(
            self,
            not problems,
            sentence,
            figure=float(len(problems)),
            threshold=0.0,
            margin=float(-len(problems)),
            details={f"{name.replace(' ', '_')}_checks": len(checks) for name, checks in groups.items()},
        )
