"""A checkpoint is a folder: weights in a safetensors file and one JSON document that names them.

Never pickle. A file is published by writing a temporary one beside it, fsync, rename, fsync of the folder.
The document is renamed last and the weights carry their digest in their name, so that a process killed at any
instruction leaves the old pair or the new one. A second writer of the same folder waits for the first.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from alpha_core.durable import write_atomic
from alpha_core.errors import CheckpointError
from alpha_core.training.tensor_file import decode_safetensors, encode_safetensors

DOCUMENT = "model.json"
"""The commit point of a checkpoint folder: it names the weights file and holds its digest."""


def save_checkpoint(directory: Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> Path:
    """Publish weights and their description as one: the weights first, under their digest, then the document.

    Args:
        directory: made when absent; holds one checkpoint.
        tensors: the weights and any other tensors, by name.
        document: plain JSON values; the key "weights" is ours.

    Returns:
        Path of the document.

    Raises:
        CheckpointError: the document uses "weights" or holds what JSON does not (NaN included).
    """
    if "weights" in document:
        raise CheckpointError("checkpoint document has the key 'weights', which is reserved: rename it")
    directory.mkdir(parents=True, exist_ok=True)
    data = encode_safetensors(tensors)
    digest = hashlib.sha256(data).hexdigest()
    weights = f"weights-{digest[:16]}.safetensors"
    try:
        text = json.dumps(
            {**document, "weights": {"file": weights, "sha256": digest}}, indent=2, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint document is not plain JSON ({error}): store finite plain values"
        ) from error
    with _only_writer(directory):
        try:
            write_atomic(directory / weights, data)
            write_atomic(directory / DOCUMENT, (text + "\n").encode())
        finally:
            # Also after a failure: weights that no document names would keep a full disk full.
            _remove_leftovers(directory, keep=_weights_in_force(directory))
    return directory / DOCUMENT


@contextmanager
def _only_writer(directory: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel drops it with the process, so a killed writer blocks nobody."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _weights_in_force(directory: Path) -> str | None:
    """Name of the weights that the document names; None where no document can be read."""
    try:
        return _read_document(directory / DOCUMENT)[1]["file"]
    except CheckpointError:
        return None


def _remove_leftovers(directory: Path, keep: str | None) -> None:
    """Weights that the document does not name, and temporary files of killed writers."""
    for pattern in ("weights-*.safetensors", ".weights-*.tmp", f".{DOCUMENT}.*.tmp"):
        for path in directory.glob(pattern):
            if path.name != keep:
                path.unlink(missing_ok=True)


def load_checkpoint(directory: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and document of a checkpoint folder, the digest verified.

    Returns:
        tensors on the host, and the document without its "weights" entry.

    Raises:
        CheckpointError: no checkpoint there, a damaged document, or weights that do not match their digest.
    """
    document, weights = _read_document(directory / DOCUMENT)
    if not (directory / weights["file"]).exists():
        # A writer may have replaced the pair between our two reads.
        document, weights = _read_document(directory / DOCUMENT)
    path = directory / weights["file"]
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path} is absent though {DOCUMENT} names it: train again or restore it"
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != weights["sha256"]:
        raise CheckpointError(
            f"{path} has sha256 {digest[:16]}, must be {weights['sha256'][:16]}: restore it or train again"
        )
    return decode_safetensors(data, str(path))[0], document


def _read_document(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The document without its "weights" entry, and that entry."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is absent: no checkpoint there, train first") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON ({error}): restore the file or train again") from error
    weights = document.pop("weights", None) if isinstance(document, dict) else None
    # A file name with a folder in it would let a document point outside its checkpoint.
    if (
        not isinstance(weights, dict)
        or not all(isinstance(weights.get(key), str) for key in ("file", "sha256"))
        or Path(weights["file"]).name != weights["file"]
    ):
        raise CheckpointError(f"{path} names no weights file of its own folder: restore it or train again")
    return document, weights


def load_weights(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy stored tensors into a module's parameters and buffers.

    Raises:
        CheckpointError: names or shapes differ; all differences are listed.
    """
    own = module.state_dict()
    problems = [f"{name} absent" for name in own if name not in tensors]
    problems += [f"{name} unknown" for name in tensors if name not in own]
    problems += [
        f"{name} was {list(tensors[name].shape)}, must be {list(own[name].shape)}"
        for name in own
        if name in tensors and own[name].shape != tensors[name].shape
    ]
    if problems:
        raise CheckpointError(
            f"{source} does not fit the model: {'; '.join(problems)}: "
            "use the configuration it was trained with"
        )
    module.load_state_dict(dict(tensors))


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def restore_optimizer(optimizer: Optimizer, slots: Mapping[str, Tensor]) -> None:
    """Give an optimiser the state whose tensors are named `<parameter>.<slot>`."""
    content = optimizer.state_dict()
    for name, value in slots.items():
        index, slot = name.split(".")
        content["state"].setdefault(int(index), {})[slot] = value
    optimizer.load_state_dict(content)
