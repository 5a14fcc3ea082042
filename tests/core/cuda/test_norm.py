"""The gated norm: both forms against torch's own functions in float64."""

import pytest
import torch

from alpha_core.cuda.norm import dense, gated_norm
from alpha_core.cuda.norm.reference import gated_norm_formula

EPS = 1e-5
NAMES = ("out", "y", "z", "weight")


def arguments(N, C, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(*size, generator=g) for size in ((N, C), (N, C), (N, C), (C,))]


def plain(values, dtype=torch.float64):
    grad, *leaves = (v.to(dtype) for v in values)
    leaves = [v.clone().requires_grad_() for v in leaves]
    out = gated_norm_formula(*leaves, eps=EPS)
    return [v.detach().double() for v in (out, *torch.autograd.grad(out, leaves, grad))]


def both_ways(form, values, device):
    grad, *rest = (v.to(device) for v in values)
    return [v.cpu() for v in (form.forward(*rest, EPS), *form.backward(grad, *rest, EPS))]


@pytest.fixture(params=["dense", "kernels"])
def form(request, kernel_device, monkeypatch):
    if request.param == "dense":
        return dense, "cpu"
    from alpha_core.cuda.norm import kernels

    monkeypatch.setattr(kernels, "PROGRAMS", 3)  # so that a program has several blocks of few rows
    return kernels, kernel_device


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (33, 40), (7, 64), (50, 3)])
def test_both_forms_are_as_exact_as_the_formula(form, shape):
    values = arguments(*shape)
    exact, rough = plain(values), plain(values, torch.float32)
    for name, own, b, e in zip(NAMES, both_ways(form[0], values, form[1]), rough, exact, strict=True):
        assert (own - e).abs().max() <= 2 * (b - e).abs().max() + 1e-6 * e.abs().max().clamp(min=1), name


def test_half_precision_rounds_inputs_and_outputs_only(form):
    values = [v.bfloat16() if v.dim() == 2 else v for v in arguments(33, 40)]
    own = both_ways(form[0], values, form[1])
    assert [v.dtype for v in own] == [torch.bfloat16] * 3 + [torch.float32]
    for name, value, exact in zip(NAMES, own, plain(values), strict=True):
        assert (value.double() - exact).norm() < 5e-3 * exact.norm(), name


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter says so, a device does not
def test_rows_of_nothing_and_gates_beyond_all_measure_stay_finite(form):
    values = arguments(5, 16)
    values[1][0] = 0.0
    values[2][1], values[2][2], values[2][3] = -1e30, -0.0, 1e4
    assert all(torch.isfinite(v).all() for v in both_ways(form[0], values, form[1]))


def test_nan_stays_in_its_row(form):
    values = arguments(4, 16)
    values[1][2, 3] = float("nan")
    out, grad_y, grad_z, _ = both_ways(form[0], values, form[1])
    for v in (out, grad_y, grad_z):
        assert torch.isnan(v[2]).all()
        assert torch.isfinite(v[[0, 1, 3]]).all()


def test_rows_may_lie_apart(form):
    grad, y, z, weight = arguments(33, 24)
    wide = torch.cat((y, z, y), 1)
    apart = both_ways(form[0], [grad, wide[:, :24], wide[:, 24:48], weight], form[1])
    for a, b in zip(both_ways(form[0], [grad, y, z, weight], form[1]), apart, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


def test_two_runs_have_the_same_bits(form):
    values = arguments(33, 24)
    for a, b in zip(both_ways(form[0], values, form[1]), both_ways(form[0], values, form[1]), strict=True):
        assert torch.equal(a, b)


def test_operator_keeps_the_rules_of_torch():
    _, y, z, weight = (v.double() for v in arguments(4, 6))
    leaves = [v.requires_grad_() for v in (y, z, weight)]
    torch.library.opcheck(torch.ops.alpha.norm_forward.default, (*leaves, EPS))
    assert torch.autograd.gradcheck(lambda *v: gated_norm(*v, eps=EPS), leaves)
