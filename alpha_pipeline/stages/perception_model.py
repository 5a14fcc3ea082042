"""P(up) at five horizons, trained on the in-sample days."""

from collections.abc import Sequence

import polars as pl

from alpha_core.metrics.auc import LEAKAGE_ACCURACY, LEAKAGE_AUC
from alpha_core.shapes import HORIZONS
from alpha_core.training.perception import (
    HorizonMetrics,
    Resume,
    feature_gates,
    predict_logits,
    save_perception,
)
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.evaluation.config import BLOCK
from alpha_pipeline.report.figures import (
    auc_figure,
    calibration_figure,
    feature_gate_figure,
    learning_curve_figure,
)
from alpha_pipeline.research.fitting import fit_alpha
from alpha_pipeline.research.scoring import named_figures, scored
from alpha_pipeline.results import Check, StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.models import PERCEPTION_FOLDER, in_sample

VERSION = "1"
_RESAMPLES = 200
_CHANCE = 0.5


def run(context: StageContext) -> StageResult:
    """Train, stop early on the purged validation rows, calibrate, and say how good it is there."""
    config, sample = context.config, in_sample(context.scope)

    def tell(epoch: dict[str, float]) -> None:
        context.scope.report(
            f"perception: {', '.join(f'{k} {v:.4g}' for k, v in epoch.items() if 'auc' not in k)}"
        )

    resume = Resume(folder=context.work, report=context.scope.report)
    fit = fit_alpha(sample.rows, sample.train, sample.validation, config, on_epoch=tell, resume=resume)
    save_perception(fit, context.out / PERCEPTION_FOLDER)
    validation = sample.rows.part(sample.validation)
    logits = predict_logits(fit, validation)
    scores = scored(logits, sample.rows, sample.validation, resamples=_RESAMPLES, seed=config.seed)
    gates = feature_gates(fit, validation.features)
    return StageResult(
        metrics=named_figures(scores)
        | {"best_epoch": float(fit.best_epoch), "train_rows": float(len(sample.train))},
        params={"hidden": config.perception.hidden, "seed": config.seed, "horizons": str(HORIZONS)},
        tables={"validation": pl.DataFrame([_flat(s.to_dict()) for s in scores])},
        figures={
            "auc": auc_figure(scores),
            "calibration": calibration_figure(scores),
            "learning": learning_curve_figure(fit.history),
            "gates": feature_gate_figure(
                dict(zip(sample.rows.mapped.feature_names, gates.tolist(), strict=True))
            ),
        },
        checks=[floor_check(scores[config.gate.horizon_index], config), leak_check(scores, config)],
        history={k: [record[k] for record in fit.history] for k in fit.history[0]}
        | {"input_wait": fit.input_waits},
    )


def _flat(record: dict) -> dict:
    return {k: v for k, v in record.items() if k != "bins"}


def floor_check(traded: HorizonMetrics, config: PipelineConfig) -> Check:
    """What lies downstream is not trained on a perception at chance, unless that is to be seen."""
    low = traded.auc_low
    said = f"{traded.n} labels are too few for a bound" if low is None else f"{low:.4f}"
    return Check(
        name="auc_above_chance",
        passed=low is not None and low > _CHANCE,
        figure=low,
        threshold=_CHANCE,
        description=f"lower 95 % bound of the validation AUC at {traded.horizon} snapshots: {said}, must be above "
        f"{_CHANCE}",
        blocking=config.gate.perception_floor == BLOCK,
    )


def leak_check(scores: Sequence[HorizonMetrics], config: PipelineConfig) -> Check:
    """Figures too good to be honest; a simulated market may be as easy as its author likes."""
    simulated = config.simulator is not None
    suspect = [] if simulated else [_too_good(score) for score in scores if score.leakage]
    rule = (
        f"AUC at most {LEAKAGE_AUC} and at most {LEAKAGE_ACCURACY:.0%} of directions right at every horizon"
    )
    told = f"suspect a leak before believing it: {'; '.join(suspect)}" if suspect else rule
    return Check(
        name="no_leak_suspected",
        passed=not suspect,
        figure=max((score.auc for score in scores if score.auc is not None), default=None),
        threshold=LEAKAGE_AUC,
        description=f"{told}; not held against a simulated market" if simulated else told,
    )


def _too_good(score: HorizonMetrics) -> str:
    right, rises = score.accuracy or 0.0, score.positive or 0.0
    return (
        f"at {score.horizon} snapshots the validation AUC is {score.auc:.3f} and {right:.0%} of directions are right "
        f"(always saying the commoner one: {max(rises, 1 - rises):.0%})"
    )


STAGE = Stage(
    name="perception_model",
    description="P(up) at five horizons: variable selection, Mamba2, closed-form continuous time, gated heads.",
    group="training",
    kinds=frozenset({"torch"}),
    per_day=False,
    upstream=(Upstream(stage="fxcache", days=Days.IN_SAMPLE),),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: [
        c.perception,
        c.walk_forward,
        c.gate.horizon_index,
        c.gate.perception_floor,
        c.simulator is None,
        c.numerics,
    ],
    run=run,
    checks={"auc_above_chance": True, "no_leak_suspected": False},
)
