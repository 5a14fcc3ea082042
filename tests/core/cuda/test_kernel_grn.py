"""The head kernels against the written-out formula in float64, in Triton's interpreter or on an accelerator."""

import pytest
import torch

from alpha_core.cuda.grn import GRNWeights, folded
from alpha_core.cuda.grn.reference import grn_formula

SHAPES = [(1, 3, 24), (3, 5, 8), (33, 5, 40), (70, 1, 16), (64, 2, 128)]
NAMES = ("logits", "h", "w2", "b2", "readers", "biases", "w_skip", "b_skip")


def arguments(N, H, D, seed=0):
    """grad, h, w2, b2, readers, biases, w_skip, b_skip with pre-activations and gates of order one."""
    g = torch.Generator().manual_seed(seed)
    sizes = [(N, H), (N, D), (H, D, D), (H, D), (H, 2, D), (H, 2), (H, D), (H,)]
    scales = [1, 1, D**-0.5, 0.5, D**-0.5, 0.5, D**-0.5, 0.5]
    return [scale * torch.randn(*size, generator=g) for size, scale in zip(sizes, scales, strict=True)]


def plain(grad, *values, dtype=torch.float64):
    """Logits and all gradients of the formula by autograd; W1 is the identity, so nothing is folded."""
    h, w2, b2, readers, biases, w_skip, b_skip = (v.to(dtype, copy=True).requires_grad_() for v in values)
    H, D = b2.shape
    w1 = torch.eye(D, dtype=dtype).expand(H, D, D)
    weights = GRNWeights(
        w2, b2, w1, torch.zeros(H, D, dtype=dtype), w_skip, b_skip,
        readers[:, 0], biases[:, 0], readers[:, 1], biases[:, 1],
    )  # fmt: skip
    logits = grn_formula(h, weights)
    grads = torch.autograd.grad(logits, (h, w2, b2, readers, biases, w_skip, b_skip), grad.to(dtype))
    return [v.detach().double() for v in (logits, *grads)]


def kernel(values, device):
    from alpha_core.cuda.grn import kernels

    grad, h, w2, b2, readers, biases, w_skip, b_skip = (v.to(device) for v in values)
    logits, read = kernels.forward(h, w2, b2, readers, biases, w_skip, b_skip)
    return [v.cpu() for v in (logits, *kernels.backward(grad, h, w2, b2, readers, w_skip, read))]


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_kernels_are_as_exact_as_torch(kernel_device, shape):
    values = arguments(*shape)
    for name, own, rough, exact in zip(
        NAMES, kernel(values, kernel_device), plain(*values, dtype=torch.float32), plain(*values), strict=True
    ):
        assert (own - exact).abs().max() <= 2 * (rough - exact).abs().max() + 1e-6, name


def test_half_precision_rounds_inputs_and_products_only(kernel_device):
    values = arguments(65, 5, 40)
    values[1] = values[1].bfloat16()
    own = kernel(values, kernel_device)
    values[1] = values[1].float()
    assert own[0].dtype == torch.float32
    assert own[1].dtype == torch.bfloat16
    for name, value, exact in zip(NAMES, own, plain(*values), strict=True):
        assert (value - exact).norm() < 1e-2 * exact.norm(), name


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter says so, a device does not
def test_tail_of_the_normal_distribution_is_exact_for_all_sizes(kernel_device):
    """Through a head that shows e2 of one unit as it is: GELU from -1e30 to 1e30, and at -0.0."""
    x = torch.cat((torch.linspace(-12, 12, 601), torch.tensor([1e30, -1e30, -0.0, 1e-40, 88.0, -88.0])))
    one = torch.ones(1, 1, 1)
    zero, none = torch.zeros(1, 1), torch.zeros(1)
    values = [x[:, None], one, zero, torch.tensor([[[0.0], [1.0]]]), torch.tensor([[100.0, 0.0]]), zero, none]
    own = kernel([torch.ones(len(x), 1), *values], kernel_device)
    exact = torch.nn.functional.gelu(x.double())
    product = 0.0 if kernel_device == "cpu" else 2.0**-22  # x times 1, of three tf32 products
    assert ((own[0][:, 0] - exact).abs() <= (1.5e-7 + product) * x.abs().double().clamp(min=1)).all()
    slope = torch.func.vmap(torch.func.grad(torch.nn.functional.gelu))(x.double())
    assert (own[1][:, 0] - slope).abs().max() < 1e-6


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the interpreter says so, a device does not
def test_saturated_gates_and_huge_rows_stay_finite(kernel_device):
    values = arguments(6, 5, 16)
    values[1][0], values[1][1], values[1][2] = 1e30, -1e30, -0.0
    values[5][0, 0], values[5][1, 0] = 1e30, -1e30
    assert all(torch.isfinite(v).all() for v in kernel(values, kernel_device)[:2])


def test_nan_in_one_row_stays_in_it(kernel_device):
    values = arguments(37, 3, 16)
    values[1][33, 5] = float("nan")
    logits, grad_h, *_ = kernel(values, kernel_device)
    for value in (logits, grad_h):
        assert torch.isnan(value).any(1).nonzero().flatten().tolist() == [33]


def test_two_runs_have_the_same_bits(kernel_device):
    values = arguments(70, 3, 24)
    for own, again in zip(kernel(values, kernel_device), kernel(values, kernel_device), strict=True):
        assert torch.equal(own, again)


def test_no_rows_give_no_logits_and_zero_gradients(kernel_device):
    logits, *grads = kernel(arguments(0, 3, 16), kernel_device)
    assert logits.shape == (0, 3)
    assert all((v == 0).all() for v in grads)


def test_too_wide_a_head_is_refused(kernel_device):
    with pytest.raises(ValueError, match="grn_heads: width D was 160, must be at most 128 on CUDA"):
        kernel(arguments(2, 1, 160), kernel_device)


def test_cpu_form_is_as_exact_as_the_formula():
    grad, *values = arguments(33, 5, 24)
    logits, *kept = folded.forward(*values)
    h, w2, _, readers, _, w_skip, _ = values
    own = (logits, *folded.backward(grad, h, w2, readers, w_skip, *kept))
    rough, exact = plain(grad, *values, dtype=torch.float32), plain(grad, *values)
    for name, a, b, e in zip(NAMES, own, rough, exact, strict=True):
        assert (a - e).abs().max() <= 2 * (b - e).abs().max() + 1e-6, name
