"""CfC: the scan with its own backward pass against the plain loop, the loop against reference numbers."""

import json

import pytest
import torch

from alpha_core.cuda.cfc import cfc_scan
from alpha_core.cuda.cfc.reference import cfc_loop


def inputs(B=3, T=7, D=4, *, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    return [normal(B, T, 4 * D), normal(D, 4 * D) * 0.5, normal(B, T).abs(), normal(B, D).tanh()]


@pytest.mark.parametrize("form", [cfc_scan, cfc_loop])
def test_reference_numbers(vectors, form):
    cases = json.loads((vectors / "cfc.json").read_text())["cases"]
    assert cases
    for case in cases:
        v = {k: torch.tensor(value) for k, value in case.items()}
        stacked = torch.cat([v[k] for k in ("W1", "W2", "Wb", "Wa")])
        bias = torch.cat([v[k] for k in ("b1", "b2", "bb", "ba")])
        inputs_ = v["x"].shape[1]
        gates = v["x"] @ stacked[:, :inputs_].t() + bias
        hidden, last = form(gates[None], stacked[:, inputs_:].t(), v["dt"][None], torch.zeros(1, 4))
        torch.testing.assert_close(hidden[0], v["h"], atol=1e-5, rtol=0)
        torch.testing.assert_close(last[0], v["h"][-1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("T", [1, 7, 64, 257])
@pytest.mark.parametrize("B", [1, 3, 33])
def test_scan_equals_loop(B, T):
    arguments = inputs(B, T, 8, seed=B * T)
    reset = torch.rand(B, T, generator=torch.Generator().manual_seed(T)) < 0.1
    for mask in (None, reset):
        hidden, last = cfc_scan(*arguments, mask)
        expected, expected_last = cfc_loop(*arguments, mask)
        torch.testing.assert_close(hidden, expected, atol=2e-6, rtol=0)
        torch.testing.assert_close(last, expected_last, atol=2e-6, rtol=0)


def test_scan_is_as_exact_as_the_loop():
    """Error against float64 at most twice that of the plain float32 loop, plus 1e-6.

    With weights small enough for a recurrence that forgets: in one that amplifies, the error of either form
    is that of its first rounding, grown without bound.
    """
    arguments = inputs(16, 200, 32)
    arguments[1] *= 0.4
    exact, _ = cfc_loop(*[v.double() for v in arguments])
    own, plain = ((form(*arguments)[0].double() - exact).abs().max() for form in (cfc_scan, cfc_loop))
    assert own <= 2 * plain + 1e-6


@pytest.mark.parametrize("with_reset", [False, True])
def test_gradients_equal_those_of_the_loop(with_reset):
    arguments = inputs(3, 9, 4, dtype=torch.float64)
    reset = None
    if with_reset:
        reset = torch.zeros(3, 9, dtype=torch.bool)
        reset[0, 0], reset[1, 4], reset[2, 8] = True, True, True
    gradients = []
    for form in (cfc_scan, cfc_loop):
        leaves = [v.clone().requires_grad_() for v in arguments]
        hidden, last = form(*leaves, reset)
        ((hidden.sin() * torch.arange(9)[None, :, None]).sum() + last.cos().sum()).backward()
        gradients.append([v.grad for v in leaves])
    for own, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(own, expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("form", [cfc_scan, cfc_loop])
def test_gradcheck(form):
    arguments = [v.requires_grad_() for v in inputs(2, 5, 3, dtype=torch.float64)]
    reset = torch.zeros(2, 5, dtype=torch.bool)
    reset[0, 2] = True
    assert torch.autograd.gradcheck(lambda *a: form(*a, reset), arguments)


def test_fault_cfc_gaps_batch_equal_to_units():
    """A gap per sample must not broadcast along units when there are as many samples as units."""
    gates, weight, _, state = inputs(8, 5, 8)
    dt = torch.linspace(0.01, 4, 8)[:, None].expand(8, 5).contiguous()
    hidden, _ = cfc_scan(gates, weight, dt, state)
    order = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4])
    permuted, _ = cfc_scan(gates[order], weight, dt[order], state[order])
    torch.testing.assert_close(permuted, hidden[order], atol=1e-5, rtol=0)
    for row in range(8):
        alone, _ = cfc_scan(gates[row : row + 1], weight, dt[row : row + 1], state[row : row + 1])
        torch.testing.assert_close(alone[0], hidden[row], atol=1e-5, rtol=0)
    shuffled, _ = cfc_scan(gates, weight, dt.flip(0), state)
    assert not torch.allclose(shuffled, hidden, atol=1e-3), "the gaps must matter"


@pytest.mark.parametrize("gap", [0.0, 1e-9, 1.8e5])
def test_fault_cfc_gaps_extreme(gap):
    """No time at all, a nanosecond, a weekend: finite, forward and backward, and right."""
    arguments = inputs(8, 6, 8)
    arguments[2] = torch.full((8, 6), gap)
    leaves = [v.clone().requires_grad_() for v in arguments]
    hidden, _ = cfc_scan(*leaves)
    hidden.sum().backward()
    assert torch.isfinite(hidden).all()
    assert all(torch.isfinite(v.grad).all() for v in leaves)
    double = [v.double() for v in arguments]
    expected, _ = cfc_loop(*double)
    # At the weekend gap an error of 1e-7 in the slope is 2e-2 in the exponent, unless it is saturated.
    tolerance = 1e-5 if gap < 1 else 5e-2
    torch.testing.assert_close(hidden.double(), expected, atol=tolerance, rtol=0)


def test_zero_gap_takes_the_offset_alone():
    """D = 1, no recurrence: share = sigmoid(offset) = 0.75, so h = 0.25 tanh(1) + 0.75 tanh(-2)."""
    gates = torch.tensor([1.0, -2.0, 1.0986122887, 123.0]).view(1, 1, 4)
    hidden, _ = cfc_scan(gates, torch.zeros(1, 4), torch.zeros(1, 1), torch.zeros(1, 1))
    assert hidden.item() == pytest.approx(0.25 * 0.7615941560 + 0.75 * -0.9640275801, abs=1e-6)


def test_nan_in_one_sequence_stays_in_it():
    arguments = inputs(3, 6, 4)
    arguments[0][1, 2] = float("nan")
    hidden, _ = cfc_scan(*arguments)
    assert torch.isnan(hidden[1, 2:]).all()
    assert torch.isfinite(hidden[[0, 2]]).all()
    assert torch.isfinite(hidden[1, :2]).all()


def test_rows_after_a_reset_do_not_see_the_rows_before():
    gates, weight, dt, state = inputs(2, 10, 4)
    reset = torch.zeros(2, 10, dtype=torch.bool)
    reset[:, 6] = True
    hidden, last = cfc_scan(gates, weight, dt, state, reset)
    gates = torch.cat((gates[:, :6] * -3, gates[:, 6:]), 1)
    other, other_last = cfc_scan(gates, weight, dt, -state, reset)
    assert torch.equal(hidden[:, 6:], other[:, 6:])
    assert torch.equal(last, other_last)


def test_no_rows_give_no_rows_and_the_same_state():
    gates, weight, dt, state = inputs(2, 0, 4)
    hidden, last = cfc_scan(gates, weight, dt, state)
    assert hidden.shape == (2, 0, 4)
    assert last is state


@pytest.mark.parametrize("with_reset", [False, True])
def test_operator_keeps_the_rules_of_torch(with_reset):
    gates, weight, dt, state = inputs(3, 5, 4)
    reset = torch.rand(5, 3, generator=torch.Generator().manual_seed(1)) < 0.3 if with_reset else None
    leaves = [
        v.requires_grad_() for v in (gates.transpose(0, 1).contiguous(), weight, dt.t().contiguous(), state)
    ]
    torch.library.opcheck(torch.ops.alpha.cfc_forward.default, (*leaves, reset))
