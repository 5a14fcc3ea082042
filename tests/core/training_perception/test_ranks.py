"""Two processes that torchrun starts take the steps of one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from alpha_core.errors import ConfigError
from alpha_core.training.ranks import Ranks, torchrun_ranks

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def run(folder, processes):
    folder.mkdir()
    script = [str(HERE / "together.py"), str(folder)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    done = subprocess.run(
        [sys.executable, *(torchrun if processes > 1 else []), *script],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{HERE}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_have_the_losses_of_one(tmp_path):
    (alone,) = run(tmp_path / "alone", 1)
    first, second = run(tmp_path / "two", 2)
    assert (first["streams"], second["streams"]) == (3, 4)
    assert len(alone["losses"]) == 30
    difference = max(abs(a - b) for a, b in zip(alone["losses"], first["losses"], strict=True))
    print(f"largest difference of the loss over 30 updates: {difference:.1e}")
    assert difference < 1e-5
    assert first["digest"] == second["digest"], "the processes drifted apart"
    assert first["history"] == second["history"]
    for own, other in zip(alone["history"], first["history"], strict=True):
        assert own["loss"] == pytest.approx(other["loss"], abs=1e-5)
    assert first["scale"] == second["scale"]
    assert (first["told"], second["told"]) == (3, 0), "the first process alone tells"
    assert alone["resumed"] and first["resumed"] and second["resumed"]


def test_shares_cover_all_streams_once():
    for size in (1, 2, 3, 7):
        shares = [Ranks(rank=rank, size=size).share_of(7) for rank in range(size)]
        streams = list(range(7))
        assert [s for share in shares for s in streams[share]] == streams
    with pytest.raises(ConfigError, match="streams was 2, must be at least the number of processes, 3"):
        Ranks(rank=0, size=3).share_of(2)


def test_alone_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with torchrun_ranks("cpu") as ranks:
        assert ranks == Ranks()
        assert not torch.distributed.is_initialized()
        value = torch.ones(2)
        ranks.add_up([value])
        assert value.tolist() == [1.0, 1.0]
        assert ranks.agreed((1.5, {"a": 2})) == (1.5, {"a": 2})
