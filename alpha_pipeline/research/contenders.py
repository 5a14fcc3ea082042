"""The production network, its ablations, the field's references and two baselines, measured on the same rows."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl
from torch import Tensor

from alpha_core.errors import ConfigError
from alpha_core.training.baselines import persistence_logits, touch_logits
from alpha_core.training.perception import HorizonMetrics, predict_logits
from alpha_core.training.sequences import SequenceData
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.evaluation.splits import RowRange
from alpha_pipeline.research.fitting import fit_alpha
from alpha_pipeline.research.rows import Rows
from alpha_pipeline.research.scoring import named_figures, scored
from alpha_pipeline.results import StageResult

PRODUCTION = "production"

NETWORKS: Mapping[str, Mapping[str, Any]] = {
    PRODUCTION: {},
    "bypass vsn": {"vsn": False},
    "bypass mamba2": {"layers": 0},
    "bypass cfc": {"cfc": False},
    "head linear": {"head": "linear"},
    "head mlp": {"head": "mlp"},
    "deeplob": {"network": "deeplob"},
    "tlob": {"network": "tlob"},
    "mlplob": {"network": "mlplob"},
}
"""Name to what it changes in the instrument's `[perception]`; everything else is the same, the seed included."""

BASELINES: Mapping[str, Callable[[SequenceData, SequenceData], Tensor]] = {
    "logistic": touch_logits,
    "persistence": persistence_logits,
}
"""Name to a function of (training rows, rows asked) that gives logits [n, 5]; nothing is stopped or calibrated."""

_RESAMPLES = 200


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One contender's record.

    Attributes:
        name: of NETWORKS or BASELINES.
        scores: figures per horizon on the validation rows.
        result: what the tracking store keeps, under the names that the stage `perception_model` uses.
    """

    name: str
    scores: Sequence[HorizonMetrics]
    result: StageResult


def chosen_names(names: Sequence[str]) -> list[str]:
    """Production, the contenders named and the baselines, in the order of the tables; all when none is named.

    Raises:
        ConfigError: no contender has such a name.
    """
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        raise ConfigError(f"no contender is called {', '.join(unknown)}: name one of {', '.join(NETWORKS)}")
    return [name for name in NETWORKS if name == PRODUCTION or not names or name in names] + list(BASELINES)


def measured(
    name: str,
    rows: Rows,
    train: RowRange,
    validation: RowRange,
    config: PipelineConfig,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> Measured:
    """Fit one contender on the training rows and measure it on the validation rows.

    Raises:
        DataError: the rows cannot serve, see `fit_perception`.
    """
    began = time.monotonic()
    if name in BASELINES:
        logits = BASELINES[name](rows.part(train), rows.part(validation))
        figures, params, history = {}, {}, {}
    else:
        changed = replace(config.perception, **NETWORKS[name])
        fit = fit_alpha(rows, train, validation, config.model_copy(update={"perception": changed}), on_epoch)
        logits = predict_logits(fit, rows.part(validation))
        weights = sum(parameter.numel() for parameter in fit.model.parameters())
        figures = {"best_epoch": float(fit.best_epoch), "weights": float(weights)}
        params = asdict(changed)
        history = {key: [record[key] for record in fit.history] for key in fit.history[0]}
    scores = scored(logits, rows, validation, resamples=_RESAMPLES, seed=config.seed)
    figures |= {"train_rows": float(len(train)), "seconds": time.monotonic() - began}
    result = StageResult(
        metrics=named_figures(scores) | figures,
        params={"contender": name, "seed": config.seed} | params,
        history=history,
    )
    return Measured(name=name, scores=scores, result=result)


def league_table(found: Sequence[Measured]) -> pl.DataFrame:
    """One line per contender and horizon, best AUC first within a horizon, undefined ones last."""
    kept = ("horizon", "n", "auc", "auc_low", "auc_high", "brier", "mcc")
    lines = [
        {"contender": one.name} | {key: getattr(score, key) for key in kept}
        for one in found
        for score in one.scores
    ]
    table = pl.DataFrame(lines, infer_schema_length=None)
    return table.sort(["horizon", "auc"], descending=[False, True], nulls_last=True, maintain_order=True)
