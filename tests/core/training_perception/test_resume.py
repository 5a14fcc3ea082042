"""A fit that was stopped anywhere goes on to the same bits, and never from a state of another run."""

import json
import resource
import signal
from dataclasses import replace

import pytest
import torch

from alpha_core.training.checkpoint import DOCUMENT, load_checkpoint, save_checkpoint
from alpha_core.training.perception import Resume, fit_perception
from alpha_core.training.trainer import Trainer


class StoppedError(Exception):
    """Stands for a kill."""


def fit(data, config, folder=None, said=None, every=3, seed=0):
    told = [] if said is None else said
    resume = None if folder is None else Resume(folder=folder, report=told.append, every=every)
    return fit_perception(data.slice(0, 800), data.slice(800, 1200), config, seed=seed, resume=resume)


def stopped_after(data, config, folder, updates, monkeypatch, every=3):
    """Run a fit that ends in its given update."""
    left, whole = [updates], Trainer._update

    def update(self, *arguments):
        left[0] -= 1
        if left[0] < 0:
            raise StoppedError
        return whole(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", update)
        with pytest.raises(StoppedError):
            fit(data, config, folder, every=every)


def assert_same(one, other):
    assert one.history == other.history
    assert one.best_epoch == other.best_epoch
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name


@pytest.fixture(scope="module")
def whole(small, tiny_config):
    return fit(small, tiny_config)


def test_keeping_a_state_changes_nothing(small, tiny_config, whole, tmp_path):
    said = []
    assert_same(fit(small, tiny_config, tmp_path, said), whole)
    assert said == []


@pytest.mark.parametrize(("updates", "place"), [(5, 3), (6, 6), (9, 7), (13, 13)])
def test_fault_killed_fit_goes_on_to_equal_weights(
    small, tiny_config, whole, tmp_path, monkeypatch, updates, place
):
    """Seven updates an epoch, a save every third and at its end."""
    stopped_after(small, tiny_config, tmp_path, updates, monkeypatch)
    said = []
    again = fit(small, tiny_config, tmp_path, said)
    assert_same(again, whole)
    assert len(said) == 1
    assert f"update {place}" in said[0]


def test_finished_fit_is_not_trained_again(small, tiny_config, whole, tmp_path, monkeypatch):
    fit(small, tiny_config, tmp_path)
    monkeypatch.setattr(Trainer, "_update", None)
    assert_same(fit(small, tiny_config, tmp_path), whole)


def other_rows(small):
    features = small.features.clone()
    features[0, 0] += 1
    return replace(small, features=features)


def other_labels_of_validation(small):
    labels = small.labels.clone()
    labels[1000, 0] += 3
    return replace(small, labels=labels)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": {"learning_rate": 1e-3}}, "learning_rate differ"),
        ({"seed": 1}, "seed differ"),
        ({"data": other_rows}, "training rows differ"),
        ({"data": other_labels_of_validation}, "validation rows differ"),
    ],
)
def test_state_of_another_run_is_left_aside_by_name(small, tiny_config, tmp_path, monkeypatch, change, words):
    stopped_after(small, tiny_config, tmp_path, 5, monkeypatch)
    config = replace(tiny_config, **change.get("config", {}))
    data, seed = change.get("data", lambda rows: rows)(small), change.get("seed", 0)
    said = []
    again = fit(data, config, tmp_path, said, seed=seed)
    assert len(said) == 1
    assert "begins anew" in said[0]
    assert words in said[0]
    assert_same(again, fit(data, config, seed=seed))


def test_state_of_another_machine_is_left_aside_by_name(small, tiny_config, whole, tmp_path, monkeypatch):
    stopped_after(small, tiny_config, tmp_path, 5, monkeypatch)
    tensors, document = load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, tensors, document | {"identity": document["identity"] | {"torch": "0"}})
    said = []
    assert_same(fit(small, tiny_config, tmp_path, said), whole)
    assert "torch differ" in said[0]


@pytest.mark.parametrize("damage", ["document", "weights", "kind"])
def test_damaged_state_is_left_aside_and_told(small, tiny_config, whole, tmp_path, monkeypatch, damage):
    stopped_after(small, tiny_config, tmp_path, 5, monkeypatch)
    if damage == "document":
        (tmp_path / DOCUMENT).write_text("{")
    elif damage == "kind":
        document = json.loads((tmp_path / DOCUMENT).read_text())
        (tmp_path / DOCUMENT).write_text(json.dumps(document | {"kind": "perception"}))
    else:
        (path,) = tmp_path.glob("weights-*")
        path.write_bytes(path.read_bytes()[:-1])
    said = []
    assert_same(fit(small, tiny_config, tmp_path, said), whole)
    assert "training begins anew" in said[0]


@pytest.fixture
def full_disk():
    """Files may grow to so many bytes and no further, until the test is over."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [0, 1000])
def test_fault_full_disk_keeps_the_last_good_state_and_training_goes_on(
    small, tiny_config, whole, tmp_path, monkeypatch, full_disk, size
):
    stopped_after(small, tiny_config, tmp_path, 5, monkeypatch)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = []
    full_disk(size)
    assert_same(fit(small, tiny_config, tmp_path, said), whole)
    assert all("was not saved" in text and "File too large" in text for text in said[1:])
    assert len(said) > 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_fault_document_that_cannot_be_written_leaves_no_second_weights(
    small, tiny_config, tmp_path, monkeypatch, full_disk
):
    """The disk holds the weights and then not the document: those weights go, so that space comes back."""
    save_checkpoint(tmp_path, {"w": torch.zeros(3)}, {"step": 1})
    full_disk(500)
    with pytest.raises(OSError, match="File too large"):
        save_checkpoint(tmp_path, {"w": torch.ones(3)}, {"step": 2, "long": "x" * 1000})
    assert load_checkpoint(tmp_path)[1] == {"step": 1}
    assert len(list(tmp_path.iterdir())) == 2
