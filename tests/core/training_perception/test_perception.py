"""Fitting end to end: learns what is there, finds nothing where nothing is, repeats, keeps, runs causally."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from alpha_core.errors import CheckpointError, ConfigError, DataError
from alpha_core.metrics.bootstrap import auc_interval
from alpha_core.training import inference
from alpha_core.training.inference import logits_of
from alpha_core.training.mirror import EVEN, ODD, parity
from alpha_core.training.perception import (
    PerceptionConfig,
    feature_gates,
    fit_perception,
    load_perception,
    new_model,
    perception_metrics,
    predict_logits,
    save_perception,
)
from alpha_core.training.scoring import aucs, direction

MIRROR_NAMES = (*sorted(ODD), *sorted(EVEN))


@pytest.fixture(scope="module")
def learner(tiny_config):
    return replace(tiny_config, hidden=12, epochs=4, length=32, streams=16, weight_decay=0.5)


@pytest.fixture(scope="module")
def planted_fit(planted, learner):
    return fit_perception(planted.slice(0, 10_000), planted.slice(10_060, 13_000), learner, seed=0)


@pytest.fixture(scope="module")
def small_fit(small, tiny_config):
    return fit_perception(small.slice(0, 800), small.slice(800, 1200), tiny_config, seed=0)


def test_planted_signal_is_learned(planted, planted_fit):
    test = planted.slice(13_060, 16_000)
    metrics = perception_metrics(predict_logits(planted_fit, test), test, block=100, resamples=100, seed=0)
    by_horizon = {m.horizon: m for m in metrics}
    for horizon in (30, 100, 300):
        assert by_horizon[horizon].auc > 0.6, horizon
        assert by_horizon[horizon].auc_low > 0.55, horizon
        assert by_horizon[horizon].brier < 0.245, horizon
    assert by_horizon[1000].auc_low > 0.5


def test_null_market_stays_within_the_interval_of_one_half(make_market, learner):
    null = make_market(9000, seed=5, strength=0.0)
    fit = fit_perception(null.slice(0, 4000), null.slice(4060, 5500), learner, seed=0)
    test = null.slice(5560, 9000)
    logits = predict_logits(fit, test)
    for column in range(5):
        mask, up = direction(test, column)
        # Five looks at one sample: each at one per cent of doubt in all.
        low, high = auc_interval(
            up,
            logits[:, column].numpy()[mask],
            block=120,
            resamples=500,
            generator=np.random.default_rng(column),
            level=1 - 0.01 / 5,
        )
        assert low <= 0.5 <= high, column


def test_same_seed_same_bits_other_seed_other_bits(small, tiny_config, small_fit):
    before = torch.random.get_rng_state()
    again = fit_perception(small.slice(0, 800), small.slice(800, 1200), tiny_config, seed=0)
    assert torch.equal(before, torch.random.get_rng_state()), "the global stream is not ours"
    for name, value in small_fit.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    assert again.history == small_fit.history
    other = fit_perception(small.slice(0, 800), small.slice(800, 1200), tiny_config, seed=1)
    assert not torch.equal(other.model.embed.weight, again.model.embed.weight)


def test_scaler_knows_the_training_rows_only(small, tiny_config, small_fit):
    rows = small.features[:800].double()
    torch.testing.assert_close(small_fit.model.mean.double(), rows.mean(0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        small_fit.model.scale.double(), rows.std(0, correction=0), atol=1e-5, rtol=1e-5
    )
    changed = replace(small, features=torch.cat((small.features[:800], small.features[800:] * 9 + 5)))
    model = new_model(changed.slice(0, 800), tiny_config, seed=0)
    assert torch.equal(model.mean, small_fit.model.mean)
    assert torch.equal(model.scale, small_fit.model.scale)


def test_scaler_of_the_mirror_has_no_side(small, tiny_config):
    """Odd features are centred on 0, and a market and its image have the same scale."""
    config = replace(tiny_config, mirror=True, epochs=1)
    sides = replace(small, feature_names=MIRROR_NAMES)
    model = new_model(sides, config, seed=0)
    signs = parity(MIRROR_NAMES)
    assert (model.mean[signs < 0] == 0).all()
    assert (model.mean[signs > 0] != 0).all()
    rows = small.features[:, signs < 0].double()
    torch.testing.assert_close(
        model.scale[signs < 0].double(), rows.square().mean(0).sqrt(), rtol=1e-5, atol=0
    )
    image = replace(sides, features=sides.features * signs, labels=-sides.labels)
    torch.testing.assert_close(new_model(image, config, seed=0).scale, model.scale)


def test_mirror_cures_a_drift_of_the_training_days(make_market, tiny_config):
    """A null market that only ever rose in training: without the mirror the network says up; with it, nothing."""
    null = make_market(3000, seed=3, strength=0.0)
    # The market's features have mean 1, which odd features of a market without a side do not.
    null = replace(null, features=null.features - 1, feature_names=MIRROR_NAMES)
    drifting = replace(null, labels=torch.where(null.valid, 1 + 0 * null.labels, null.labels))
    drifting.labels[::10] = -1
    train, test = drifting.slice(0, 2000), null.slice(2000, 3000)
    leaning = {}
    for mirror in (False, True):
        fit = fit_perception(train, test, replace(tiny_config, mirror=mirror), seed=0)
        leaning[mirror] = predict_logits(fit, test).mean() * fit.model.temperature.mean()
    assert leaning[False] > 0.5
    assert abs(leaning[True]) < 0.2


def test_mirror_needs_features_of_known_parity(small, tiny_config):
    config = replace(tiny_config, mirror=True)
    with pytest.raises(DataError, match="'f0'"):
        fit_perception(small.slice(0, 800), small.slice(800, 1200), config, seed=0)
    unnamed = replace(small, feature_names=())
    with pytest.raises(DataError, match=r"without names.*mirror = false"):
        fit_perception(unnamed.slice(0, 800), unnamed.slice(800, 1200), config, seed=0)


def test_validation_score_is_weighted_as_the_loss_is(small, tiny_config):
    config = replace(tiny_config, epochs=1, horizon_weights=(1.0, 0.0, 3.0, 0.0, 0.0))
    fit = fit_perception(small.slice(0, 800), small.slice(800, 1200), config, seed=0)
    record = fit.history[0]
    expected = (record["validation_auc_30"] + 3 * record["validation_auc_300"]) / 4
    assert record["validation_auc"] == pytest.approx(expected)


def test_a_constant_feature_does_no_harm(small, tiny_config):
    features = small.features.clone()
    features[:, 5] = 7.0
    model = new_model(replace(small, features=features), tiny_config, seed=0)
    assert model.scale[5] == 1.0
    assert torch.isfinite(logits_of(model, replace(small, features=features))).all()


def test_labels_of_ties_and_beyond_the_segment_have_no_influence(small, tiny_config, small_fit):
    labels = small.labels.clone()
    labels[~small.valid] = 99
    changed = replace(small, labels=labels)
    again = fit_perception(changed.slice(0, 800), changed.slice(800, 1200), tiny_config, seed=0)
    assert torch.equal(again.model.embed.weight, small_fit.model.embed.weight)


def test_nan_is_reported_by_name_before_any_weight_exists(small, tiny_config, small_fit, monkeypatch):
    features = small.features.clone()
    features[850, 33] = float("nan")
    bad = replace(small, features=features)
    calls = []
    monkeypatch.setattr("alpha_core.training.perception.new_model", lambda *a, **k: calls.append(1))
    with pytest.raises(DataError, match="feature ofi_1 was nan in row 50"):
        fit_perception(small.slice(0, 800), bad.slice(800, 1200), tiny_config, seed=0)
    assert calls == []
    with pytest.raises(DataError, match="feature ofi_1 was nan in row 850"):
        predict_logits(small_fit, bad)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_named(small, tiny_config, device):
    with pytest.raises(ConfigError, match=f"device was '{device}', must be one that torch can use here"):
        fit_perception(small.slice(0, 800), small.slice(800, 1200), tiny_config, seed=0, device=device)


def test_rows_without_labels_or_with_one_class_are_errors(small, tiny_config):
    empty = replace(small, valid=torch.zeros_like(small.valid))
    with pytest.raises(DataError, match="training rows hold no label"):
        fit_perception(empty, small, tiny_config, seed=0)
    rising = replace(small, labels=torch.ones_like(small.labels))
    with pytest.raises(DataError, match="one class only"):
        fit_perception(small, rising, tiny_config, seed=0)


@torch.no_grad()
def test_prediction_equals_stepping_live_with_the_state_cleared_between_segments(small, small_fit):
    logits = predict_logits(small_fit, small)
    first, state, live = small.first_of_segment(), None, []
    for row in range(small.rows):
        state = None if first[row] else state
        step, state = small_fit.model.step(
            small.features[row : row + 1], small.seconds_since_previous[row : row + 1], state
        )
        live.append(step)
    torch.testing.assert_close(torch.cat(live), logits, atol=1e-4, rtol=1e-4)


def test_prediction_does_not_depend_on_lanes_or_blocks(small, small_fit, monkeypatch):
    logits = predict_logits(small_fit, small)
    for lanes, block in ((1, 4096), (3, 64), (64, 1)):
        monkeypatch.setattr(inference, "MAX_LANES", lanes)
        monkeypatch.setattr(inference, "BLOCK_ROWS", block)
        torch.testing.assert_close(predict_logits(small_fit, small), logits, atol=1e-5, rtol=1e-4)


def test_prediction_is_causal_and_segments_do_not_touch(small, small_fit):
    logits = predict_logits(small_fit, small)
    cut = int(small.first_of_segment().nonzero()[2])
    features = small.features.clone()
    features[cut:] *= -3
    changed = predict_logits(small_fit, replace(small, features=features))
    torch.testing.assert_close(changed[:cut], logits[:cut], atol=0, rtol=0)
    features = small.features.clone()
    features[:cut] *= -3
    changed = predict_logits(small_fit, replace(small, features=features))
    torch.testing.assert_close(changed[cut:], logits[cut:], atol=0, rtol=0)


def test_other_feature_columns_are_refused_by_name(small, small_fit):
    names = ("g0", *small.feature_names[1:])
    with pytest.raises(DataError, match="feature 0 was 'g0', the model was trained with 'f0'"):
        predict_logits(small_fit, replace(small, feature_names=names))


def test_temperatures_do_not_raise_the_validation_loss_nor_change_the_auc(planted, planted_fit):
    data = planted.slice(10_060, 13_000)
    calibrated = predict_logits(planted_fit, data)
    raw = calibrated * planted_fit.model.temperature
    for column, (own, plain) in enumerate(zip(aucs(calibrated, data), aucs(raw, data), strict=True)):
        assert own == pytest.approx(plain, abs=1e-6)
        mask = data.mask[:, column]
        up = (data.labels[:, column] > 0)[mask].float()
        losses = [
            torch.nn.functional.binary_cross_entropy_with_logits(x[:, column][mask], up).item()
            for x in (calibrated, raw)
        ]
        assert losses[0] <= losses[1] + 1e-7
    assert (planted_fit.model.temperature != 1).all()


def test_history_holds_every_epoch_and_the_callback_sees_it(small, tiny_config, small_fit):
    seen = []
    fit = fit_perception(
        small.slice(0, 800), small.slice(800, 1200), tiny_config, seed=0, on_epoch=seen.append
    )
    waits = [entry.pop("input_wait") for entry in seen]
    assert tuple(waits) == fit.input_waits
    assert all(0 < wait < 1 for wait in waits)
    assert tuple(seen) == fit.history == small_fit.history
    assert {"epoch", "loss", "learning_rate", "validation_auc", "validation_loss"} <= seen[0].keys()
    best = max(range(len(seen)), key=lambda i: seen[i]["validation_auc"])
    assert fit.best_epoch == best


def test_gates_of_the_planted_features_stand_out(planted, planted_fit):
    gates = feature_gates(planted_fit, planted.features[:5000])
    assert gates.sum().item() == pytest.approx(1.0, abs=1e-5)
    assert gates[[3, 4, 5, 6, 7, 33]].mean() > gates.mean()


def test_saved_fit_gives_the_same_bits(small, small_fit, tmp_path):
    save_perception(small_fit, tmp_path / "model")
    loaded = load_perception(tmp_path / "model")
    assert torch.equal(predict_logits(loaded, small), predict_logits(small_fit, small))
    assert loaded.config == small_fit.config
    assert (loaded.seed, loaded.best_epoch) == (small_fit.seed, small_fit.best_epoch)
    assert loaded.feature_names == small_fit.feature_names
    assert loaded.history == small_fit.history
    save_perception(loaded, tmp_path / "model")
    assert torch.equal(
        predict_logits(load_perception(tmp_path / "model"), small), predict_logits(small_fit, small)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "policy"}, "holds a 'policy'"),
        ({"config": {"hidden": 8}}, "differ from this version's"),
        ({"config": None}, "differ from this version's"),
        ({"seed": ...}, r"lacks \['seed'\]"),
    ],
)
def test_documents_of_other_kinds_are_refused(small_fit, tmp_path, change, words):
    path = save_perception(small_fit, tmp_path)
    document = json.loads(path.read_text()) | change
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not ...}))
    with pytest.raises(CheckpointError, match=words):
        load_perception(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("hidden", 16, "must be"), ("hidden", -1, "not valid"), ("heads", "two", "not valid")],
)
def test_weights_of_another_architecture_are_refused(small_fit, tmp_path, field, value, words):
    path = save_perception(small_fit, tmp_path)
    document = json.loads(path.read_text())
    document["config"][field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(CheckpointError, match=words):
        load_perception(tmp_path)


@pytest.mark.parametrize("changes", [{"vsn": False}, {"cfc": False}, {"head": "linear"}, {"head": "mlp"}])
def test_ablations_train_and_travel(small, tiny_config, tmp_path, changes):
    config = replace(tiny_config, epochs=1, **changes)
    fit = fit_perception(small.slice(0, 800), small.slice(800, 1200), config, seed=0)
    save_perception(fit, tmp_path)
    assert torch.equal(predict_logits(load_perception(tmp_path), small), predict_logits(fit, small))


def test_configuration_files_refuse_unknown_keys():
    pydantic = pytest.importorskip("pydantic", reason="the engine is tested on machines without it too")
    adapter = pydantic.TypeAdapter(PerceptionConfig)
    values = asdict(PerceptionConfig(hidden=64))
    assert adapter.validate_python(values) == PerceptionConfig(hidden=64)
    with pytest.raises(pydantic.ValidationError, match="hiden"):
        adapter.validate_python({"hiden": 64})
