"""A perception that several processes fit from the cached days is the one that a single process fits."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_market
import torch

from alpha_core.errors import AlphaError, ConfigError
from alpha_core.training.perception import Resume
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.paths import PROJECT, Workspace
from alpha_pipeline.research.fitting import fit_alpha
from alpha_pipeline.research.together import fit_together
from alpha_pipeline.stages.models import in_sample


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    config = "processes = 2\n" + tiny_market.CONFIG.replace("epochs = 1", "epochs = 3")
    workspace = tiny_market.make_workspace(tmp_path_factory.mktemp("market"), days=3, config=config)
    for index in range(3):
        tiny_market.build_day(workspace, tiny_market.day(index))
    return workspace


def fit(market, processes=2, *, on_epoch=None, resume=None, **changed):
    scope = tiny_market.scope(market)
    sample = in_sample(scope)
    config = scope.config.model_copy(update={"processes": processes, **changed})
    return fit_alpha(sample.rows, sample.train, sample.validation, config, on_epoch=on_epoch, resume=resume)


@pytest.mark.slow
def test_two_processes_fit_what_one_does(market):
    epochs, waits = [], []
    alone = fit(market, 1)
    both = fit(market, 2, on_epoch=lambda record: (epochs.append(record), waits.append(record["input_wait"])))
    assert len(epochs) == len(both.history) == 3
    assert both.input_waits == tuple(waits)
    assert both.config == alone.config
    for own, other in zip(alone.history, both.history, strict=True):
        assert own["loss"] == pytest.approx(other["loss"], abs=1e-5)
    for name, value in alone.model.state_dict().items():
        assert torch.allclose(value, both.model.state_dict()[name], atol=1e-3), name
    again = fit(market, 2)
    for name, value in again.model.state_dict().items():
        assert torch.equal(value, both.model.state_dict()[name]), name


@pytest.mark.slow
def test_killed_process_is_told_and_the_next_run_goes_on(market, tmp_path):
    whole = fit(market, 2)
    said: list[str] = []
    resume = Resume(folder=tmp_path / "state", report=said.append, every=2)

    def kill_one(record):
        if record["epoch"] == 1:
            os.kill(ours("research.together", "request.json")[0], signal.SIGKILL)

    with pytest.raises(AlphaError, match="training in 2 processes ended with exit code 1"):
        fit(market, 2, on_epoch=kill_one, resume=resume)
    finished = fit(market, 2, resume=resume)
    assert "training goes on" in said[-1]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, finished.model.state_dict()[name]), name


@pytest.mark.slow
def test_what_a_person_can_mend_is_told_as_by_one_process(market):
    scope = tiny_market.scope(market)
    perception = scope.config.perception
    few = replace(perception, streams=1)
    with pytest.raises(ConfigError, match="streams was 1, must be at least the number of processes, 2"):
        fit(market, 2, perception=few)


@pytest.mark.slow
def test_processes_end_with_the_one_that_asked(market, tmp_path):
    """Nothing of a killed run goes on training beside the next one."""
    here = Path(__file__).parent
    code = "import sys, test_together; test_together.fit_for_ever(sys.argv[1])"
    asking = subprocess.Popen(
        [sys.executable, "-c", code, str(market.root)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (PROJECT, here, here.parent)))},
    )
    try:
        wait_until(lambda: len(ours("research.together", "request.json")) >= 2)
    finally:
        asking.kill()
        asking.wait()
    wait_until(lambda: not ours("research.together", "request.json"))


def fit_for_ever(root):
    """Run by a process of its own."""
    market = Workspace(Path(root))
    perception = tiny_market.scope(market).config.perception
    fit(market, 2, perception=replace(perception, epochs=100_000, patience=100_000))


def ours(*words):
    """Processes whose command line holds all of these words, but for torchrun itself."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = place.joinpath("cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if all(word in command for word in words) and "torch.distributed.run" not in command:
            found.append(int(place.name))
    return sorted(found)


def wait_until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.2)


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    spec = {"name": "tiny", "symbols": ["TINY"], "tick_size": "0.25", "calendar": "24/7"}
    config = PipelineConfig.model_validate({"instrument": spec, "device": "cuda", "processes": 2})
    with pytest.raises(ConfigError, match=r"processes was 2 with device 'cuda', must be at most .* GPUs, 1"):
        fit_together(None, None, None, config, None, None)
