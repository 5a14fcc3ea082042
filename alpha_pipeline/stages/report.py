"""One self-contained page per run, drawn from stored artifacts alone: what it shows can be traced to a file."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

import polars as pl

from alpha_pipeline.artifacts import WHOLE, Artifact
from alpha_pipeline.evaluation.verdict import read_verdict
from alpha_pipeline.provenance import git_revision
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.judged_days import report_section
from alpha_pipeline.stages.oos_gate import VERDICT_FILE

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from alpha_pipeline.report.html import Section

VERSION = "1"
FILE = "report.html"
_SECTIONS = (
    (
        "fill_model",
        "Fill model",
        "How often passive orders were filled, and how often the model said they would be.",
    ),
    (
        "random_baseline",
        "Random baseline",
        "What uniformly drawn actions earn: the anchor of every comparison.",
    ),
    (
        "perception_model",
        "Perception",
        "P(up) at five horizons, on in-sample validation rows behind a purge.",
    ),
    ("execution_policy", "Execution policy", "Training of the policy in replayed in-sample validation rows."),
    (
        "backtest_grid",
        "Backtest grid, in sample",
        "On rows the policy was trained on: to explore, not to believe.",
    ),
    ("walk_forward", "Walk-forward", "Folds fitted from nothing, shown on rows none of their fits had seen."),
    ("oos_gate", "Out of sample", "The chosen cell on days that nothing was fitted or chosen on."),
)


def run(context: StageContext) -> StageResult:
    """Gather tables and figures of all stages and write the page."""
    from alpha_pipeline.report.html import ReportInputs, render_report

    inputs = ReportInputs(
        title=f"{context.config.name}: verdict and how it was reached",
        instrument=context.config.name,
        verdict=read_verdict(context.upstream("oos_gate") / VERDICT_FILE),
        sections=[report_section(context.scope), *(_section(context, *entry) for entry in _SECTIONS)],
        lineage=dict(_lineage(context)),
    )
    path = render_report(inputs, context.out / FILE)
    context.scope.report(f"report: {path}")
    return StageResult(metrics={"bytes": float(path.stat().st_size)}, params={"file": FILE})


def _section(context: StageContext, stage: str, title: str, text: str) -> "Section":
    from alpha_pipeline.report.html import Section

    artifact = context.store.get(stage)
    metrics = artifact.result["metrics"]
    figures = pl.DataFrame(
        {"metric": list(metrics), "value": list(metrics.values())}, schema_overrides={"value": pl.Float64}
    )
    return Section(
        title=title,
        text=text,
        figures=list(_figures(artifact)),
        tables=[("Figures", figures), *_tables(artifact)],
    )


def _figures(artifact: Artifact) -> "Iterator[go.Figure]":
    import plotly.io

    for name in artifact.result["figures"]:
        yield plotly.io.from_json((artifact.path / "figures" / f"{name}.json").read_text())


def _tables(artifact: Artifact) -> Iterator[tuple[str, pl.DataFrame]]:
    for name in artifact.result["tables"]:
        yield name, pl.read_parquet(artifact.path / "tables" / f"{name}.parquet")


def _lineage(context: StageContext) -> Iterator[tuple[str, str]]:
    yield "code revision", git_revision()
    yield "seed", str(context.config.seed)
    yield "device", context.config.device
    for package in ("torch", "numpy", "polars", "dagster", "mlflow"):
        yield package, version(package)
    days = context.scope.days(Days.ALL)
    for edge in ("mbp10_snapshots", "trades", "data_quality", "fxcache", *(name for name, _, _ in _SECTIONS)):
        per_day = context.store.find(edge, WHOLE) is None
        for partition in days if per_day else [WHOLE]:
            artifact = context.store.get(edge, partition)
            name = f"{edge} {partition}" if per_day else edge
            yield (
                name,
                f"content {artifact.digest}, code {artifact.stamp.code}, config {artifact.stamp.config[:12]}",
            )


STAGE = Stage(
    name="report",
    description="One self-contained HTML page: verdict, data, models, grid, folds, lineage.",
    group="evaluation",
    kinds=frozenset({"plotly", "html"}),
    per_day=False,
    upstream=(
        Upstream(stage="data_quality", days=Days.JUDGED),
        *(Upstream(stage=name, days=Days.WHOLE) for name, _, _ in _SECTIONS),
    ),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda _: None,
    run=run,
)
