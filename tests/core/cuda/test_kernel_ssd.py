"""The SSD kernels against the recurrence in float64, in Triton's interpreter or on an accelerator."""

import pytest
import torch

from alpha_core.cuda.ssd import chunked
from alpha_core.cuda.ssd.reference import ssd_sequential

NAMES = ("x", "b", "c", "delta", "a_log", "d", "state")
SHAPES = [  # B, T, H, P, N, chunk
    (1, 2, 1, 3, 2, 2),
    (3, 7, 2, 16, 16, 7),
    (2, 33, 3, 12, 5, 16),
    (1, 70, 4, 64, 16, 64),
    (2, 64, 1, 24, 20, 32),
]


def arguments(B, T, H, P, N, *, seed=0, scale=0.3):
    """The seven tensors of `NAMES`, a reset mask, and gradients of y and of the last state."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g)

    values = [normal(B, T, H, P), normal(B, T, N), normal(B, T, N), normal(B, T, H).abs() * scale]
    values += [normal(H) * 0.5, normal(H), normal(B, H, P, N)]
    return values, torch.rand(B, T, generator=g) < 0.1, (normal(B, T, H, P), normal(B, H, P, N))


def oracle(values, reset, grads):
    """y, last state and the gradients of all seven arguments by the recurrence in float64."""
    leaves = {k: v.double().requires_grad_() for k, v in zip(NAMES, values, strict=True)}
    outputs = ssd_sequential(**leaves, reset=reset)
    torch.autograd.backward(outputs, [v.double() for v in grads])
    return [v.detach() for v in (*outputs, *(leaf.grad for leaf in leaves.values()))]


def run_kernels(values, reset, grads, chunk, device):
    """The same of the kernels, as they come."""
    from alpha_core.cuda.ssd import kernels

    values, grads = [v.to(device) for v in values], [v.to(device) for v in grads]
    reset = None if reset is None else reset.to(device)
    y, last, starts = kernels.forward(*values, reset, chunk, True)
    return [y, last, *kernels.backward(*grads, *values[:6], reset, starts, chunk)]


def run_torch(values, reset, grads, chunk):
    y, last, starts = chunked.forward(*values, reset, chunk, True)
    return [y, last, *chunked.backward(*grads, *values[:6], reset, starts, chunk)]


def assert_as_exact(own, plain, exact):
    """Errors at most twice those of torch in the same precision, plus 1e-6 of the largest value."""
    for name, o, p, e in zip(("y", "last", *NAMES), own, plain, exact, strict=True):
        error, allowed = (v.double().cpu().sub(e).abs().max() for v in (o, p))
        assert error <= 2 * allowed + 1e-6 * e.abs().max().clamp(min=1), name


@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_kernel_is_as_exact_as_torch(kernel_device, shape, with_reset):
    *sizes, chunk = shape
    values, reset, grads = arguments(*sizes)
    reset = reset if with_reset else None
    exact, plain = oracle(values, reset, grads), run_torch(values, reset, grads, chunk)
    assert_as_exact(run_kernels(values, reset, grads, chunk, kernel_device), plain, exact)


@pytest.mark.parametrize("huge", [1e3, 1e6, 1e30])
def test_one_huge_step_costs_its_neighbours_no_digits(kernel_device, huge):
    values, _, grads = arguments(1, 64, 2, 16, 16)
    values[3][:, 10], values[0][:, 10] = huge, 1 / huge
    own, exact = run_kernels(values, None, grads, 64, kernel_device), oracle(values, None, grads)
    for i in (0, 1, 3, 4, 8):  # what does not grow with the step itself: y, last, grads of b, c, state
        assert (own[i].cpu().double() - exact[i]).abs().max() <= 1e-5 * exact[i].abs().max()
    for i in (2, 5):  # grads of x and delta of the other rows
        mine, right = (torch.cat((v[:, :10], v[:, 11:]), 1) for v in (own[i].cpu().double(), exact[i]))
        assert (mine - right).abs().max() <= 1e-5 * right.abs().max()


def test_bfloat16_rounds_inputs_and_products_only(kernel_device):
    """With x, b and c in bfloat16 the state stays in float32: errors are those of one rounding, not grown."""
    values, reset, grads = arguments(2, 70, 2, 16, 16)
    half = [v.bfloat16() for v in values[:3]] + values[3:]
    own = run_kernels(half, reset, (grads[0].bfloat16(), grads[1]), 32, kernel_device)
    exact = oracle(half, reset, (grads[0].bfloat16(), grads[1]))
    assert [v.dtype for v in own] == [torch.bfloat16, torch.float32] + [torch.bfloat16] * 3 + [
        torch.float32
    ] * 4
    for o, e in zip(own, exact, strict=True):
        assert (o.cpu().double() - e).norm() < 1e-2 * e.norm()


def test_rows_after_a_reset_have_the_same_bits_whatever_came_before(kernel_device):
    values, _, grads = arguments(2, 40, 2, 16, 16)
    other, _, _ = arguments(2, 40, 2, 16, 16, seed=7)
    reset = torch.zeros(2, 40, dtype=torch.bool)
    reset[:, 21] = True
    mixed = [torch.cat((o[:, :21] * 50, v[:, 21:]), 1) for o, v in zip(other[:4], values[:4], strict=True)]
    own = run_kernels(values, reset, grads, 32, kernel_device)
    changed = run_kernels([*mixed, *values[4:6], other[6]], reset, grads, 32, kernel_device)
    assert torch.equal(own[0][:, 21:], changed[0][:, 21:])
    assert torch.equal(own[1], changed[1])
    assert not torch.equal(own[0][:, :21], changed[0][:, :21])
    assert (own[-1] != 0).any()
    reset[:, 0] = True
    assert (run_kernels(values, reset, grads, 32, kernel_device)[-1] == 0).all()


def test_nan_in_one_sequence_stays_in_it(kernel_device):
    values, _, grads = arguments(3, 20, 2, 16, 16)
    values[0][1, 5], values[3][1, 6] = torch.nan, torch.nan
    own = run_kernels(values, None, grads, 16, kernel_device)
    for v in (*own[:6], own[-1]):
        assert torch.isfinite(v[[0, 2]]).all()
    assert torch.isnan(own[0][1, 5:]).all()
    assert torch.isnan(own[1][1]).all()


def test_two_runs_have_the_same_bits(kernel_device):
    values, reset, grads = arguments(2, 40, 2, 16, 16)
    first, again = (run_kernels(values, reset, grads, 16, kernel_device) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_rows_of_a_wider_projection_are_read_in_place(kernel_device):
    values, reset, grads = arguments(2, 20, 2, 16, 16)
    wide = torch.cat((values[0].flatten(2), values[1], values[2]), 2)
    x, b, c = wide.split((32, 16, 16), dim=2)
    sliced = [x.unflatten(-1, (2, 16)), b, c, *values[3:]]
    assert not sliced[0].is_contiguous()
    own, whole = (run_kernels(v, reset, grads, 16, kernel_device) for v in (sliced, values))
    assert all(torch.equal(a, b) for a, b in zip(own, whole, strict=True))


def test_states_are_not_kept_when_nobody_asks(kernel_device):
    from alpha_core.cuda.ssd import kernels

    values, reset, _ = arguments(2, 40, 2, 16, 16)
    values, reset = [v.to(kernel_device) for v in values], reset.to(kernel_device)
    kept, plain = (kernels.forward(*values, reset, 16, keep) for keep in (True, False))
    assert kept[2].shape == (2, 3, 2, 16, 16)
    assert plain[2].numel() == 0
    assert torch.equal(kept[0], plain[0])
    assert torch.equal(kept[1], plain[1])


def test_a_state_too_large_for_a_chip_is_refused(kernel_device):
    values, _, grads = arguments(1, 2, 1, 128, 64)
    with pytest.raises(ValueError, match="128 x 64"):
        run_kernels(values, None, grads, 2, kernel_device)
