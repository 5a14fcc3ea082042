"""A policy's training that was killed between any two sweeps ends with the bits of one that was not."""

import dataclasses
import json

import pytest
import torch

from alpha_core.training.checkpoint import DOCUMENT
from alpha_core.training.policy import fit_policy
from alpha_core.training.resume import Resume
from tests.core.training_policy.test_fit_policy import CONFIG, environment

SMALL = dataclasses.replace(CONFIG, lanes=16, sweeps=4, updates=5, edge_mass=1e-6)
"""An edge mass that every sweep exceeds, so that the support differs from sweep to sweep."""


class KilledError(BaseException):
    """Stands for a kill."""


def fit(folder=None, said=None, config=SMALL, *, kill_after=None, seed=0, stride=25, std=8.0):
    market = environment(seed=1, readable=True, rows=1500)
    told = []

    def log(figures):
        told.append(figures["sweep"])
        if figures["sweep"] == kill_after:
            raise KilledError

    resume = (
        None if folder is None else Resume(folder=folder, report=[].append if said is None else said.append)
    )
    starts = torch.arange(0, market.data.rows - 102, stride)
    found = fit_policy(
        market, starts, config, baseline_mean=-3.0, baseline_std=std, seed=seed, on_log=log, resume=resume
    )
    return found, told


def assert_same(one, other):
    for name, value in one.network.state_dict().items():
        assert torch.equal(value, other.network.state_dict()[name]), name
    assert one.history == other.history
    assert one.verdicts == other.verdicts
    assert one.scale == other.scale
    assert torch.equal(one.bus.values, other.bus.values)


@pytest.mark.parametrize("network", ["c51", "linear"])
@pytest.mark.parametrize("replay", ["uniform", "prioritised"])
def test_killed_after_each_sweep_ends_with_the_same_bits(tmp_path, network, replay):
    config = dataclasses.replace(SMALL, network=network, replay_kind=replay)
    whole, told = fit(config=config)
    assert told == [0.0, 1.0, 2.0, 3.0]
    for sweep in range(3):
        with pytest.raises(KilledError):
            fit(tmp_path, config=config, kill_after=sweep)
    said = []
    again, told = fit(tmp_path, said, config)
    assert_same(again, whole)
    assert told == [3.0]
    assert len(said) == 1
    assert "training goes on" in said[0] and said[0].endswith("sweep 3")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": dataclasses.replace(SMALL, hidden=16)}, "policy settings differ"),
        ({"seed": 1}, "seed"),
        ({"stride": 30}, "market differ"),
        ({"std": 9.0}, "baseline differ"),
    ],
)
def test_state_of_another_run_is_left_aside_by_name(tmp_path, change, words):
    with pytest.raises(KilledError):
        fit(tmp_path, kill_after=1)
    said = []
    again, _ = fit(tmp_path, said, **change)
    assert "begins anew" in said[0]
    assert words in said[0]
    assert_same(again, fit(**change)[0])


@pytest.mark.parametrize("damage", ["document", "weights", "kind"])
def test_damaged_state_is_left_aside_and_told(tmp_path, damage):
    with pytest.raises(KilledError):
        fit(tmp_path, kill_after=1)
    if damage == "document":
        (tmp_path / DOCUMENT).write_text("{")
    elif damage == "kind":
        document = json.loads((tmp_path / DOCUMENT).read_text())
        (tmp_path / DOCUMENT).write_text(json.dumps(document | {"kind": "perception"}))
    else:
        (path,) = tmp_path.glob("weights-*")
        path.write_bytes(path.read_bytes()[:-1])
    said = []
    assert_same(fit(tmp_path, said)[0], fit()[0])
    assert "training begins anew" in said[0]
