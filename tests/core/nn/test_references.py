"""DeepLOB, TLOB and MLPLOB: causal, carried exactly, of the published size, and equal to plain formulas."""

import numpy as np
import pytest
import torch

from alpha_core.errors import ConfigError, DataError
from alpha_core.nn.networks import make_network
from alpha_core.nn.perception import Architecture, Perception
from alpha_core.nn.tlob import Attention, sinusoids
from alpha_core.nn.windows import BilinearNorm
from alpha_core.shapes import FEATURES, HORIZONS
from alpha_core.training.mirror import EVEN, ODD

NAMES = (*sorted(ODD), *sorted(EVEN))
REFERENCES = ("deeplob", "tlob", "mlplob")
WINDOW = 16


def network(name, seed=0, window=WINDOW):
    architecture = Architecture(network=name, window=window)
    return make_network(architecture, NAMES, generator=torch.Generator().manual_seed(seed))


def rows(B, T, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(B, T, FEATURES, generator=g), torch.rand(B, T, generator=g)


every = pytest.mark.parametrize("name", REFERENCES)


@torch.no_grad()
@every
def test_forward_step_and_halves_agree(name):
    model = network(name)
    x, dt = rows(3, 31)
    logits, last = model(x, dt)
    assert logits.shape == (3, 31, len(HORIZONS))
    state = None
    for t in range(31):
        step, state = model.step(x[:, t], dt[:, t], state)
        torch.testing.assert_close(step, logits[:, t], atol=1e-5, rtol=1e-4)
    for own, other in zip(last.parts, state.parts, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)
    left, state = model(x[:, :13], dt[:, :13])
    right, _ = model(x[:, 13:], dt[:, 13:], model.state_from(state.tensors()))
    torch.testing.assert_close(torch.cat((left, right), 1), logits, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@every
def test_causal_bit_for_bit(name):
    model = network(name)
    x, dt = rows(2, 40)
    later = x.clone()
    later[:, 25:] = 1e6
    assert torch.equal(model(x, dt)[0][:, :25], model(later, dt)[0][:, :25])


@torch.no_grad()
@every
def test_a_segment_break_in_one_sequence_clears_that_one_alone(name):
    model = network(name)
    x, dt = rows(3, 40)
    reset = torch.zeros(3, 40, dtype=torch.bool)
    reset[1, 17] = reset[2, 30] = True
    logits, _ = model(x, dt, None, reset)
    whole, _ = model(x, dt)
    close = {"atol": 1e-5, "rtol": 1e-4}
    torch.testing.assert_close(logits[0], whole[0], **close)
    torch.testing.assert_close(logits[1, :17], whole[1, :17], **close)
    torch.testing.assert_close(logits[1:2, 17:], model(x[1:2, 17:], dt[1:2, 17:])[0], **close)
    torch.testing.assert_close(logits[2:3, 30:], model(x[2:3, 30:], dt[2:3, 30:])[0], **close)


@torch.no_grad()
@pytest.mark.parametrize("name", ["tlob", "mlplob"])
def test_a_row_sees_its_window_and_not_one_row_more(name):
    model = network(name)
    x, dt = rows(1, 40)
    logits = model(x, dt)[0][0]
    alone = model.of_windows(torch.stack([x[0, t - WINDOW + 1 : t + 1] for t in range(WINDOW - 1, 40)]))
    torch.testing.assert_close(logits[WINDOW - 1 :], alone, atol=1e-5, rtol=1e-4)
    x[0, 10] += 1
    moved = (model(x, dt)[0][0] - logits).abs().amax(1) > 1e-6
    assert torch.nonzero(moved).flatten().tolist() == list(range(10, 10 + WINDOW))


@torch.no_grad()
def test_deeplob_finds_the_levels_by_name():
    """Two columns of levels exchanged, with their names: nothing changes; without: something does."""
    one, two = NAMES.index("ofi_1"), NAMES.index("queue_imbalance_4")
    order = list(range(FEATURES))
    order[one], order[two] = two, one
    exchanged = make_network(
        Architecture(network="deeplob"),
        [NAMES[i] for i in order],
        generator=torch.Generator().manual_seed(0),
    )
    model = network("deeplob")
    x, dt = rows(2, 30)
    logits = model(x, dt)[0]
    assert torch.equal(exchanged(x[..., order], dt)[0], logits)
    assert not torch.equal(exchanged(x, dt)[0], logits)
    assert sorted(model.by_level.tolist() + model.others.tolist()) == list(range(FEATURES))


def test_deeplob_without_levels_names_what_is_absent():
    names = tuple(name if name != "ofi_3" else "other" for name in NAMES)
    with pytest.raises(DataError, match="features ofi_3 are absent"):
        make_network(Architecture(network="deeplob"), names, generator=torch.Generator())


@every
def test_gradient_reaches_every_parameter_and_building_twice_gives_the_same_bits(name):
    before = torch.random.get_rng_state()
    model, twin, other = network(name, 3), network(name, 3), network(name, 4)
    assert torch.equal(before, torch.random.get_rng_state())
    for key, value in model.state_dict().items():
        assert torch.equal(value, twin.state_dict()[key]), key
    x, dt = rows(4, 20)
    logits = model(x, dt)[0]
    assert not torch.equal(logits, other(x, dt)[0])
    logits.square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, key


def test_deeplob_is_as_small_as_published():
    """About 60 000 parameters (section 4 of the paper)."""
    assert sum(p.numel() for p in network("deeplob").parameters()) == pytest.approx(60_000, rel=0.1)


@torch.no_grad()
def test_norm_and_attention_are_their_formulas_in_float64():
    x = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norm = BilinearNorm(6, 5).double()
    norm.weight.copy_(torch.tensor([0.3, 0.9]))
    v = x.numpy()
    over_rows = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5)
    over_features = (v - v.mean(2, keepdims=True)) / np.sqrt(v.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(
        norm(x).numpy(), norm.weight[0].item() * over_rows + norm.weight[1].item() * over_features
    )

    layer = Attention(5, 5, generator=torch.Generator().manual_seed(1)).double()
    w = {name: value.numpy() for name, value in layer.state_dict().items()}
    q, k, u = np.split(v @ w["qkv.weight"].T, 3, axis=-1)
    scores = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(5))
    h = v + (scores / scores.sum(-1, keepdims=True)) @ u @ w["out.weight"].T
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    z = torch.from_numpy(h @ w["first.weight"].T)
    expected = h + torch.nn.functional.gelu(z).numpy() @ w["second.weight"].T
    np.testing.assert_allclose(layer(x).numpy(), expected, atol=1e-12)


def test_positions_by_hand():
    found = sinusoids(3, 4)
    assert found[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    expected = [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)]
    np.testing.assert_allclose(found[2].numpy(), expected, atol=1e-6)


def test_names_choose_the_network_and_wrong_ones_are_told():
    assert isinstance(network("production"), Perception)
    with pytest.raises(ConfigError, match=r"network was 'lstm', must be one of production, deeplob"):
        Architecture(network="lstm")
    with pytest.raises(ConfigError, match="window was 3, must be at least 16"):
        Architecture(window=3)
