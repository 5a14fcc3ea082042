"""The whole network: forward and step agree, state is exact, ablations, seeds."""

import itertools

import pytest
import torch

from alpha_core.errors import ConfigError, DataError
from alpha_core.nn.perception import Architecture, Perception
from alpha_core.shapes import FEATURES, HORIZONS

SMALL = {"hidden": 8, "state": 4, "heads": 2, "chunk": 8}


def network(seed=0, **changes):
    return Perception(Architecture(**{**SMALL, **changes}), generator=torch.Generator().manual_seed(seed))


def rows(B, T, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(B, T, FEATURES, generator=g), 3 * torch.rand(B, T, generator=g)


ABLATIONS = [
    {"vsn": vsn, "cfc": cfc, "head": head}
    for vsn, cfc, head in itertools.product((True, False), (True, False), ("grn", "linear", "mlp"))
]


@torch.no_grad()
@pytest.mark.parametrize("changes", [*ABLATIONS, {"layers": 3}, {"continuous_time": False}], ids=str)
def test_forward_and_step_agree(changes):
    model = network(**changes)
    x, dt = rows(3, 19)
    logits, last = model(x, dt)
    assert logits.shape == (3, 19, len(HORIZONS))
    state = None
    for t in range(19):
        step, state = model.step(x[:, t], dt[:, t], state)
        torch.testing.assert_close(step, logits[:, t], atol=1e-5, rtol=1e-4)
    for own, other in zip(last.blocks, state.blocks, strict=True):
        torch.testing.assert_close(own.ssm, other.ssm, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(own.taps, other.taps, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("T", [1, 29, 31, 63, 64, 65, 257])
def test_fault_ssm_parity_of_the_whole_network(T):
    model = network(chunk=64)
    x, dt = rows(2, T)
    whole, _ = model(x, dt)
    cut = T // 2
    if cut:
        left, state = model(x[:, :cut], dt[:, :cut])
        right, _ = model(x[:, cut:], dt[:, cut:], state)
        torch.testing.assert_close(torch.cat((left, right), 1), whole, atol=1e-4, rtol=1e-4)
    state = None
    for t in range(T):
        step, state = model.step(x[:, t], dt[:, t], state)
    torch.testing.assert_close(step, whole[:, -1], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_causal_bit_for_bit():
    """Whatever comes later, a row's logits do not change."""
    model = network()
    x, dt = rows(2, 40)
    logits, _ = model(x, dt)
    later = x.clone()
    later[:, 25:] = 1e6
    changed, _ = model(later, dt)
    assert torch.equal(logits[:, :25], changed[:, :25])


@torch.no_grad()
def test_state_resets_exactly_at_a_segment_break():
    model = network(layers=2)
    x, dt = rows(2, 40)
    reset = torch.zeros(2, 40, dtype=torch.bool)
    reset[:, 17] = True
    logits, _ = model(x, dt, None, reset)
    before = x.clone()
    before[:, :17] = -before[:, :17].flip(1)
    changed, _ = model(before, dt, None, reset)
    assert torch.equal(logits[:, 17:], changed[:, 17:])
    alone, _ = model(x[:, 17:], dt[:, 17:])
    torch.testing.assert_close(logits[:, 17:], alone, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_weekend_gap_and_extreme_features_give_finite_logits():
    model = network()
    x, dt = rows(2, 30)
    dt[:, 10], x[:, 11] = 1.8e5, 1e30
    assert torch.isfinite(model(x, dt)[0]).all()


def test_building_twice_gives_the_same_bits_and_leaves_the_global_stream_alone():
    before = torch.random.get_rng_state()
    first, second, other = network(3), network(3), network(4)
    assert torch.equal(before, torch.random.get_rng_state())
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name
    assert not torch.equal(first.embed.weight, other.embed.weight)


def test_ablations_remove_their_parameters():
    names = set(network().state_dict())
    assert not any(name.startswith("cfc.") for name in network(cfc=False).state_dict())
    assert not any(name.startswith("vsn.") for name in network(vsn=False).state_dict())
    assert len(names) > len(set(network(head="linear").state_dict()))


@torch.no_grad()
def test_gate_sums_to_one_and_starts_uniform():
    x, _ = rows(2, 5)
    model = network()
    torch.testing.assert_close(model.gate(x), torch.full_like(x, 1 / FEATURES))
    model.vsn.bias[3] = 2.0
    gate = model.gate(x)
    torch.testing.assert_close(gate.sum(-1), torch.ones(2, 5))
    assert (gate.argmax(-1) == 3).all()
    torch.testing.assert_close(network(vsn=False).gate(x), torch.full_like(x, 1 / FEATURES))


@torch.no_grad()
def test_scaler_and_temperature_are_part_of_the_network():
    model = network()
    x, dt = rows(1, 6)
    logits, _ = model(x, dt)
    model.mean.fill_(5.0)
    model.scale.fill_(2.0)
    model.temperature.copy_(torch.tensor([1.0, 2.0, 4.0, 0.5, 1.0]))
    again, _ = model(2 * x + 5, dt)
    torch.testing.assert_close(again * model.temperature, logits, atol=1e-5, rtol=1e-4)
    assert {"mean", "scale", "temperature"} <= set(model.state_dict())


def test_gradient_reaches_every_parameter():
    model = network()
    x, dt = rows(4, 20)
    model(x, dt)[0].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_all_bad_fields_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        Architecture(hidden=0, head="tree", feature_clip=-1.0)
    for words in ("hidden was 0, must be at least 1", "head was 'tree'", "feature_clip was -1.0"):
        assert words in str(caught.value)
    with pytest.raises(ConfigError, match="heads was 3, must divide expand x hidden = 256"):
        Architecture(heads=3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.zeros(2, 7, 39)}, r"x has shape \[2, 7, 39\], must be \[B, T, 40\]"),
        ({"x": torch.zeros(7, 40)}, r"x has shape \[7, 40\], must be \[B, T, 40\]"),
        ({"x": torch.zeros(2, 0, 40)}, r"x has shape \[2, 0, 40\]"),
        ({"x": torch.zeros(2, 7, 40, dtype=torch.float64)}, r"x is torch.float64, must be torch.float32"),
        ({"x": torch.zeros(2, 7, 40, device="meta")}, "x is on meta, must be on cpu"),
        ({"dt": torch.zeros(2, 6)}, r"dt has shape \[2, 6\], must be \[2, 7\]"),
        ({"dt": torch.zeros(2, 7, dtype=torch.int64)}, "dt is torch.int64, must be torch.float32"),
        ({"reset": torch.zeros(7, dtype=torch.bool)}, r"reset has shape \[7\], must be \[2, 7\]"),
        ({"reset": torch.zeros(2, 7)}, "reset is torch.float32, must be torch.bool"),
        (
            {"dt": torch.zeros(2), "reset": torch.zeros(2, 7)},
            r"dt has shape \[2\], must be \[2, 7\]; reset is torch.float32",
        ),
    ],
)
def test_wrong_input_is_one_sentence_naming_the_argument(change, words):
    given = {"x": torch.zeros(2, 7, FEATURES), "dt": torch.zeros(2, 7)} | change
    with pytest.raises(DataError, match=words):
        network()(**given)


def test_wrong_row_or_state_is_one_sentence_too():
    model = network()
    with pytest.raises(DataError, match=r"x has shape \[40\] and dt \[\], must be \[B, 40\] and \[B\]"):
        model.step(torch.zeros(FEATURES), torch.zeros(()))
    _, state = model.step(torch.zeros(3, FEATURES), torch.zeros(3))
    with pytest.raises(DataError, match=r"state hidden has shape \[3, 8\], must be \[2, 8\]"):
        model.step(torch.zeros(2, FEATURES), torch.zeros(2), state)
