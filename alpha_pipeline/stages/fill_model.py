"""How likely a passive order is to be filled, fitted on the in-sample training rows."""

import dataclasses

from alpha_pipeline.fills.coefficients import write_coefficients
from alpha_pipeline.report.figures import fill_calibration_figure
from alpha_pipeline.research.fitting import fit_fills
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.models import FILL_FILE, in_sample

VERSION = "1"


def run(context: StageContext) -> StageResult:
    """Fit, judge on the later part of the window, and store the coefficients with their uncertainty."""
    sample = in_sample(context.scope)
    fit = fit_fills(sample.rows, sample.train, context.config)
    digests = {day: context.store.get("fxcache", day).digest for day in sample.rows.days}
    write_coefficients(fit.coefficients.model_copy(update={"digests": digests}), context.out / FILL_FILE)
    context.scope.report(
        f"fill model: {fit.coefficients.fills} fills in {fit.coefficients.exposures} exposures"
    )
    return StageResult(
        metrics=dict(fit.metrics),
        params=dataclasses.asdict(context.config.fills),
        tables=dict(fit.tables),
        figures={"fill_calibration": fill_calibration_figure(fit.tables["calibration"])}
        if fit.fitted
        else {},
        checks=fit.checks,
    )


STAGE = Stage(
    name="fill_model",
    description="Poisson regression of the fill intensity per side and level, with a queue replay as its referee.",
    group="training",
    kinds=frozenset({"torch", "glum"}),
    per_day=False,
    upstream=(Upstream(stage="fxcache", days=Days.IN_SAMPLE),),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: [c.fills, c.walk_forward],
    run=run,
    checks={
        "fill_model_fitted": True,
        "fill_calibration": False,
        "fill_dispersion": False,
        "fill_agreement": False,
    },
)
