"""Fitting the perception, running it, keeping it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alpha_core.errors import CheckpointError, ConfigError, DataError
from alpha_core.metrics.calibration import fit_temperature, log_loss
from alpha_core.nn.network import Network
from alpha_core.nn.networks import make_network
from alpha_core.rng import Purpose, generator_for
from alpha_core.shapes import HORIZONS
from alpha_core.training.checkpoint import load_checkpoint, load_weights, save_checkpoint
from alpha_core.training.config import PerceptionConfig
from alpha_core.training.inference import logits_of, mean_gate
from alpha_core.training.mirror import parity
from alpha_core.training.ranks import Ranks
from alpha_core.training.resume import Keeper, Resume
from alpha_core.training.scoring import HorizonMetrics, aucs, direction, perception_metrics
from alpha_core.training.sequences import RowData, SequenceData
from alpha_core.training.trainer import Trainer

__all__ = [
    "HorizonMetrics",
    "PerceptionConfig",
    "PerceptionFit",
    "Resume",
    "SequenceData",
    "feature_gates",
    "fit_perception",
    "load_perception",
    "perception_metrics",
    "predict_logits",
    "save_perception",
]

KIND = "perception"


@dataclass(frozen=True, kw_only=True)
class PerceptionFit:
    """A trained perception: the scaler and the temperatures are part of the model.

    Attributes:
        model: the weights of the best epoch, calibrated.
        config: what it was trained with.
        seed: of the first weights and of the cuts of the streams.
        feature_names: columns of the training rows, empty when they had no names.
        history: one record per epoch (loss, validation loss, AUC per horizon).
        best_epoch: position in `history` of the weights kept.
        input_waits: share of each epoch's training time in which the device waited for rows; not kept in files,
            whose bytes depend on the result alone.
    """

    model: Network[Any]
    config: PerceptionConfig
    seed: int
    feature_names: tuple[str, ...]
    history: tuple[dict[str, float], ...]
    best_epoch: int
    input_waits: tuple[float, ...] = ()


def fit_perception(
    train: RowData,
    validation: SequenceData,
    config: PerceptionConfig,
    *,
    seed: int,
    device: str | torch.device = "cpu",
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    resume: Resume | None = None,
    ranks: Ranks | None = None,
) -> PerceptionFit:
    """Train on one stretch of rows, stop early and calibrate on another that lies after a purge.

    Args:
        train: rows from which the scaler and the weights are fitted.
        validation: rows for early stopping (mean AUC) and the temperatures; purged by the caller.
        config: architecture and protocol.
        seed: same seed, data, configuration and device class give the same weights.
        device: where to train.
        on_epoch: called with each epoch's record and its `input_wait`, see PerceptionFit; not again for epochs that
            a resumed run had done before.
        resume: where the run keeps its state, from which the same call goes on after a kill with the same result.
        ranks: processes that train together, each of which makes this call with the same rows; they say the device,
            the first one alone calls `on_epoch` and writes, and all return the same fit.

    Raises:
        ConfigError: torch cannot use the device here, or there are fewer streams than processes.
        DataError: NaN or infinity in the rows, no label to learn from, one class only, or a diverging loss.
    """
    ranks = Ranks(device=usable_device(device)) if ranks is None else ranks
    for name, data in (("training", train), ("validation", validation)):
        data.require_finite()
        if not bool(data.mask.any()):
            raise DataError(
                f"{name} rows hold no label with a direction among {data.rows}: give it more rows"
            )
    _require_same_features(train.feature_names, validation)
    model = new_model(train, config, seed=seed).to(ranks.device)
    trainer = Trainer(model, train, config, seed=seed, ranks=ranks)
    keeper = None if resume is None else Keeper(resume, trainer, train, validation)
    if keeper is not None:
        keeper.restore()
    while not trainer.finished:
        _run_epoch(trainer, keeper)
        entry = trainer.close_epoch(*ranks.agreed(_validate(model, validation, config)))
        if keeper is not None:
            keeper.save()
        if on_epoch is not None and ranks.first:
            on_epoch({**entry, "input_wait": trainer.input_waits[-1]})
    model.load_state_dict(trainer.best)
    _calibrate(model, validation)
    return PerceptionFit(
        model=model,
        config=config,
        seed=seed,
        feature_names=train.feature_names,
        history=tuple(trainer.history),
        best_epoch=trainer.best_epoch,
        input_waits=tuple(trainer.input_waits),
    )


def _run_epoch(trainer: Trainer, keeper: Keeper | None) -> None:
    """To the end of the epoch, saving on the way."""
    while not trainer.run(None if keeper is None else keeper.resume.every):
        if keeper is not None:
            keeper.save()


def usable_device(device: str | torch.device) -> torch.device:
    """The device with its index. Raises ConfigError when torch cannot put a tensor there."""
    try:
        return torch.zeros((), device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ConfigError(f"device was '{device}', must be one that torch can use here: {reason}") from error


def new_model(train: RowData, config: PerceptionConfig, *, seed: int) -> Network[Any]:
    """Untrained network on the host whose scaler knows the training rows; constant features keep scale 1.

    With `mirror`, features that change sign in the mirror have mean 0: that of the rows and their images.
    """
    model = make_network(config, train.feature_names, generator=generator_for(seed, Purpose.INITIALISE))
    chunks = train.feature_chunks
    mean = torch.stack([rows.double().sum(0) for _, rows in chunks()]).sum(0) / train.rows
    if config.mirror:
        mean = mean.masked_fill(parity(train.feature_names) < 0, 0.0)
    squares = [(rows.double() - mean).square().sum(0) for _, rows in chunks()]
    spread = (torch.stack(squares).sum(0) / train.rows).sqrt()
    model.mean.copy_(mean)
    model.scale.copy_(torch.where(spread > 0, spread, 1.0))
    return model


def _validate(
    model: Network[Any], data: SequenceData, config: PerceptionConfig
) -> tuple[float, dict[str, float]]:
    """Mean AUC, weighted as the loss is, over the horizons that have both classes; and the epoch's record."""
    logits = logits_of(model, data)
    areas = {h: area for h, area in zip(HORIZONS, aucs(logits, data), strict=True) if area is not None}
    weights = {h: w for h, w in zip(HORIZONS, config.horizon_weights, strict=True) if h in areas}
    if not sum(weights.values()):
        raise DataError(
            f"validation has one class only at every horizon in {data.rows} rows: give it more rows"
        )
    mean = sum(weights[h] * areas[h] for h in areas) / sum(weights.values())
    record = {"validation_auc": mean}
    record |= {f"validation_auc_{h}": area for h, area in areas.items()}
    losses = [_validation_loss(logits, data, column) for column in range(len(HORIZONS))]
    defined = [loss for loss in losses if loss is not None]
    return mean, {**record, "validation_loss": sum(defined) / len(defined)}


def _validation_loss(logits: Tensor, data: SequenceData, column: int) -> float | None:
    mask, up = direction(data, column)
    return log_loss(up, logits[:, column].numpy()[mask])


def _calibrate(model: Network[Any], data: SequenceData) -> None:
    """Set the temperature of each horizon that minimises the validation log loss."""
    logits = logits_of(model, data)
    for column in range(len(HORIZONS)):
        mask, up = direction(data, column)
        model.temperature[column] *= fit_temperature(up, logits[:, column].numpy()[mask])


def _require_same_features(names: tuple[str, ...], data: SequenceData) -> None:
    if names and data.feature_names and names != data.feature_names:
        pairs = zip(names, data.feature_names, strict=True)
        index, (own, other) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
        raise DataError(
            f"feature {index} was '{other}', the model was trained with '{own}': rebuild the cache"
        )


def predict_logits(fit: PerceptionFit, data: SequenceData) -> Tensor:
    """Calibrated logits [N, 5] float32 on the host; causal, state carried inside segments, cleared between.

    Raises:
        DataError: NaN or infinity in the rows, or other features than the model was trained with.
    """
    data.require_finite()
    _require_same_features(fit.feature_names, data)
    return logits_of(fit.model, data)


def feature_gates(fit: PerceptionFit, features: Tensor) -> Tensor:
    """Mean share of attention per feature over raw rows [n, 40], for example those of one regime; [40]."""
    return mean_gate(fit.model, features)


def save_perception(fit: PerceptionFit, directory: Path) -> Path:
    """Publish a fit in a folder, weights and JSON as one. Returns the path of the JSON document."""
    document = {
        "kind": KIND,
        "config": asdict(fit.config),
        "seed": fit.seed,
        "feature_names": list(fit.feature_names),
        "history": list(fit.history),
        "best_epoch": fit.best_epoch,
    }
    return save_checkpoint(directory, fit.model.state_dict(), document)


def load_perception(directory: Path) -> PerceptionFit:
    """The fit that `save_perception` stored, on the host.

    Raises:
        CheckpointError: absent, damaged, of another kind, or weights that do not fit the configuration.
    """
    tensors, document = load_checkpoint(directory)
    if document.get("kind") != KIND:
        raise CheckpointError(
            f"{directory} holds a '{document.get('kind')}', must be a '{KIND}': give its folder"
        )
    missing = {"config", "seed", "feature_names", "history", "best_epoch"} - document.keys()
    if missing:
        raise CheckpointError(f"{directory}: the document lacks {sorted(missing)}: restore it or train again")
    config = _stored_config(document["config"], directory)
    names = tuple(document["feature_names"])
    model = make_network(config, names, generator=torch.Generator())
    load_weights(model, tensors, str(directory))
    return PerceptionFit(
        model=model,
        config=config,
        seed=int(document["seed"]),
        feature_names=names,
        history=tuple(document["history"]),
        best_epoch=int(document["best_epoch"]),
    )


def _stored_config(stored: Any, directory: Path) -> PerceptionConfig:
    known = {field.name for field in fields(PerceptionConfig)}
    if not isinstance(stored, dict) or stored.keys() != known:
        names = sorted(known ^ set(stored or ()))
        raise CheckpointError(
            f"{directory}: configuration fields {names} differ from this version's: train again"
        )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    try:
        return PerceptionConfig(**values)
    except (ConfigError, TypeError) as error:
        raise CheckpointError(
            f"{directory}: stored configuration is not valid ({error}): train again"
        ) from error
