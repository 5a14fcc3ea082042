"""SSD: the chunked form against the recurrence, the recurrence against reference numbers."""

import json

import pytest
import torch

from alpha_core.cuda.ssd import ssd_scan
from alpha_core.cuda.ssd.reference import ssd_sequential

LENGTHS = (1, 29, 31, 63, 64, 65, 257)


def inputs(B=2, T=9, H=2, P=3, N=4, *, seed=0, dtype=torch.float32, scale=0.5):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    return {
        "x": normal(B, T, H, P),
        "b": normal(B, T, N),
        "c": normal(B, T, N),
        "delta": normal(B, T, H).abs() * scale,
        "a_log": normal(H) * 0.5,
        "d": normal(H),
        "state": normal(B, H, P, N),
    }


def part(arguments, start, stop):
    sliced = ("x", "b", "c", "delta", "reset")
    return {k: v[:, start:stop] if k in sliced and v is not None else v for k, v in arguments.items()}


def relative(left, right):
    """Largest difference in units of the largest value."""
    return ((left.double() - right.double()).abs().max() / right.double().abs().max()).item()


@pytest.mark.parametrize("chunk", [1, 2, 4, 9, 64])
def test_reference_numbers(vectors, chunk):
    cases = json.loads((vectors / "ssd.json").read_text())["cases"]
    assert cases
    for case in cases:
        v = {k: torch.tensor(value) for k, value in case.items()}
        H, P, N = v["final_state"].shape
        y, state = ssd_scan(
            v["x"][None],
            v["B"][None],
            v["C"][None],
            v["delta"][None],
            a_log=v["A_log"],
            d=v["D"],
            state=torch.zeros(1, H, P, N),
            chunk=chunk,
        )
        torch.testing.assert_close(y[0], v["y"], atol=1e-5, rtol=0)
        torch.testing.assert_close(state[0], v["final_state"], atol=1e-5, rtol=0)


def test_hand_worked_two_steps():
    """One head, one channel, one state: decay exp(-0.5), then h = 0.5*2*3 = 3 and e^-0.5*3 + 0.5*1*4 = ..."""
    y, state = ssd_sequential(
        torch.tensor([2.0, 1.0]).view(1, 2, 1, 1),
        torch.tensor([3.0, 4.0]).view(1, 2, 1),
        torch.tensor([1.0, 2.0]).view(1, 2, 1),
        torch.full((1, 2, 1), 0.5),
        a_log=torch.zeros(1),
        d=torch.tensor([10.0]),
        state=torch.zeros(1, 1, 1, 1),
    )
    second = 3 * 0.6065306597 + 2
    assert y.flatten().tolist() == pytest.approx([3 + 20, 2 * second + 10])
    assert state.item() == pytest.approx(second)


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("chunk", [16, 64])
def test_fault_ssm_parity_chunked_equals_sequential(T, chunk):
    """Outputs that differ past a length or at a chunk edge: fp32 against fp32, largest difference 1e-4."""
    arguments = inputs(B=3, T=T, seed=T)
    y, state = ssd_scan(**arguments, chunk=chunk)
    y_ref, state_ref = ssd_sequential(**arguments)
    assert relative(y, y_ref) <= 1e-4
    assert relative(state, state_ref) <= 1e-4


@pytest.mark.parametrize("T", [t for t in LENGTHS if t > 1])
def test_fault_ssm_parity_two_halves_with_carried_state(T):
    arguments = inputs(T=T, seed=T)
    whole, last = ssd_scan(**arguments, chunk=16)
    middle = T // 2
    left, state = ssd_scan(**part(arguments, 0, middle), chunk=16)
    right, state = ssd_scan(**{**part(arguments, middle, T), "state": state}, chunk=16)
    assert relative(torch.cat((left, right), 1), whole) <= 1e-4
    assert relative(state, last) <= 1e-4


@pytest.mark.parametrize("chunk", [1, 8, 64])
def test_fault_ssm_parity_state_resets_exactly_at_a_break(chunk):
    """Rows after a break have the same bits whatever came before it."""
    T, cut = 40, 21
    arguments = inputs(T=T)
    reset = torch.zeros(2, T, dtype=torch.bool)
    reset[:, cut] = True
    y, state = ssd_scan(**arguments, reset=reset, chunk=chunk)
    other = inputs(T=T, seed=7)
    mixed = {
        k: torch.cat((other[k][:, :cut] * 50, arguments[k][:, cut:]), 1)
        if k in ("x", "b", "c", "delta")
        else v
        for k, v in arguments.items()
    }
    y_mixed, state_mixed = ssd_scan(**{**mixed, "state": other["state"]}, reset=reset, chunk=chunk)
    assert torch.equal(y[:, cut:], y_mixed[:, cut:])
    assert torch.equal(state, state_mixed)
    assert not torch.equal(y[:, :cut], y_mixed[:, :cut])
    alone, _ = ssd_sequential(**{**part(arguments, cut, T), "state": torch.zeros_like(state)})
    assert relative(y[:, cut:], alone) <= 1e-5


def test_resets_on_every_kind_of_row_match_the_recurrence():
    arguments = inputs(B=3, T=65)
    reset = torch.rand(3, 65, generator=torch.Generator().manual_seed(3)) < 0.15
    reset[0, 0], reset[0, 16], reset[0, 31], reset[1, 64] = True, True, True, True
    y, state = ssd_scan(**arguments, reset=reset, chunk=16)
    y_ref, state_ref = ssd_sequential(**arguments, reset=reset)
    assert relative(y, y_ref) <= 1e-5
    assert relative(state, state_ref) <= 1e-5


@pytest.mark.parametrize("huge", [1e3, 1e6, 1e30])
def test_fault_ssm_parity_one_huge_step_is_finite_and_costs_its_neighbours_nothing(huge):
    arguments = inputs(T=64)
    arguments["delta"][:, 10] = huge
    arguments["x"][:, 10] = 1 / huge
    y, state = ssd_scan(**arguments, chunk=64)
    y_ref, state_ref = ssd_sequential(**arguments)
    assert torch.isfinite(y).all()
    assert torch.isfinite(state).all()
    assert relative(y, y_ref) <= 1e-5
    assert relative(state, state_ref) <= 1e-5


def test_all_steps_huge_or_zero():
    for value in (0.0, 1e8):
        arguments = inputs(T=33)
        arguments["delta"] = torch.full_like(arguments["delta"], value)
        arguments["x"] = arguments["x"] / max(value, 1)
        y, state = ssd_scan(**arguments, chunk=16)
        y_ref, state_ref = ssd_sequential(**arguments)
        assert relative(y, y_ref) <= 1e-5
        assert relative(state, state_ref) <= 1e-5


def test_gradients_of_the_chunked_form_equal_those_of_the_recurrence():
    arguments = inputs(B=2, T=13, dtype=torch.float64)
    reset = torch.zeros(2, 13, dtype=torch.bool)
    reset[1, 5] = True
    gradients = []
    for form in (lambda **a: ssd_scan(**a, chunk=4), ssd_sequential):
        leaves = {k: v.clone().requires_grad_() for k, v in arguments.items()}
        y, state = form(**leaves, reset=reset)
        (y.sin().sum() + state.cos().sum()).backward()
        gradients.append({k: v.grad for k, v in leaves.items()})
    for name, value in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], value, atol=1e-10, rtol=1e-10)


def test_gradcheck_of_the_reference():
    arguments = inputs(B=1, T=4, H=1, P=2, N=2, dtype=torch.float64)
    names = list(arguments)
    assert torch.autograd.gradcheck(
        lambda *values: ssd_sequential(**dict(zip(names, values, strict=True))),
        [v.requires_grad_() for v in arguments.values()],
    )


def test_gradcheck_of_the_chunked_form():
    arguments = inputs(B=2, T=7, H=2, P=2, N=3, dtype=torch.float64)
    names, reset = list(arguments), torch.zeros(2, 7, dtype=torch.bool)
    reset[0, 4] = True
    assert torch.autograd.gradcheck(
        lambda *values: ssd_scan(**dict(zip(names, values, strict=True)), reset=reset, chunk=3),
        [v.requires_grad_() for v in arguments.values()],
    )


@pytest.mark.parametrize("huge", [1e3, 1e30])
def test_gradients_around_one_huge_step_keep_their_digits(huge):
    arguments = inputs(B=1, T=64)
    arguments["delta"][:, 10], arguments["x"][:, 10] = huge, 1 / huge
    weight = torch.randn(1, 64, 2, 3, generator=torch.Generator().manual_seed(1))
    gradients = []
    for dtype, form in (
        (torch.float64, ssd_sequential),
        (torch.float32, lambda **a: ssd_scan(**a, chunk=64)),
    ):
        leaves = {k: v.to(dtype).requires_grad_() for k, v in arguments.items()}
        y, state = form(**leaves)
        ((y * weight).sum() + state.sum()).backward()
        gradients.append({k: v.grad for k, v in leaves.items()})
    for name, exact in gradients[0].items():
        pair = gradients[1][name], exact
        if name in ("x", "delta"):  # those of the step itself grow with it, or with its inverse
            pair = [torch.cat((v[:, :10], v[:, 11:]), 1) for v in pair]
        assert relative(*pair) <= 1e-5, name


@pytest.mark.parametrize("with_reset", [False, True])
def test_operator_keeps_the_rules_of_torch(with_reset):
    values = list(inputs(B=2, T=7).values())
    reset = torch.rand(2, 7, generator=torch.Generator().manual_seed(1)) < 0.3 if with_reset else None
    torch.library.opcheck(
        torch.ops.alpha.ssd_forward.default, (*(v.requires_grad_() for v in values), reset, 3, True)
    )
    torch.library.opcheck(
        torch.ops.alpha.ssd_forward.default, (*(v.detach() for v in values), reset, 3, False)
    )


def test_bfloat16_rows_beside_a_float32_state():
    arguments = inputs(T=33)
    half = {k: v.bfloat16() if k in ("x", "b", "c") else v for k, v in arguments.items()}
    y, state = ssd_scan(**half, chunk=16)
    exact, last = ssd_sequential(**{k: v.double() for k, v in half.items()})
    assert (y.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    assert relative(state, last) <= 1e-5
    assert relative(y, exact) <= 1e-2


@pytest.mark.parametrize(("name", "shape"), [("b", (2, 8, 4)), ("delta", (2, 9, 3)), ("state", (1, 2, 3, 4))])
def test_shapes_that_do_not_fit_are_named(name, shape):
    with pytest.raises(ValueError, match=f"{name} was"):
        ssd_scan(**{**inputs(), name: torch.zeros(shape)}, chunk=4)


def test_no_rows_give_no_rows_and_the_same_state():
    arguments = inputs(T=0)
    y, state = ssd_scan(**arguments, chunk=16)
    assert y.shape == (2, 0, 2, 3)
    assert state is arguments["state"]
