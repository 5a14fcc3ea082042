"""Training that goes on after a kill as if nothing had happened, from a state kept in a folder.

The state is one checkpoint folder, replaced in one step, so that a process killed at any instruction leaves the one
before or the new one. What was found there is used only when everything that the weights depend on is the same:
settings, seed, rows, and what may round differently. The result is then that of an undisturbed run, bit for bit.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alpha_core.errors import CheckpointError
from alpha_core.training.checkpoint import DOCUMENT, load_checkpoint, save_checkpoint
from alpha_core.training.sequences import RowData
from alpha_core.training.tensor_file import decode_safetensors, encode_safetensors
from alpha_core.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Where a training run keeps its state.

    Attributes:
        folder: of one run; made when absent, the caller's to remove when the result is safe.
        every: updates between two saves; the end of each epoch saves as well.
        report: told in a sentence from where training goes on, why a state was left aside, what was not saved.
    """

    folder: Path
    report: Callable[[str], None]
    every: int = 500


class KeptState:
    """One run's state in its folder, used only where everything that the result depends on is the same.

    Args:
        resume: where, and who is told.
        identity: what the result depends on, by a name for people.
    """

    def __init__(self, resume: Resume, identity: dict[str, Any]) -> None:
        self.resume, self.identity = resume, identity

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was stored; None where there is nothing to use, and if that is for a reason it is told."""
        folder = self.resume.folder
        if not (folder / DOCUMENT).exists():
            return None
        try:
            tensors, document = load_checkpoint(folder)
            _require_same(self.identity, document.get("identity"))
        except CheckpointError as error:
            self.begin_anew(error)
            return None
        return tensors, document

    def save(self, tensors: dict[str, Tensor], document: dict[str, Any], place: str) -> None:
        """Replace the stored state; when that fails the one before stays, and training goes on without."""
        try:
            save_checkpoint(self.resume.folder, tensors, document | {"identity": self.identity})
        except OSError as error:
            self.resume.report(
                f"training state of {place} was not saved in {self.resume.folder} "
                f"({error.strerror}), the one before stays and training goes on: free space"
            )

    def goes_on(self, place: str) -> None:
        """Tell from where training goes on."""
        self.resume.report(f"training goes on from the state in {self.resume.folder}: {place}")

    def begin_anew(self, why: CheckpointError) -> None:
        """Tell why the stored state is left aside."""
        self.resume.report(f"training begins anew, the state in {self.resume.folder} cannot be used: {why}")


class Keeper:
    """Saves the state of one trainer of the perception and brings it back.

    Args:
        resume: where and how often.
        trainer: the run.
        train: its rows.
        validation: the rows that decide when it stops.
    """

    def __init__(self, resume: Resume, trainer: Trainer, train: RowData, validation: RowData) -> None:
        self.resume, self.trainer = resume, trainer
        identity = {
            "training rows": train.digest(),
            "validation rows": validation.digest(),
            **numerics(trainer.device),
            "processes": trainer.ranks.size,
        }
        told = resume if trainer.ranks.first else replace(resume, report=lambda _: None)
        self.kept = KeptState(told, identity)

    def restore(self) -> None:
        """Go on from the stored state; one of another run or a damaged one is left aside, and that is told."""
        state = self.trainer.ranks.from_first(self._stored())
        if not state:
            return
        tensors, metadata = decode_safetensors(state, str(self.resume.folder))
        try:
            self.trainer.restore(tensors, json.loads(metadata["document"]))
        except CheckpointError as error:
            self.kept.begin_anew(error)
        else:
            self.kept.goes_on(f"epoch {self.trainer.epoch}, update {self.trainer.update}")

    def _stored(self) -> bytes:
        """The stored state as it is sent to other processes; empty where there is none to use."""
        found = self.kept.load() if self.trainer.ranks.first else None
        if found is None:
            return b""
        tensors, document = found
        return encode_safetensors(tensors, {"document": json.dumps(document)})

    def save(self) -> None:
        """Replace the stored state, in the first process; a call in every process."""
        tensors, document = self.trainer.snapshot()
        if self.trainer.ranks.first:
            self.kept.save(tensors, document, f"update {self.trainer.update}")


def numerics(device: torch.device) -> dict[str, Any]:
    """What may round differently with equal settings and rows."""
    on_gpu = device.type == "cuda"
    capability = torch.backends.cpu.get_cpu_capability()
    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{device.type} {capability}",
        "threads": torch.get_num_threads(),
    }


def _require_same(own: dict[str, Any], stored: object) -> None:
    found = stored if isinstance(stored, dict) else {}
    differing = [name for name, value in own.items() if found.get(name) != value]
    if differing:
        raise CheckpointError(
            f"training state is of another run, {', '.join(differing)} differ: use what it was trained with"
        )
