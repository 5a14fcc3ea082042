"""One update at a time: the loss, the schedule, and a run that stops and goes on with the same bits."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from alpha_core.cuda.bce import masked_bce
from alpha_core.errors import CheckpointError, ConfigError, DataError
from alpha_core.training.checkpoint import load_checkpoint, save_checkpoint
from alpha_core.training.config import PerceptionConfig
from alpha_core.training.inference import logits_of
from alpha_core.training.mirror import EVEN, ODD, parity
from alpha_core.training.perception import new_model
from alpha_core.training.trainer import Trainer, rate_at


def trainer(data, config, seed=0):
    return Trainer(new_model(data, config, seed=seed), data, config, seed=seed)


def test_loss_hand_worked():
    """Two horizons, two rows; the second row of the second horizon is a tie."""
    logits = torch.tensor([[[0.0, 2.0], [1.0, 50.0]]])
    up = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    mask = torch.tensor([[[1.0, 1.0], [1.0, 0.0]]])
    first = (math.log(2) + math.log(1 + math.exp(-1))) / 2
    second = math.log(1 + math.exp(2))
    loss = masked_bce(logits, up, mask, torch.tensor([0.25, 0.75]))
    assert loss.item() == pytest.approx(0.25 * first + 0.75 * second)


def test_ties_give_no_gradient_and_no_rows_no_nan():
    logits = torch.zeros(1, 3, 2, requires_grad=True)
    mask = torch.tensor([[[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]])
    masked_bce(logits, torch.ones(1, 3, 2), mask, torch.tensor([0.5, 0.5])).backward()
    assert torch.equal(logits.grad != 0, mask != 0)
    assert masked_bce(logits, torch.ones(1, 3, 2), torch.zeros(1, 3, 2), torch.ones(2)).item() == 0


def test_learning_rate_rises_then_falls_as_a_cosine():
    config = PerceptionConfig(learning_rate=1.0, warmup=0.1)
    rates = [rate_at(update, 100, config) for update in range(100)]
    assert rates[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert rates[-1] < 1e-3
    assert rate_at(0, 1, PerceptionConfig(warmup=0.0)) > 0


def test_gradient_norm_is_clipped_and_state_is_cut(small, tiny_config):
    run = trainer(small, tiny_config)
    run.run(1)
    norm = torch.nn.utils.get_total_norm([p.grad for p in run.model.parameters()])
    assert norm <= tiny_config.gradient_clip * 1.001
    assert not run.carried.hidden.requires_grad
    assert not run.carried.blocks[0].ssm.requires_grad
    assert run.carried.hidden.abs().sum() > 0


def test_mirror_turns_half_of_the_streams_and_the_other_half_next(small, tiny_config):
    names = (*sorted(ODD), *sorted(EVEN))
    data = replace(small, feature_names=names)
    run = trainer(data, replace(tiny_config, mirror=True))
    rows = torch.arange(16).view(8, 2)
    turned = torch.arange(8) % 2 == 1
    for epoch in range(2):
        run.epoch = epoch
        x, up = run._seen(data.features[rows], (data.labels[rows] > 0).float())
        expected = torch.where(
            turned[:, None, None], data.features[rows] * parity(names), data.features[rows]
        )
        assert torch.equal(x, expected)
        rises = (data.labels[rows] > 0).float()
        assert torch.equal(up, torch.where(turned[:, None, None], 1 - rises, rises))
        turned = ~turned


def test_every_row_is_used_once_an_epoch(small, tiny_config):
    run = trainer(small, tiny_config)
    seen = []
    run._update = lambda batch: seen.append(batch.block.rows[batch.block.used]) or torch.zeros(())
    assert run.run()
    assert sorted(torch.cat(seen).tolist()) == list(range(small.rows))
    assert len(seen) == run.per_epoch


def test_validation_between_updates_changes_nothing(small, tiny_config):
    """Losses are the same whether validation runs never or after every update."""
    quiet, watched = trainer(small, tiny_config), trainer(small, tiny_config)
    for _ in range(6):
        quiet.run(1)
        watched.run(1)
        logits_of(watched.model, small)
        assert torch.equal(quiet.loss, watched.loss)


@pytest.mark.parametrize("stop", [1, 5, 10])
def test_fault_killed_run_resumes_mid_epoch_with_equal_weights(small, tiny_config, tmp_path, stop):
    whole = trainer(small, tiny_config)
    assert whole.per_epoch == 10
    whole.run()
    whole.close_epoch(0.6, {})
    whole.run()

    first = trainer(small, tiny_config)
    first.run(stop)
    if first.block == first.per_epoch:
        first.close_epoch(0.6, {})
    save_checkpoint(tmp_path, *first.snapshot())

    second = trainer(small, tiny_config)
    with torch.no_grad():
        second.model.embed.weight.add_(1.0)
    second.restore(*load_checkpoint(tmp_path))
    if second.epoch == 0:
        assert second.run()
        second.close_epoch(0.6, {})
    second.run()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name
    assert whole.history == second.history
    assert torch.equal(whole.loss, second.loss)
    for name, value in whole.best.items():
        assert torch.equal(value, second.best[name]), name


@pytest.mark.parametrize("changes", [{"cfc": False}, {"layers": 2}])
def test_snapshot_of_an_ablation_restores(small, tiny_config, tmp_path, changes):
    config = replace(tiny_config, **changes)
    first = trainer(small, config)
    first.run(3)
    save_checkpoint(tmp_path, *first.snapshot())
    second = trainer(small, config)
    second.restore(*load_checkpoint(tmp_path))
    first.run(2)
    second.run(2)
    assert torch.equal(first.loss, second.loss)


def test_snapshot_of_another_run_is_refused_by_name(small, tiny_config):
    tensors, document = trainer(small, tiny_config).snapshot()
    other = trainer(small, replace(tiny_config, epochs=3, horizon_weights=(1.0, 1.0, 1.0, 1.0, 2.0)), seed=1)
    with pytest.raises(CheckpointError, match="epochs, horizon_weights, seed differ"):
        other.restore(tensors, document)


def test_patience_and_best_weights(small, tiny_config):
    run = trainer(small, replace(tiny_config, epochs=10, patience=2))
    for score in (0.5, 0.7, 0.6):
        run.run(1)
        run.close_epoch(score, {"validation_auc": score})
    assert not run.finished
    assert run.best_epoch == 1
    assert not torch.equal(run.best["embed.weight"], run.model.embed.weight)
    run.close_epoch(0.7, {})
    assert run.finished
    assert [entry["epoch"] for entry in run.history] == [0.0, 1.0, 2.0, 3.0]


def test_diverging_loss_is_an_error_that_names_the_remedy(small, tiny_config):
    run = trainer(small, tiny_config)
    run.loss.fill_(float("nan"))
    with pytest.raises(DataError, match="lower learning_rate"):
        run.close_epoch(0.5, {})
    assert run.best == {}


def test_fewer_rows_than_streams(small, tiny_config):
    few = small.slice(0, 5)
    run = trainer(few, tiny_config)
    assert run.streams == 5
    assert run.run()
    assert math.isfinite(run.loss.item())


def test_all_bad_settings_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        PerceptionConfig(
            hidden=0, length=0, learning_rate=0.0, warmup=2.0, weight_decay=-1.0, horizon_weights=(0.0,) * 5
        )
    for words in (
        "hidden was 0",
        "length was 0",
        "learning_rate was 0.0",
        "warmup was 2.0",
        "weight_decay was -1.0",
        "horizon_weights was (0.0, 0.0, 0.0, 0.0, 0.0)",
    ):
        assert words in str(caught.value)
