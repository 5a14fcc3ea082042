"""The verdict as a value, and as a JSON file that is the same, byte for byte, for the same evidence."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alpha_core.durable import write_atomic
from alpha_core.errors import DataError
from alpha_pipeline.evaluation.choice import ChosenCell
from alpha_pipeline.evaluation.criteria.base import CriterionResult, Detail, Status
from alpha_pipeline.results import Check

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the gate says.

    Attributes:
        passed: whether every evaluated criterion holds.
        headline: the answer in one sentence, with every reason and what was not evaluated.
        instrument: what is traded.
        criteria: all criteria in order, those not evaluated included.
        context: figures shown beside the verdict that decide nothing.
        warnings: sentences that a reader should know.
        chosen: the cell that was tested.
        oos_days: the days it was tested on.
        digests: name to content digest of every input.
    """

    passed: bool
    headline: str
    instrument: str
    criteria: Sequence[CriterionResult]
    context: Mapping[str, Detail]
    warnings: Sequence[str]
    chosen: ChosenCell
    oos_days: Sequence[str]
    digests: Mapping[str, str]

    @property
    def word(self) -> str:
        return "PASS" if self.passed else "FAIL"

    @property
    def failures(self) -> list[CriterionResult]:
        return [c for c in self.criteria if c.failed]

    @property
    def checks(self) -> list[Check]:
        """The evaluated criteria as asset checks."""
        return [
            Check(
                name=c.name,
                passed=not c.failed,
                figure=c.figure,
                threshold=c.threshold,
                description=f"{c.title}: {c.sentence}",
            )
            for c in self.criteria
            if c.status is not Status.NOT_EVALUATED
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite becomes null."""
        return _finite(
            {
                "format": FORMAT,
                "verdict": self.word,
                "passed": self.passed,
                "headline": self.headline,
                "instrument": self.instrument,
                "chosen": asdict(self.chosen),
                "oos_days": list(self.oos_days),
                "criteria": [asdict(c) for c in self.criteria],
                "context": dict(self.context),
                "warnings": list(self.warnings),
                "digests": dict(sorted(self.digests.items())),
            }
        )


def write_verdict(verdict: Verdict, path: Path) -> None:
    """Publish the verdict; a reader sees the old file or the new one."""
    text = json.dumps(verdict.to_dict(), indent=1, allow_nan=False)
    write_atomic(path, text.encode() + b"\n")


def read_verdict(path: Path) -> dict[str, Any]:
    """The stored verdict as a dictionary.

    Raises:
        DataError: no such file, or not a verdict of this format.
    """
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable verdict ({error}): run the gate again") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise DataError(f"{path} is not a verdict of format {FORMAT}: run the gate again")
    return raw


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
