"""The gate kernels against the written-out formula in float64, in Triton's interpreter or on an accelerator."""

import pytest
import torch

from alpha_core.cuda.vsn import dense
from alpha_core.cuda.vsn.reference import vsn_formula

SHAPES = [(1, 40), (3, 5), (33, 24), (130, 40)]
NAMES = ("y", "gate", "x", "weight", "bias")


def arguments(N, F, seed=0):
    """grad, grad_gate, x, weight, bias."""
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(*size, generator=g) for size in ((N, F), (N, F), (N, F), (F, F), (F,))]


def plain(values, gated, dtype=torch.float64):
    grad, grad_gate, *leaves = (v.to(dtype, copy=True) for v in values)
    leaves = [v.requires_grad_() for v in leaves]
    y, gate = vsn_formula(*leaves)
    loss = (y * grad).sum() + ((gate * grad_gate).sum() if gated else 0)
    return [v.detach().double() for v in (y, gate, *torch.autograd.grad(loss, leaves))]


def kernel(values, gated, device):
    from alpha_core.cuda.vsn import kernels

    grad, grad_gate, *rest = (v.to(device) for v in values)
    grads = kernels.backward(grad, grad_gate if gated else None, *rest, True)
    return [v.cpu() for v in (*kernels.forward(*rest, True), *grads)]


def cpu_form(values, gated):
    grad, grad_gate, x, weight, bias = values
    y, gate = dense.forward(x, weight, bias)
    return [y, gate, *dense.backward(grad, grad_gate if gated else None, x, weight, gate, True)]


def largest_errors(results, exact):
    """Over several draws, per name: the largest of one row's few numbers alone is a matter of luck."""
    return [
        max((a - e).abs().max() for a, e in zip(own, true, strict=True))
        for own, true in zip(zip(*results, strict=True), zip(*exact, strict=True), strict=True)
    ]


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_are_as_exact_as_the_formula(kernel_device, shape, gated):
    draws = [arguments(*shape, seed=seed) for seed in range(12)]
    exact = [plain(values, gated) for values in draws]
    rough = largest_errors([plain(values, gated, torch.float32) for values in draws], exact)
    for form in (lambda values: kernel(values, gated, kernel_device), lambda values: cpu_form(values, gated)):
        own = largest_errors([form(values) for values in draws], exact)
        for name, error, bound in zip(NAMES, own, rough, strict=True):
            assert error <= 2 * bound + 1e-6, name


def test_half_precision_rounds_inputs_products_and_outputs_only(kernel_device):
    values = arguments(65, 40)
    values[0], values[2], values[3] = values[0].bfloat16(), values[2].bfloat16(), values[3] * 0.2
    own = kernel(values, True, kernel_device)
    assert [v.dtype == torch.bfloat16 for v in own] == [True, False, True, False, False]
    for name, value, exact in zip(NAMES, own, plain(values, True), strict=True):
        assert (value - exact).norm() < 1e-2 * exact.norm(), name


def test_the_gate_is_written_only_when_asked_for(kernel_device):
    from alpha_core.cuda.vsn import kernels

    x, weight, bias = (v.to(kernel_device) for v in arguments(9, 40)[2:])
    y, gate = kernels.forward(x, weight, bias, False)
    assert gate.numel() == 0
    assert torch.equal(y, kernels.forward(x, weight, bias, True)[0])


def test_the_gradient_of_x_is_written_only_when_asked_for(kernel_device):
    from alpha_core.cuda.vsn import kernels

    grad, grad_gate, x, weight, bias = (v.to(kernel_device) for v in arguments(70, 40))
    whole = kernels.backward(grad, grad_gate, x, weight, bias, True)
    bare = kernels.backward(grad, grad_gate, x, weight, bias, False)
    assert bare[0].numel() == 0
    assert all(torch.equal(a, b) for a, b in zip(whole[1:], bare[1:], strict=True))


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter says so, a device does not
@pytest.mark.filterwarnings("ignore:invalid value")
def test_saturated_gates_and_minus_zero(kernel_device):
    values = arguments(4, 6)
    values[2][0], values[2][1], values[2][2] = 1e30, -0.0, 1e4
    values[4][3] = 1e30
    y, gate, *grads = kernel(values, False, kernel_device)
    assert (gate[1:3].argmax(1) == 3).all()
    assert all(torch.isfinite(v[1:]).all() for v in (y, gate, grads[0]))


def test_nan_in_one_row_stays_in_it(kernel_device):
    values = arguments(70, 40)
    values[2][66, 5] = float("nan")
    y, gate, grad_x, *_ = kernel(values, True, kernel_device)
    for value in (y, gate, grad_x):
        assert torch.isnan(value).any(1).nonzero().flatten().tolist() == [66]


def test_two_runs_have_the_same_bits(kernel_device):
    values = arguments(130, 40)
    for own, again in zip(*(kernel(values, True, kernel_device) for _ in range(2)), strict=True):
        assert torch.equal(own, again)


def test_too_many_features_are_refused(kernel_device):
    with pytest.raises(ValueError, match="vsn_gate: F was 130, must be at most 128 on CUDA"):
        kernel(arguments(2, 130), False, kernel_device)
