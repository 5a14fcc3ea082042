"""The last row of a window: both forms against the recurrence in float64, extremes, the rules of operators."""

import pytest
import torch

from alpha_core.cuda.window import dense, window_last
from alpha_core.cuda.window.reference import window_recurrence

NAMES = ("y", "x", "b", "c", "delta", "a_log", "d")
SHAPES = [(1, 1, 1, 1, 1), (3, 7, 2, 5, 3), (33, 16, 4, 8, 16), (2, 16, 1, 64, 16), (5, 2, 3, 4, 7)]


def arguments(n, K, H, P, N, *, dtype=torch.float32, seed=0):
    """grad, x, b, c, delta, a_log, d."""
    g = torch.Generator().manual_seed(seed)
    sizes = ((n, H, P), (n, K, H, P), (n, K, N), (n, N), (n, K, H), (H,), (H,))
    values = [torch.randn(*size, generator=g, dtype=torch.float64) for size in sizes]
    values[4] = values[4].exp() * 0.3
    return [v.to(dtype) for v in values]


def plain(values, dtype=torch.float64):
    grad, *leaves = (v.to(dtype) for v in values)
    leaves = [v.clone().requires_grad_() for v in leaves]
    y = window_recurrence(*leaves[:4], a_log=leaves[4], d=leaves[5])
    return [v.detach().double() for v in (y, *torch.autograd.grad(y, leaves, grad))]


def both_ways(form, values, device):
    grad, *rest = (v.to(device) for v in values)
    return [v.cpu() for v in (form.forward(*rest), *form.backward(grad, *rest))]


@pytest.fixture(params=["dense", "kernels"])
def form(request, kernel_device):
    if request.param == "dense":
        return dense, "cpu"
    from alpha_core.cuda.window import kernels

    return kernels, kernel_device


@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_are_as_exact_as_the_recurrence(form, shape):
    values = arguments(*shape)
    exact, rough = plain(values), plain(values, torch.float32)
    for name, own, b, e in zip(NAMES, both_ways(form[0], values, form[1]), rough, exact, strict=True):
        assert own.shape == e.shape, name
        assert (own - e).abs().max() <= 2 * (b - e).abs().max() + 2e-6 * e.abs().max().clamp(min=1), name


def test_half_precision_rounds_inputs_and_outputs_only(form):
    values = arguments(9, 16, 2, 8, 16)
    values = [v.bfloat16() if i < 4 else v for i, v in enumerate(values)]
    own = both_ways(form[0], values, form[1])
    assert [v.dtype for v in own] == [torch.bfloat16] * 4 + [torch.float32] * 3
    for name, value, exact in zip(NAMES, own, plain(values), strict=True):
        assert (value.double() - exact).norm() < 1e-2 * exact.norm(), name


def test_one_row_is_the_direct_path_and_its_own_step():
    _, x, b, c, delta, a_log, d = arguments(4, 1, 2, 3, 5)
    expected = (delta[:, 0] * (b[:, 0] * c).sum(-1, keepdim=True) + d)[..., None] * x[:, 0]
    torch.testing.assert_close(window_last(x, b, c, delta, a_log=a_log, d=d), expected)


def test_rows_without_a_step_are_as_good_as_absent(form):
    values = arguments(6, 9, 2, 4, 3)
    values[4][:, :4] = 0.0
    shorter = [v if v.dim() < 3 or i == 0 else v[:, 4:].contiguous() for i, v in enumerate(values)]
    own, other = (both_ways(form[0], v, form[1]) for v in (values, shorter))
    torch.testing.assert_close(own[0], other[0], atol=1e-6, rtol=1e-6)
    for a, b, i in zip(own[1:], other[1:], (1, 2, 3, 4, 5, 6), strict=True):
        torch.testing.assert_close(a[:, 4:] if i in (1, 2, 4) else a, b, atol=1e-5, rtol=1e-5)
    assert not own[1][:, :4].any(), "nothing flows to what adds nothing"


def test_huge_steps_forget_and_stay_finite(form):
    values = arguments(4, 7, 2, 3, 5)
    values[4][0], values[4][1, 3], values[4][2] = 1e30, 1e30, 0.0
    values[1][1, 3] = 0.0  # what it adds itself would be as huge
    own = both_ways(form[0], values, form[1])
    assert torch.isfinite(own[0][1:]).all()
    assert all(torch.isfinite(v[1:]).all() for v in own[1:5])
    alone = [v[1:2] if v.dim() > 1 else v for v in values]
    for i in (1, 2, 4):
        alone[i] = alone[i][:, 4:]
    expected = both_ways(form[0], alone, form[1])[0][0]
    torch.testing.assert_close(own[0][1], expected, atol=1e-6, rtol=1e-5)


def test_nan_stays_in_its_window(form):
    values = arguments(4, 6, 2, 3, 5)
    values[1][2, 3, 1, 0] = float("nan")
    own = both_ways(form[0], values, form[1])
    assert torch.isnan(own[0][2]).any()
    assert all(torch.isfinite(v[[0, 1, 3]]).all() for v in own[:5])


def test_two_runs_have_the_same_bits(form):
    values = arguments(33, 16, 4, 8, 16)
    for a, b in zip(both_ways(form[0], values, form[1]), both_ways(form[0], values, form[1]), strict=True):
        assert torch.equal(a, b)


def test_a_window_does_not_know_what_is_beside_it(form):
    values = arguments(7, 16, 2, 8, 16)
    alone = [v[3:4].contiguous() if v.dim() > 1 else v for v in values]
    whole, one = both_ways(form[0], values, form[1]), both_ways(form[0], alone, form[1])
    assert torch.equal(whole[0][3:4], one[0])


def test_strided_arguments_and_no_windows(form):
    grad, x, b, c, delta, a_log, d = (v.to(form[1]) for v in arguments(6, 5, 2, 4, 3))
    strided = (x[::2], b.transpose(0, 1).contiguous().transpose(0, 1)[::2], c[::2], delta[::2])
    expected = form[0].forward(*(v.contiguous() for v in strided), a_log, d)
    assert torch.equal(form[0].forward(*strided, a_log, d), expected)
    assert form[0].forward(x[:0], b[:0], c[:0], delta[:0], a_log, d).shape == (0, 2, 4)
    assert form[0].backward(grad[:0], x[:0], b[:0], c[:0], delta[:0], a_log, d)[4].tolist() == [0.0, 0.0]


def test_operator_keeps_the_rules_of_torch():
    _, *leaves = arguments(3, 4, 2, 3, 2, dtype=torch.float64)
    leaves = [v.requires_grad_() for v in leaves]
    torch.library.opcheck(torch.ops.alpha.window_forward.default, leaves)
    assert torch.autograd.gradcheck(lambda *v: window_last(*v[:4], a_log=v[4], d=v[5]), leaves)


@pytest.mark.parametrize(("name", "index"), [("b", 1), ("c", 2), ("delta", 3), ("a_log", 4), ("d", 5)])
def test_shapes_that_do_not_fit_are_named(name, index):
    _, *values = arguments(3, 4, 2, 3, 2)
    values[index] = values[index].repeat(*[2] * values[index].dim())
    with pytest.raises(ValueError, match=f"^{name} was|beside x"):
        window_last(*values[:4], a_log=values[4], d=values[5])
    with pytest.raises(ValueError, match="with a row at least"):
        window_last(values[0][:, :0], *values[1:4], a_log=values[4], d=values[5])
