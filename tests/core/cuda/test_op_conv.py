"""The convolution as an operator: gradients, layouts, carried taps and resets; hand-worked numbers."""

import pytest
import torch

from alpha_core.cuda.conv import conv_silu
from alpha_core.cuda.conv.reference import conv_silu_formula


def arguments(B=2, T=6, C=3, *, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(*s, generator=g, dtype=dtype) for s in ((B, T, C), (C, 4), (C,), (B, 3, C))]


def resets(B=2, T=6):
    return torch.rand(B, T, generator=torch.Generator().manual_seed(1)) < 0.3


def test_hand_worked():
    """One channel, weights 1 2 3 4 (newest last), bias 0: 4 + 3 * 2 + 2 * 10 + 1 * 20 before the SiLU of 50."""
    weight, taps = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[[20.0], [10.0], [2.0]]])
    y, last = conv_silu(torch.ones(1, 1, 1), weight, torch.zeros(1), taps)
    assert y.item() == pytest.approx(50.0)
    assert last.flatten().tolist() == [10.0, 2.0, 1.0]
    y, last = conv_silu(torch.ones(1, 1, 1), weight, torch.zeros(1), taps, torch.tensor([[True]]))
    assert y.item() == pytest.approx(4 * torch.sigmoid(torch.tensor(4.0)).item())
    assert last.flatten().tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("T", [1, 2, 3, 7])
@pytest.mark.parametrize("reset", [False, True])
def test_values_and_gradients_equal_those_of_the_formula(T, reset):
    mask = resets(2, T) if reset else None
    results = []
    for form in (conv_silu, conv_silu_formula):
        leaves = [v.requires_grad_() for v in arguments(T=T)]
        y, last = form(*leaves, mask)
        ((y.sin() * torch.arange(T)[None, :, None]).sum() + last.cos().sum()).backward()
        results.append([y, last, *(v.grad for v in leaves)])
    for own, expected in zip(*results, strict=True):
        torch.testing.assert_close(own, expected, atol=1e-12, rtol=1e-10)


def test_gradcheck():
    leaves = [v.requires_grad_() for v in arguments()]
    assert torch.autograd.gradcheck(lambda *v: conv_silu(*v, resets()), leaves)


@pytest.mark.parametrize("reset", [False, True])
def test_operator_keeps_the_rules_of_torch(reset):
    values = arguments(dtype=torch.float32)
    mask = resets() if reset else None
    torch.library.opcheck(
        torch.ops.alpha.conv_forward.default, (*(v.clone().requires_grad_() for v in values), mask)
    )
    y, last, inner = torch.ops.alpha.conv_forward(*values, mask)
    torch.library.opcheck(torch.ops.alpha.conv_backward.default, (y, last, *values, mask, inner))


def test_any_layout_is_read_and_halves_with_carried_taps_equal_the_whole():
    wide = torch.randn(2, 8, 9, generator=torch.Generator().manual_seed(1))
    _, weight, bias, taps = arguments(dtype=torch.float32)
    x, mask = wide[..., 3:6], resets(2, 8)
    y, last = conv_silu(x, weight, bias, taps, mask)
    assert torch.equal(y, conv_silu(x.contiguous(), weight, bias, taps, mask)[0])
    for cut in range(9):
        left, between = conv_silu(x[:, :cut], weight, bias, taps, mask[:, :cut])
        right, end = conv_silu(x[:, cut:], weight, bias, between, mask[:, cut:])
        torch.testing.assert_close(torch.cat((left, right), 1), y, atol=1e-6, rtol=1e-6)
        assert torch.equal(end, last)


def test_half_precision_rows_keep_taps_in_the_weights_precision():
    x, weight, bias, taps = arguments(dtype=torch.float32)
    y, last = conv_silu(x.bfloat16(), weight, bias, taps)
    assert (y.dtype, last.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(y, conv_silu(x.bfloat16().float(), weight, bias, taps)[0].bfloat16())
