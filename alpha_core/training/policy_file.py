"""Storing a trained policy as safetensors and JSON, and opening it again only as what it is."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from alpha_core.errors import AlphaError, CheckpointError
from alpha_core.nn.q_networks import KINDS, make_q_network
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.policies import QPolicy
from alpha_core.training.checkpoint import load_checkpoint, load_weights, save_checkpoint
from alpha_core.training.policy import PolicyFit


def save_policy(fit: PolicyFit, directory: Path) -> Path:
    """Publish a policy in a folder, weights and JSON as one. Returns the path of the JSON document."""
    document = {
        "architecture": fit.config.network,
        "config": asdict(fit.config),
        "seed": fit.seed,
        "history": list(fit.history),
    }
    return save_checkpoint(directory, fit.network.state_dict(), document)


def load_policy(directory: Path) -> QPolicy:
    """The policy that `save_policy` stored, on the host, acting as it was configured to.

    Raises:
        CheckpointError: absent, damaged, of another architecture, or weights that do not fit the configuration.
    """
    tensors, document = load_checkpoint(directory)
    found = document.get("architecture")
    if found not in KINDS:
        raise CheckpointError(
            f"{directory} holds architecture {found!r}, must be one of {KINDS}: name a policy of this kind"
        )
    config = _stored_config(document, directory)
    if config.network != found:
        raise CheckpointError(
            f"{directory} holds architecture {found!r}, configured as {config.network!r}: train the policy again"
        )
    network = make_q_network(found, hidden=config.hidden, atoms=config.atoms, generator=torch.Generator())
    load_weights(network, tensors, str(directory))
    return QPolicy.configured(network.requires_grad_(False), config)


def _stored_config(document: dict[str, Any], directory: Path) -> PolicyConfig:
    try:
        return PolicyConfig(**document["config"])
    except (KeyError, TypeError, AlphaError) as error:
        raise CheckpointError(
            f"{directory} holds no usable policy configuration ({error}): train the policy again"
        ) from error
