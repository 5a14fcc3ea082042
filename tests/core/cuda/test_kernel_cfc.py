"""The CfC kernels against the plain loop in float64, in Triton's interpreter or on an accelerator."""

import importlib

import pytest
import torch

from alpha_core.cuda.cfc import scan

SHAPES = [(1, 1, 16), (7, 3, 48), (5, 33, 16), (3, 18, 24), (9, 5, 128)]


@pytest.fixture(params=["kernels", "walk"])
def form(request, kernel_device):
    """Both device forms; CUDA C++ has no interpreter."""
    if request.param == "walk" and kernel_device == "cpu":
        pytest.skip("CUDA C++ needs an accelerator: run this file on one")
    return importlib.import_module(f"alpha_core.cuda.cfc.{request.param}")


def arguments(T, B, D, seed=0):
    g = torch.Generator().manual_seed(seed)
    normal = torch.randn
    gates, weight = normal(T, B, 4 * D, generator=g), normal(D, 4 * D, generator=g) * 0.2
    dt, state = normal(T, B, generator=g).abs(), normal(B, D, generator=g).tanh()
    grads = normal(T, B, D, generator=g), normal(B, D, generator=g)
    return gates, weight, dt, state, torch.rand(T, B, generator=g) < 0.2, *grads


def both_ways(form, values, dtype, device, with_reset):
    """hidden, last, grad_gates, grad_state of one form at one precision, as float64 on the CPU."""
    gates, weight, dt, state, reset, grad_hidden, grad_last = (
        v.to(device) if v.dtype == torch.bool else v.to(device, dtype) for v in values
    )
    reset = reset if with_reset else None
    hidden, last, active = form.forward(gates, weight, dt, state, reset)
    grads = form.backward(grad_hidden, grad_last, weight, active, dt, reset)
    return [v.double().cpu() for v in (hidden, last, *grads)]


@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_kernel_is_as_exact_as_torch(form, kernel_device, shape, with_reset):
    if form.__name__.endswith("walk") and not form.fits(shape[2], torch.float32):
        pytest.skip(f"width {shape[2]} is left to the other form")
    values = arguments(*shape)
    exact = both_ways(scan, values, torch.float64, "cpu", with_reset)
    plain = both_ways(scan, values, torch.float32, "cpu", with_reset)
    own = both_ways(form, values, torch.float32, kernel_device, with_reset)
    for a, b, e in zip(own, plain, exact, strict=True):
        assert (a - e).abs().max() <= 2 * (b - e).abs().max() + 1e-6


@pytest.mark.parametrize("with_reset", [False, True])
def test_half_precision_rounds_inputs_and_products_only(form, kernel_device, with_reset):
    """With gates in bfloat16 the state stays in float32: errors are those of one rounding, not grown."""
    gates, weight, dt, state, reset, grad_hidden, grad_last = arguments(40, 3, 16)
    half = [gates.bfloat16(), weight, dt, state, reset, grad_hidden.bfloat16(), grad_last]
    moved = [v.to(kernel_device) for v in half]
    mask = moved[4] if with_reset else None
    hidden, last, active = form.forward(*moved[:4], mask)
    grads = form.backward(moved[5], moved[6], moved[1], active, moved[2], mask)
    rounded = [v.float() if v.dtype == torch.bfloat16 else v for v in half]
    expected = both_ways(scan, rounded, torch.float64, "cpu", with_reset)
    assert hidden.dtype == grads[0].dtype == torch.bfloat16
    assert last.dtype == grads[1].dtype == torch.float32
    assert (last.cpu() - expected[1]).abs().max() < 3e-3
    for own, exact in zip((hidden, *grads), (expected[0], *expected[2:]), strict=True):
        assert (own.cpu().double() - exact).norm() < 1e-2 * exact.norm()


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter says so, a device does not
@pytest.mark.parametrize("gap", [0.0, 1e-9, 1.8e5])
def test_extreme_gaps_and_gates_stay_finite(form, kernel_device, gap):
    gates, weight, _, state, _, grad_hidden, grad_last = (v.to(kernel_device) for v in arguments(6, 5, 16))
    gates[0], gates[1], gates[2] = 1e30, -1e30, -0.0
    dt = torch.full((6, 5), gap, device=kernel_device)
    hidden, last, active = form.forward(gates, weight, dt, state, None)
    grads = form.backward(grad_hidden, grad_last, weight, active, dt, None)
    assert all(torch.isfinite(v).all() for v in (hidden, last, grads[1]))
    assert hidden.abs().max() <= 1


def test_nan_in_one_sequence_stays_in_it(form, kernel_device):
    gates, weight, dt, state, *_ = (v.to(kernel_device) for v in arguments(6, 3, 16))
    gates[2, 1] = float("nan")
    hidden, _, _ = form.forward(gates, weight, dt, state, None)
    assert torch.isnan(hidden[2:, 1]).all()
    assert torch.isfinite(hidden[:, [0, 2]]).all()


def test_two_runs_have_the_same_bits(form, kernel_device):
    values = [v.to(kernel_device) for v in arguments(20, 33, 48)]
    first, again = ([v.clone() for v in form.forward(*values[:5])] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    first, again = (form.backward(*values[5:7], values[1], first[2], values[2], values[4]) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
