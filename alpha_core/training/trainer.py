"""Truncated back-propagation over parallel streams, update by update, so that it can stop anywhere."""

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from alpha_core.cuda.bce import masked_bce
from alpha_core.cuda.graphs import Replayed
from alpha_core.errors import CheckpointError, DataError
from alpha_core.nn.network import Network, State
from alpha_core.rng import Purpose, philox_uniform_scalar
from alpha_core.training.checkpoint import load_weights, part, restore_optimizer
from alpha_core.training.config import PerceptionConfig
from alpha_core.training.mirror import mirrored_streams, parity
from alpha_core.training.ranks import Ranks
from alpha_core.training.sequences import RowData, blocks, stream_rows
from alpha_core.training.source import Batch, InputClock, source_of

KIND = "perception-training"


def rate_at(update: int, updates: int, config: PerceptionConfig) -> float:
    """Learning rate of an update: linear warm-up, then half a cosine down to 0 at the last one."""
    rising = max(1, round(config.warmup * updates))
    if update < rising:
        return config.learning_rate * (update + 1) / rising
    done = (update - rising) / max(1, updates - rising)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def _optimizer(model: nn.Module, config: PerceptionConfig, device: torch.device) -> torch.optim.AdamW:
    """AdamW that decays matrices only: pulling time constants, norms and biases to zero means nothing.

    On a GPU its rate lies on the device, so that a recorded step reads what the schedule says.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if device.type != "cuda":
        return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
    rate = torch.tensor(config.learning_rate, device=device)
    return torch.optim.AdamW(groups, lr=rate, fused=True, capturable=True)


class Trainer:
    """All that a training run is at a moment: weights, optimiser, place in the data, state, best so far.

    Args:
        model: on its device, the scaler set.
        data: training rows.
        config: protocol.
        seed: shifts where the streams are cut in each epoch.
        ranks: the processes that train together; each is given all rows and walks its share of the streams.
    """

    def __init__(
        self,
        model: Network[Any],
        data: RowData,
        config: PerceptionConfig,
        *,
        seed: int,
        ranks: Ranks | None = None,
    ) -> None:
        self.model, self.config, self.seed = model, config, seed
        self.ranks = Ranks() if ranks is None else ranks
        self.device = model.mean.device
        self.first = data.first_of_segment()
        self.rows = data.rows
        self.streams = min(config.streams, data.rows)
        self.own = self.ranks.share_of(self.streams)
        share = self.own.stop - self.own.start
        self.source = source_of(
            data, self.device, streams=share, length=config.length, resident_gib=config.resident_gib
        )
        self.clock = InputClock(self.device)
        self.optimizer = _optimizer(model, config, self.device)
        weights = torch.tensor(config.horizon_weights, device=self.device)
        self.weights = weights / weights.sum()
        self.parity = parity(data.feature_names).to(self.device) if config.mirror else None
        self.flipped = [
            mirrored_streams(self.streams, epoch)[self.own].to(self.device)[:, None, None] for epoch in (0, 1)
        ]
        self.state_names = list(model.initial_state(1).tensors())
        self.learn = self._learning()
        self.per_epoch = math.ceil(self.rows / self.streams / config.length)
        self.epoch, self.block, self.update = 0, 0, 0
        self.carried: State | None = None
        self.loss = torch.zeros((), device=self.device)
        self.best_score, self.best_epoch = -math.inf, -1
        self.best: dict[str, Tensor] = {}
        self.history: list[dict[str, float]] = []
        self.input_waits: list[float] = []

    @property
    def finished(self) -> bool:
        """All epochs done, or no better score for `patience` of them."""
        waited = self.epoch - 1 - self.best_epoch
        return self.epoch >= self.config.epochs or (self.best_epoch >= 0 and waited >= self.config.patience)

    def run(self, updates: int | None = None) -> bool:
        """Go on to the end of the epoch, or for at most `updates` updates; whether it is done."""
        length = math.ceil(self.rows / self.streams)
        # Other cuts in each epoch, so that the rows after a cut are not always the ones without memory.
        offset = int(length * philox_uniform_scalar(self.seed, self.epoch, 0, Purpose.SHUFFLE))
        positions, used = stream_rows(self.rows, self.streams, offset)
        walk = blocks(positions[self.own], used[self.own], self.first, self.config.length, self.block)
        with closing(self.source.batches(islice(walk, updates))) as batches:
            for batch in self.clock.timed(batches):
                self.loss += self._update(batch)
                self.block += 1
        return self.block >= self.per_epoch

    def _learning(self) -> Replayed:
        """`_learn`, from a graph where one process trains a network that can be recorded on a GPU."""
        return Replayed(
            self._learn, on=self.device.type == "cuda" and self.model.steady and self.ranks.size == 1
        )

    def _update(self, batch: Batch) -> Tensor:
        """One step on a block; its loss."""
        self._set_rate()
        x, up = self._seen(batch.x, batch.up)
        carried = self.model.initial_state(len(x)) if self.carried is None else self.carried
        resets = () if batch.reset is None else (batch.reset,)
        if not resets and self.device.type == "cuda":
            # A recorded step cannot be told that no row starts afresh in any other way.
            resets = (torch.zeros_like(batch.seconds, dtype=torch.bool),)
        loss, *after = self.learn(x, batch.seconds, up, batch.mask, *carried.tensors().values(), *resets)
        self.carried = self._state(after)
        self.update += 1
        return loss

    def _state(self, values: Sequence[Tensor]) -> State:
        return self.model.state_from(dict(zip(self.state_names, values, strict=True)))

    def _set_rate(self) -> None:
        rate = rate_at(self.update, self.per_epoch * self.config.epochs, self.config)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _learn(
        self, x: Tensor, seconds: Tensor, up: Tensor, mask: Tensor, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient and step on a block.

        Args:
            x: [B, T, F].
            seconds: [B, T].
            up: [B, T, H].
            mask: [B, T, H].
            rest: the state before the block, and where given the rows [B, T] that start afresh.

        Returns:
            loss and the state after the block.
        """
        count = len(self.state_names)
        state, reset = self._state(rest[:count]), next(iter(rest[count:]), None)
        half = self.config.autocast and self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            logits, after = self.model(x, seconds, state, reset)
        loss = masked_bce(logits, up, mask, self._weights(mask))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        loss = loss.detach()
        self.ranks.add_up([loss, *(p.grad for p in self.model.parameters() if p.grad is not None)])
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.gradient_clip)
        self.optimizer.step()
        return loss, *after.detach().tensors().values()

    def _weights(self, mask: Tensor) -> Tensor:
        """Weights [H] of the means over a process's own rows that make the sum over processes the mean over all."""
        if self.ranks.size == 1:
            return self.weights
        own = mask.sum((0, 1))
        everywhere = own.clone()
        self.ranks.add_up([everywhere])
        return self.weights * own / everywhere.clamp(min=1)

    def _seen(self, x: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        """Features and directions of a block, with this epoch's streams in the mirror."""
        if self.parity is None:
            return x, up
        flipped = self.flipped[self.epoch % 2]
        return torch.where(flipped, x * self.parity, x), torch.where(flipped, 1 - up, up)

    def close_epoch(self, score: float, record: dict[str, float]) -> dict[str, float]:
        """Book an epoch and its validation score; keep the weights when they are the best so far.

        Raises:
            DataError: the loss is not finite.
        """
        loss = self.loss.item() / self.per_epoch
        if not math.isfinite(loss):
            raise DataError(
                f"training loss was {loss} in epoch {self.epoch}, must be finite: lower learning_rate "
                f"(was {self.config.learning_rate}) or look for extreme features"
            )
        if score > self.best_score:
            self.best_score, self.best_epoch = score, self.epoch
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        rate = rate_at(self.update - 1, self.per_epoch * self.config.epochs, self.config)
        entry = {"epoch": float(self.epoch), "loss": loss, "learning_rate": rate, **record}
        self.history.append(entry)
        self.input_waits.append(self.clock.share())
        self.epoch, self.block, self.carried = self.epoch + 1, 0, None
        self.loss = torch.zeros_like(self.loss)
        return entry

    def snapshot(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which `restore` goes on with the same bits; a call in every process."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for index, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{slot}": value for slot, value in slots.items()}
        tensors["loss"] = self.loss
        if self.carried is not None:
            for name, value in self.carried.tensors().items():
                tensors[f"carried.{name}"] = self.ranks.joined(value, self.streams)
        document = {
            "kind": KIND,
            "config": asdict(self.config),
            "seed": self.seed,
            "rows": self.rows,
            "epoch": self.epoch,
            "block": self.block,
            "update": self.update,
            "best_epoch": self.best_epoch,
            "best_score": self.best_score if self.best_epoch >= 0 else None,
            "history": self.history,
            "input_waits": self.input_waits,
        }
        return tensors, document

    def restore(self, tensors: dict[str, Tensor], document: dict[str, Any]) -> None:
        """Continue where `snapshot` was taken, with the same data, configuration and seed.

        Raises:
            CheckpointError: the snapshot is of another run; the differing fields are named and nothing is changed.
        """
        if document.get("kind") != KIND:
            raise CheckpointError(f"it holds a '{document.get('kind')}', must be a '{KIND}': give its folder")
        own = {**asdict(self.config), "seed": self.seed, "rows": self.rows}
        stored = {**document["config"], "seed": document["seed"], "rows": document["rows"]}
        differing = [name for name, value in own.items() if _plain(value) != _plain(stored.get(name))]
        if differing:
            raise CheckpointError(
                f"training state is of another run, {', '.join(differing)} differ: use its settings"
            )
        self.learn = self._learning()
        load_weights(self.model, part(tensors, "model."), "training state")
        self.best = {name: value.to(self.device) for name, value in part(tensors, "best.").items()}
        restore_optimizer(self.optimizer, part(tensors, "optimizer."))
        self.loss = tensors["loss"].to(self.device)
        carried = {name: value[self.own].to(self.device) for name, value in part(tensors, "carried.").items()}
        self.carried = self.model.state_from(carried) if carried else None
        self.epoch, self.block, self.update = document["epoch"], document["block"], document["update"]
        self.best_epoch = document["best_epoch"]
        self.best_score = -math.inf if document["best_score"] is None else document["best_score"]
        self.history, self.input_waits = document["history"], document["input_waits"]


def _plain(value: Any) -> Any:
    """Tuples as lists: what a value looks like after a trip through JSON."""
    return list(value) if isinstance(value, tuple) else value
