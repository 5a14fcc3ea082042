"""A stored policy acts as the one that was stored, and another kind of file is refused by name."""

import json
from dataclasses import replace

import pytest
import torch

from alpha_core.control.bus import SignalBus
from alpha_core.errors import CheckpointError
from alpha_core.nn.q_networks import C51Network, LinearNetwork
from alpha_core.rl.config import PolicyConfig
from alpha_core.training.learner import Scale
from alpha_core.training.policy import PolicyFit
from alpha_core.training.policy_file import load_policy, save_policy


def fit(hidden: int = 8) -> PolicyFit:
    config = PolicyConfig(hidden=hidden, atoms=5, selection="thompson")
    network = C51Network(hidden, 5, generator=torch.Generator().manual_seed(1))
    return PolicyFit(
        network=network,
        config=config,
        scale=Scale(half_width=1.0, unit=0.1),
        history=({"sweep": 0.0},),
        verdicts=(),
        bus=SignalBus.initial(),
        seed=3,
    )


def rewrite(folder, **changes) -> None:
    path = next(folder.glob("*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_loaded_policy_chooses_the_same_actions(tmp_path):
    trained = fit()
    save_policy(trained, tmp_path)
    loaded = load_policy(tmp_path)
    draw = torch.Generator().manual_seed(2)
    observation, uniforms = torch.randn(64, 10, generator=draw), torch.rand(64, 9, generator=draw)
    cost, mask = torch.full((64,), 0.5), torch.ones(64, 9, dtype=torch.bool)
    assert loaded.thompson
    assert torch.equal(
        loaded.act(observation, cost, mask, uniforms), trained.policy.act(observation, cost, mask, uniforms)
    )


def test_another_architecture_is_refused_by_name(tmp_path):
    save_policy(fit(), tmp_path)
    rewrite(tmp_path, architecture="iqn")
    with pytest.raises(CheckpointError, match="architecture 'iqn', must be one of"):
        load_policy(tmp_path)


def test_linear_policy_comes_back_and_is_not_taken_for_another(tmp_path):
    config = PolicyConfig(network="linear")
    network = LinearNetwork(generator=torch.Generator().manual_seed(1))
    save_policy(replace(fit(), config=config, network=network), tmp_path)
    loaded = load_policy(tmp_path)
    assert torch.equal(loaded.network.weight, network.weight)
    rewrite(tmp_path, architecture="c51")
    with pytest.raises(CheckpointError, match="architecture 'c51', configured as 'linear'"):
        load_policy(tmp_path)


def test_weights_that_do_not_fit_the_configuration_are_refused(tmp_path):
    save_policy(fit(), tmp_path)
    rewrite(tmp_path, config={"hidden": 16, "atoms": 5})
    with pytest.raises(CheckpointError, match="does not fit the model"):
        load_policy(tmp_path)


def test_unknown_setting_is_refused(tmp_path):
    save_policy(fit(), tmp_path)
    rewrite(tmp_path, config={"colour": 1})
    with pytest.raises(CheckpointError, match="no usable policy configuration"):
        load_policy(tmp_path)
