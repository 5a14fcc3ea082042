"""What one process of several does in the tests of `ranks`; started by torchrun, or alone.

    torchrun --nproc-per-node 2 together.py FOLDER

Each process writes what it saw to FOLDER/<rank>.json.
"""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from conftest import market

from alpha_core.training.config import PerceptionConfig
from alpha_core.training.mirror import EVEN, ODD
from alpha_core.training.perception import fit_perception, new_model
from alpha_core.training.ranks import Ranks, torchrun_ranks
from alpha_core.training.resume import Keeper, Resume
from alpha_core.training.tensor_file import encode_safetensors
from alpha_core.training.trainer import Trainer

CONFIG = PerceptionConfig(
    hidden=8, state=4, heads=2, chunk=8, length=16, streams=7, epochs=3, learning_rate=5e-3, patience=2
)
"""Seven streams, which two processes cannot share equally."""


def rows():
    """A market with breaks and ties, and labels that run out in the last streams."""
    data = market(1200, seed=1, strength=1.0)
    return replace(data, feature_names=(*sorted(ODD), *sorted(EVEN)))


def trainer(ranks):
    data = rows()
    return Trainer(new_model(data, CONFIG, seed=0), data, CONFIG, seed=0, ranks=ranks)


def losses(run, updates):
    """The loss of each update, over the ends of epochs."""
    told = []
    for _ in range(updates):
        before = run.loss.item()
        ended = run.run(1)
        told.append(run.loss.item() - before)
        if ended:
            run.close_epoch(0.5, {})
    return told


def digest(run):
    return hashlib.sha256(encode_safetensors(run.model.state_dict())).hexdigest()


def resumed(ranks, folder):
    """Whether a run that was stopped after 14 updates, inside an epoch, ends with the bits of one that was not."""
    whole, first, second = trainer(ranks), trainer(ranks), trainer(ranks)
    data, said = rows(), []
    resume = Resume(folder=folder, report=said.append)
    losses(whole, 20)
    losses(first, 14)
    Keeper(resume, first, data, data).save()
    Keeper(resume, second, data, data).restore()
    losses(second, 6)
    return digest(whole) == digest(second) and second.update == 20 and len(said) == int(ranks.first)


def everything(ranks: Ranks, folder: Path) -> dict:
    run = trainer(ranks)
    told = {"losses": losses(run, 30), "digest": digest(run), "streams": run.own.stop - run.own.start}
    epochs: list[dict] = []
    data = rows()
    fit = fit_perception(
        data.slice(0, 800), data.slice(800, 1200), CONFIG, seed=0, on_epoch=epochs.append, ranks=ranks
    )
    told |= {"told": len(epochs), "history": fit.history, "scale": fit.model.temperature.tolist()}
    return told | {"resumed": resumed(ranks, folder / "state")}


if __name__ == "__main__":
    torch.set_num_threads(1)
    where = Path(sys.argv[1])
    with torchrun_ranks("cpu") as here:
        (where / f"{here.rank}.json").write_text(json.dumps(everything(here, where)))
