"""P(up) at five horizons, trained on the in-sample days."""

import polars as pl

from alpha_core.shapes import HORIZONS
from alpha_core.training.perception import feature_gates, perception_metrics, predict_logits, save_perception
from alpha_pipeline.report.figures import (
    auc_figure,
    calibration_figure,
    feature_gate_figure,
    learning_curve_figure,
)
from alpha_pipeline.research.fitting import fit_alpha
from alpha_pipeline.results import Check, StageResult
from alpha_pipeline.stages.base import Days, Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of
from alpha_pipeline.stages.models import PERCEPTION_FOLDER, in_sample

VERSION = "1"
_BLOCK, _RESAMPLES = 500, 200


def run(context: StageContext) -> StageResult:
    """Train, stop early on the purged validation rows, calibrate, and say how good it is there."""
    config, sample = context.config, in_sample(context)

    def tell(epoch: dict[str, float]) -> None:
        context.scope.report(
            f"perception: {', '.join(f'{k} {v:.4g}' for k, v in epoch.items() if 'auc' not in k)}"
        )

    fit = fit_alpha(sample.rows, sample.train, sample.validation, config, on_epoch=tell)
    save_perception(fit, context.out / PERCEPTION_FOLDER)
    validation = sample.rows.part(sample.validation)
    logits = predict_logits(fit, validation)
    scores = perception_metrics(logits, validation, block=_BLOCK, resamples=_RESAMPLES, seed=config.seed)
    traded = scores[config.gate.horizon_index]
    gates = feature_gates(fit, validation.features)
    return StageResult(
        metrics={f"auc_{s.horizon}": s.auc for s in scores if s.auc is not None}
        | {f"brier_{s.horizon}": s.brier for s in scores if s.brier is not None}
        | {"best_epoch": float(fit.best_epoch), "train_rows": float(len(sample.train))},
        params={"hidden": config.perception.hidden, "seed": config.seed, "horizons": str(HORIZONS)},
        tables={"validation": pl.DataFrame([_flat(s.to_dict()) for s in scores])},
        figures={
            "auc": auc_figure(scores),
            "calibration": calibration_figure(scores),
            "learning": learning_curve_figure(fit.history),
            "gates": feature_gate_figure(
                dict(zip(sample.rows.market.feature_names, gates.tolist(), strict=True))
            ),
        },
        checks=[_floor(traded.horizon, traded.auc_low)],
        history={k: [record[k] for record in fit.history] for k in fit.history[0]},
    )


def _flat(record: dict) -> dict:
    return {k: v for k, v in record.items() if k != "bins"}


def _floor(horizon: int, auc_low: float | None) -> Check:
    return Check(
        name="auc_above_chance",
        passed=auc_low is not None and auc_low > 0.5,
        figure=auc_low,
        threshold=0.5,
        description=f"lower 95 % bound of the validation AUC at {horizon} snapshots must be above 0.5",
    )


STAGE = Stage(
    name="perception_model",
    description="P(up) at five horizons: variable selection, Mamba2, closed-form continuous time, gated heads.",
    group="training",
    kinds=frozenset({"torch"}),
    per_day=False,
    upstream=(Upstream(stage="fxcache", days=Days.IN_SAMPLE),),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda c: [c.perception, c.walk_forward, c.gate.horizon_index, c.numerics],
    run=run,
    checks={"auc_above_chance": False},
)
