"""The references and ablations go through the same trainer, checkpoint and inference as the production network."""

from dataclasses import replace

import pytest
import torch

from alpha_core.training.checkpoint import load_checkpoint, save_checkpoint
from alpha_core.training.mirror import EVEN, ODD
from alpha_core.training.perception import (
    feature_gates,
    fit_perception,
    load_perception,
    new_model,
    perception_metrics,
    predict_logits,
    save_perception,
)
from alpha_core.training.trainer import Trainer

NAMES = (*sorted(ODD), *sorted(EVEN))
REFERENCES = ("deeplob", "tlob", "mlplob")


@pytest.fixture
def named(small):
    return replace(small, feature_names=NAMES)


@pytest.mark.parametrize("name", REFERENCES)
def test_killed_run_of_a_reference_goes_on_with_equal_bits(named, tiny_config, tmp_path, name):
    config = replace(tiny_config, network=name, window=16)
    first, second = (Trainer(new_model(named, config, seed=s), named, config, seed=0) for s in (0, 0))
    first.run(3)
    save_checkpoint(tmp_path, *first.snapshot())
    second.restore(*load_checkpoint(tmp_path))
    first.run(4)
    second.run(4)
    assert torch.equal(first.loss, second.loss)
    for key, value in first.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[key]), key


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_learns_and_comes_back_from_its_folder(make_market, tiny_config, tmp_path, name):
    data = replace(make_market(4000, seed=0, strength=3.0), feature_names=NAMES)
    config = replace(tiny_config, network=name, window=16, learning_rate=3e-3, epochs=3)
    train, validation = data.slice(0, 2900), data.slice(3000, 4000)
    fit = fit_perception(train, validation, config, seed=0)
    logits = predict_logits(fit, validation)
    scores = perception_metrics(logits, validation, block=100, resamples=50, seed=0)
    assert scores[2].auc_low > 0.55, [entry["validation_auc_300"] for entry in fit.history]
    save_perception(fit, tmp_path)
    again = load_perception(tmp_path)
    assert again.config == config
    assert torch.equal(predict_logits(again, validation), logits)
    torch.testing.assert_close(feature_gates(fit, validation.features), torch.full((40,), 1 / 40))


@pytest.mark.parametrize("changes", [{"layers": 0}, {"layers": 0, "cfc": False}], ids=str)
def test_network_without_mamba2_is_trained_and_resumed(small, tiny_config, tmp_path, changes):
    config = replace(tiny_config, **changes)
    first, second = (Trainer(new_model(small, config, seed=s), small, config, seed=0) for s in (0, 0))
    assert not any("blocks" in key for key in first.model.state_dict())
    first.run(3)
    save_checkpoint(tmp_path, *first.snapshot())
    second.restore(*load_checkpoint(tmp_path))
    first.run(2)
    second.run(2)
    assert torch.equal(first.loss, second.loss)
