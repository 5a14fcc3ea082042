"""The convolution kernels against the written-out formula in float64, in the interpreter or on an accelerator."""

import pytest
import torch

from alpha_core.cuda.conv import shifted
from alpha_core.cuda.conv.reference import conv_silu_formula

SHAPES = [(1, 1, 5), (3, 2, 33), (2, 7, 40), (33, 9, 3), (2, 40, 32)]
NAMES = ("y", "last", "x", "weight", "bias", "taps")


def arguments(B, T, C, seed=0):
    """grad, grad_last, x, weight, bias, taps, reset; the first sequence starts afresh at once and at its end."""
    g = torch.Generator().manual_seed(seed)
    sizes = [(B, T, C), (B, 3, C), (B, T, C), (C, 4), (C,), (B, 3, C)]
    reset = torch.rand(B, T, generator=g) < 0.25
    reset[0, 0] = reset[0, -1] = True
    return [*(torch.randn(*size, generator=g) for size in sizes), reset]


def plain(values, with_reset, dtype=torch.float64):
    grad, grad_last, *leaves = (v.to(dtype) for v in values[:-1])
    leaves = [v.clone().requires_grad_() for v in leaves]
    outputs = conv_silu_formula(*leaves, values[-1] if with_reset else None)
    grads = torch.autograd.grad(outputs, leaves, (grad, grad_last))
    return [v.detach().double() for v in (*outputs, *grads)]


def kernel(values, with_reset, device):
    from alpha_core.cuda.conv import kernels

    grad, grad_last, *rest = (v.to(device) for v in values)
    rest[-1] = rest[-1] if with_reset else None
    return [v.cpu() for v in (*kernels.forward(*rest), *kernels.backward(grad, grad_last, *rest))]


def cpu_form(values, with_reset):
    grad, grad_last, x, weight, bias, taps, reset = values
    reset = reset if with_reset else None
    y, last, inner = shifted.forward(x, weight, bias, taps, reset)
    return [y, last, *shifted.backward(grad, grad_last, x, weight, taps, reset, inner)]


@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_are_as_exact_as_the_formula(kernel_device, shape, with_reset):
    values = arguments(*shape)
    exact, rough = plain(values, with_reset), plain(values, with_reset, torch.float32)
    for own in (kernel(values, with_reset, kernel_device), cpu_form(values, with_reset)):
        for name, a, b, e in zip(NAMES, own, rough, exact, strict=True):
            assert (a - e).abs().max() <= 2 * (b - e).abs().max() + 1e-6, name


def test_half_precision_rounds_inputs_and_outputs_only(kernel_device):
    values = arguments(3, 12, 33)
    values[0], values[2] = values[0].bfloat16(), values[2].bfloat16()
    own = kernel(values, True, kernel_device)
    assert [v.dtype for v in own] == [torch.bfloat16, torch.float32, torch.bfloat16, *[torch.float32] * 3]
    for name, value, exact in zip(NAMES, own, plain(values, True), strict=True):
        # Half a unit in the last place is 2^-9 of a value; the interpreter cuts off, which is a whole one.
        assert (value - exact).abs().max() <= 2**-7 * exact.abs().max(), name


def test_a_slice_of_wider_rows_is_read_where_it_lies(kernel_device):
    values = arguments(3, 12, 33)
    expected = kernel(values, True, kernel_device)
    values[2] = torch.cat((values[2] + 1, values[2], values[2]), 2)[..., 33:66]
    for own, other in zip(kernel(values, True, kernel_device), expected, strict=True):
        assert torch.equal(own, other)


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter says so, a device does not
def test_extreme_inputs_stay_finite_and_minus_zero_is_zero(kernel_device):
    values = arguments(2, 9, 5)
    values[2][0, 2], values[2][1, 3], values[2][1, 4] = 1e30, -1e30, -0.0
    own, exact = kernel(values, True, kernel_device), plain(values, True)
    assert all(torch.isfinite(v).all() for v in own)
    torch.testing.assert_close(own[0].double(), exact[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("T", [9, 20])
def test_nan_reaches_its_own_channel_and_the_three_rows_after_it(kernel_device, T):
    values = arguments(3, T, 5)
    values[2][1, 5, 2] = float("nan")
    y, last, grad_x, *_ = kernel(values, False, kernel_device)
    spoilt = torch.isnan(y).nonzero().tolist()
    assert spoilt == [[1, t, 2] for t in range(5, 9)]
    assert {tuple(i) for i in torch.isnan(grad_x).nonzero().tolist()} <= {(1, t, 2) for t in range(2, 9)}
    assert torch.isfinite(last).all()


def test_two_runs_have_the_same_bits(kernel_device):
    values = arguments(5, 20, 33)
    for own, again in zip(*(kernel(values, True, kernel_device) for _ in range(2)), strict=True):
        assert torch.equal(own, again)


def test_another_width_is_refused(kernel_device):
    values = arguments(1, 4, 3)
    values[3] = values[3][:, :3]
    with pytest.raises(ValueError, match="conv_silu: width of weight was 3, must be 4 on CUDA"):
        kernel(values, False, kernel_device)
