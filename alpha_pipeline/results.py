"""What a stage hands back: figures a person can read, checks a gate can act on. No orchestration here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class Check:
    """One yes-or-no statement with the figure and the threshold it rests on.

    Attributes:
        name: snake_case identity, unique within its stage.
        passed: the answer.
        figure: the measured value, None when it could not be computed (which never passes).
        threshold: the bound the figure is held against, None when there is no single bound.
        description: one sentence with units and the rule, for people.
        blocking: whether a failure stops what lies downstream.
    """

    name: str
    passed: bool
    figure: float | None
    threshold: float | None
    description: str
    blocking: bool = False


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """Everything a stage wants people to see. What it computed lies in its artifact directory.

    Attributes:
        metrics: numbers to compare between runs.
        params: settings that produced them.
        tables: small tables for the report and the web page.
        figures: Plotly figures by title.
        documents: nested facts for the orchestrator's page, each as one JSON document.
        checks: statements to enforce or to show.
        history: per-step metrics, name -> values by step.
        status: `ok`, or a word that makes consumers leave the artifact out, such as `empty`.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    tables: Mapping[str, "pl.DataFrame"] = field(default_factory=dict)
    figures: Mapping[str, "go.Figure"] = field(default_factory=dict)
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    status: str = "ok"

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if not check.passed]
