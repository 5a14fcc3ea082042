"""Training from a recorded graph takes the steps of training launched call by call, to the last bit."""

from dataclasses import replace

import pytest
import torch

from alpha_core.cuda.graphs import Captured, Replayed
from alpha_core.training.perception import new_model
from alpha_core.training.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs an accelerator: run `make test-gpu` on one"
    ),
]


@pytest.fixture
def config(tiny_config):
    """Blocks that leave a shorter last one, and a width that the kernels for production take."""
    return replace(tiny_config, hidden=32, length=12, epochs=3, patience=3, warmup=0.2)


def trainer(data, config, *, recorded: bool) -> Trainer:
    run = Trainer(new_model(data, config, seed=0).to("cuda"), data, config, seed=0)
    if not recorded:
        run.learn = Replayed(run._learn, on=False)
    return run


def after_epochs(run: Trainer, epochs: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    losses = []
    for _ in range(epochs):
        run.run()
        losses.append(run.close_epoch(0.5, {})["loss"])
    return losses, {name: value.cpu() for name, value in run.model.state_dict().items()}


@pytest.mark.parametrize("autocast", [True, False])
def test_epochs_from_a_graph_have_the_bits_of_epochs_without(small, config, autocast):
    """Whole schedules: a rate frozen in the graph would show, and so would state that is not carried."""
    config = replace(config, autocast=autocast)
    plain = after_epochs(trainer(small, config, recorded=False), 3)
    run = trainer(small, config, recorded=True)
    graphed = after_epochs(run, 3)
    assert isinstance(run.learn._captured, Captured)
    assert run.rows % (run.streams * config.length)
    assert graphed[0] == plain[0]
    for name, value in plain[1].items():
        assert torch.equal(value, graphed[1][name]), name


def test_a_rate_of_zero_leaves_the_weights_alone_though_it_came_after_the_recording(small, config):
    run = trainer(small, config, recorded=True)
    run.run(8)
    assert isinstance(run.learn._captured, Captured)
    before = [p.detach().clone() for p in run.model.parameters()]
    run.run(2)
    assert not all(torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True))
    before = [p.detach().clone() for p in run.model.parameters()]
    run.update = run.per_epoch * config.epochs  # the cosine's end
    run.run(1)
    assert all(torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True))


def test_a_stopped_run_goes_on_from_its_snapshot(small, config):
    whole = after_epochs(trainer(small, config, recorded=True), 2)
    first = trainer(small, config, recorded=True)
    first.run(7)
    tensors, document = first.snapshot()
    kept = {name: value.cpu().clone() for name, value in tensors.items()}
    second = trainer(small, config, recorded=True)
    second.restore(kept, document)
    assert after_epochs(second, 2)[0] == whole[0]
    assert all(torch.equal(whole[1][k], v.cpu()) for k, v in second.model.state_dict().items())


def test_a_network_that_waits_for_the_device_is_not_recorded(small, config):
    run = trainer(small, replace(config, network="mlplob", window=16), recorded=True)
    run.run()
    assert run.learn._captured is None
