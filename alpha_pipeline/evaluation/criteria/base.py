"""What a criterion is and what it answers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.evaluation.evidence import GateEvidence

Detail = float | int | str | bool | None


class Status(StrEnum):
    """Answer of a criterion; what was not evaluated neither passes nor fails."""

    PASS = "pass"
    FAIL = "fail"
    NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True, kw_only=True)
class CriterionResult:
    """One line of the verdict.

    Attributes:
        number: its number in the rules of the gate; 0 is the precondition of all.
        name: snake_case identity.
        title: a few words for people.
        status: the answer.
        figure: what was measured, None when it could not be.
        threshold: what it is held against.
        margin: distance to the threshold on the passing side, negative when it fails.
        sentence: the answer in words, with units.
        details: further figures.
    """

    number: int
    name: str
    title: str
    status: Status
    figure: float | None
    threshold: float | None
    margin: float | None
    sentence: str
    details: Mapping[str, Detail] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.status is Status.FAIL


class Criterion(Protocol):
    """One rule of the gate."""

    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...

    def assess(self, evidence: GateEvidence, config: GateConfig) -> CriterionResult:
        """Judge the evidence. Bad evidence is a failure with its reason, not an error."""
        ...


def smallest(values: Iterable[float]) -> float:
    """The smallest value, NaN when any is not finite: min() alone would overlook a NaN in second place."""
    numbers = list(values)
    return min(numbers) if all(math.isfinite(v) for v in numbers) else math.nan


def judged(
    criterion: Criterion,
    passed: bool,
    sentence: str,
    *,
    figure: float | None = None,
    threshold: float | None = None,
    margin: float | None = None,
    details: Mapping[str, Detail] | None = None,
) -> CriterionResult:
    """An evaluated result. A figure that is not finite never passes."""
    finite = all(value is None or math.isfinite(value) for value in (figure, threshold, margin))
    return CriterionResult(
        number=criterion.number,
        name=criterion.name,
        title=criterion.title,
        status=Status.PASS if passed and finite else Status.FAIL,
        figure=figure if finite else None,
        threshold=threshold,
        margin=margin if finite else None,
        sentence=sentence if finite else f"{sentence} (a figure is not finite)",
        details=details or {},
    )
