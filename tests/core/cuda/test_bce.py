"""The masked loss: both forms against the formula in float64, gradients, extremes, the rules of operators."""

import pytest
import torch

from alpha_core.cuda.bce import masked_bce
from alpha_core.cuda.bce.reference import masked_bce_formula

SHAPES = [(1, 5), (3, 1), (33, 3), (600, 5)]


def arguments(N, H, *, seed=0, dtype=torch.float32):
    """logits, up, mask, weights; the first horizon has no rows."""
    g = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(N, H, generator=g, dtype=torch.float64)
    up, mask = (torch.rand(N, H, generator=g, dtype=torch.float64) < share for share in (0.5, 0.7))
    mask[:, 0] = False
    return [v.to(dtype) for v in (logits, up, mask, torch.rand(H, generator=g, dtype=torch.float64))]


def plain(values, dtype=torch.float64):
    """Loss and the gradient of the logits."""
    logits, *rest = (v.to(dtype, copy=True) for v in values)
    loss = masked_bce_formula(logits.requires_grad_(), *rest)
    return loss.detach().double(), torch.autograd.grad(loss, logits)[0].double()


def kernel(values, device):
    from alpha_core.cuda.bce import kernels

    loss, slope, scale = (v.cpu() for v in kernels.forward(*(v.to(device) for v in values), True))
    return loss, slope * scale.to(slope.dtype)


def on_cpu(values):
    logits = values[0].clone().requires_grad_()
    loss = masked_bce(logits, *values[1:])
    return loss.detach(), torch.autograd.grad(loss, logits)[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_are_as_exact_as_the_formula(kernel_device, shape):
    values = arguments(*shape)
    exact, rough = plain(values), plain(values, torch.float32)
    for own in (kernel(values, kernel_device), on_cpu(values)):
        for a, b, e in zip(own, rough, exact, strict=True):
            assert (a - e).abs().max() <= 2 * (b - e).abs().max() + 1e-6


def test_half_precision_logits_get_gradients_of_their_precision(kernel_device):
    values = arguments(40, 5)
    values[0] = values[0].bfloat16()
    exact = plain(values)
    for loss, grad in (kernel(values, kernel_device), on_cpu(values)):
        assert (loss.dtype, grad.dtype) == (torch.float32, torch.bfloat16)
        assert abs(loss - exact[0]) < 1e-6
        assert (grad - exact[1]).abs().max() <= 2**-6 * exact[1].abs().max()


def test_extreme_logits_are_finite_and_right(kernel_device):
    logits = torch.tensor([[1e30, -1e30, -0.0, 100.0, -100.0]])
    values = [logits, torch.tensor([[0.0, 1.0, 1.0, 0.0, 0.0]]), torch.ones(1, 5), torch.ones(5)]
    for loss, grad in (kernel(values, kernel_device), on_cpu(values)):
        assert torch.isfinite(loss)
        assert grad.flatten().tolist() == pytest.approx([1.0, -1.0, -0.5, 1.0, 0.0])
    values[0] = values[0].clamp(-100, 100)
    for loss, _ in (kernel(values, kernel_device), on_cpu(values)):
        assert loss.item() == pytest.approx(300.6931471806)


def test_nan_in_one_row_gives_no_other_row_a_nan_gradient(kernel_device):
    values = arguments(300, 3)
    values[0][270, 1] = float("nan")
    for loss, grad in (kernel(values, kernel_device), on_cpu(values)):
        assert torch.isnan(loss)
        assert torch.isnan(grad).nonzero().tolist() == [[270, 1]]


def test_two_runs_have_the_same_bits(kernel_device):
    values = arguments(700, 5)
    for own, again in zip(*(kernel(values, kernel_device) for _ in range(2)), strict=True):
        assert torch.equal(own, again)


def test_gradcheck_and_the_rules_of_torch():
    logits, *rest = arguments(6, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: masked_bce(x, *rest), [logits.requires_grad_()])
    logits, *rest = arguments(6, 3)
    torch.library.opcheck(torch.ops.alpha.bce_forward.default, (logits.requires_grad_(), *rest, True))


def test_without_a_gradient_the_loss_is_the_same_and_no_slope_is_made(kernel_device):
    from alpha_core.cuda.bce import kernels

    values = [v.to(kernel_device) for v in arguments(40, 5)]
    for form in (kernels.forward, torch.ops.alpha.bce_forward):
        kept, bare = form(*values, True), form(*values, False)
        assert torch.equal(kept[0], bare[0])
        assert bare[1].numel() == 0
    with pytest.raises(ValueError, match="keep was False, must be True for logits that need a gradient"):
        torch.ops.alpha.bce_forward(values[0].requires_grad_(), *values[1:], False)
