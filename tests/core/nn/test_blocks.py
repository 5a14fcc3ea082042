"""Mamba2 and CfC as modules: three modes that agree, resets, time."""

import math

import pytest
import torch

from alpha_core.cuda.cfc.reference import cfc_loop
from alpha_core.cuda.conv.reference import causal_convolution
from alpha_core.nn.cfc import CfC
from alpha_core.nn.grn import HEADS, make_heads
from alpha_core.nn.mamba2 import Mamba2, inverse_softplus

LENGTHS = (1, 29, 31, 63, 64, 65, 257)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def mamba(*, chunk=16, continuous_time=True, seed=0):
    return Mamba2(
        12,
        expand=2,
        heads=3,
        state=5,
        chunk=chunk,
        continuous_time=continuous_time,
        generator=generator(seed),
    )


def sequence(B, T, D=12, *, seed=1):
    g = generator(seed)
    return torch.randn(B, T, D, generator=g), 2 * torch.rand(B, T, generator=g)


def stepwise(module, x, seconds):
    state, outputs = module.initial_state(len(x)), []
    for t in range(x.shape[1]):
        y, state = module.step(x[:, t], seconds[:, t], state)
        outputs.append(y)
    return torch.stack(outputs, 1), state


def flat(state):
    return [state] if isinstance(state, torch.Tensor) else list(state)


@torch.no_grad()
@pytest.mark.parametrize("T", LENGTHS)
def test_fault_ssm_parity_whole_sequence_stepwise_and_sequential_agree(T):
    x, seconds = sequence(2, T)
    y, state = mamba(chunk=64)(x, seconds)
    for other_y, other_state in (
        stepwise(mamba(), x, seconds),
        mamba(chunk=1)(x, seconds),
        mamba()(x, seconds),
    ):
        torch.testing.assert_close(other_y, y, atol=1e-4, rtol=1e-4)
        for own, other in zip(flat(state), flat(other_state), strict=True):
            torch.testing.assert_close(other, own, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("T", LENGTHS[1:])
@pytest.mark.parametrize("kind", ["mamba2", "cfc"])
def test_fault_ssm_parity_two_halves_with_carried_state(T, kind):
    module = mamba() if kind == "mamba2" else CfC(12, 8, generator=generator())
    x, seconds = sequence(3, T)
    whole, last = module(x, seconds)
    for cut in (1, T // 2, T - 1):
        left, state = module(x[:, :cut], seconds[:, :cut])
        right, state = module(x[:, cut:], seconds[:, cut:], state)
        torch.testing.assert_close(torch.cat((left, right), 1), whole, atol=1e-4, rtol=1e-4)
        for own, other in zip(flat(last), flat(state), strict=True):
            torch.testing.assert_close(other, own, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["mamba2", "cfc"])
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 20, 39])
def test_fault_ssm_parity_state_resets_exactly_at_a_break(kind, cut):
    """Convolution, state space and cell: nothing of the rows before a break reaches the rows after it."""
    module = mamba() if kind == "mamba2" else CfC(12, 8, generator=generator())
    x, seconds = sequence(2, 40)
    reset = torch.zeros(2, 40, dtype=torch.bool)
    reset[:, cut] = True
    y, state = module(x, seconds, None, reset)
    changed = torch.cat((100 * x[:, :cut].flip(1) + 3, x[:, cut:]), 1)
    y_changed, state_changed = module(changed, seconds, None, reset)
    assert torch.equal(y[:, cut:], y_changed[:, cut:])
    for own, other in zip(flat(state), flat(state_changed), strict=True):
        assert torch.equal(own, other)
    alone, alone_state = module(x[:, cut:], seconds[:, cut:])
    torch.testing.assert_close(y[:, cut:], alone, atol=1e-5, rtol=1e-5)
    for own, other in zip(flat(state), flat(alone_state), strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_reset_in_one_sequence_leaves_the_others_alone():
    module = mamba()
    x, seconds = sequence(3, 30)
    reset = torch.zeros(3, 30, dtype=torch.bool)
    reset[1, 7], reset[1, 8], reset[1, 29] = True, True, True
    y, _ = module(x, seconds, None, reset)
    plain, _ = module(x, seconds)
    torch.testing.assert_close(y[[0, 2]], plain[[0, 2]], atol=1e-6, rtol=1e-6)
    assert not torch.allclose(y[1, 8:], plain[1, 8:], atol=1e-3)


@torch.no_grad()
def test_fault_ssm_parity_half_precision_with_one_huge_step():
    """bfloat16 weights and inputs, one enormous step: no NaN, and close to the same in float32."""
    module = mamba()
    x, seconds = sequence(2, 65)
    seconds[:, 30] = 1e30
    exact, _ = module(x, seconds)
    assert torch.isfinite(exact).all()
    with torch.autocast("cpu", torch.bfloat16):
        half, state = module(x, seconds)
    assert torch.isfinite(half).all()
    assert state.ssm.dtype == torch.float32
    torch.testing.assert_close(half.float(), exact, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("K", [1, 2, 7, 16, 64])
def test_last_row_of_a_window_equals_that_of_the_whole_form_and_so_do_its_gradients(K):
    block = mamba()
    for parameter in block.parameters():
        parameter.data.add_(0.2 * torch.randn(parameter.shape, generator=generator(5)))
    x, seconds = sequence(5, K)
    weight = torch.randn(5, 12, generator=generator(4))
    ends = []
    for form in (lambda x: block.last(x, seconds), lambda x: block(x, seconds)[0][:, -1]):
        leaf = x.clone().requires_grad_()
        y = form(leaf)
        ends.append((y, *torch.autograd.grad((y * weight).sum(), [leaf, *block.parameters()])))
    for own, other in zip(*ends, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_rows_before_a_window_begins_do_not_count_whatever_they_are():
    block, (x, seconds) = mamba(), sequence(4, 9)
    present = torch.arange(9) >= torch.tensor([0, 3, 7, 8])[:, None]
    x.masked_fill_(~present[..., None], 1e6)
    windows = block.last(x, seconds, present)
    for row, start in enumerate((0, 3, 7, 8)):
        alone = block.last(x[row : row + 1, start:], seconds[row : row + 1, start:])
        torch.testing.assert_close(windows[row : row + 1], alone, atol=1e-6, rtol=1e-6)


@torch.no_grad()
def test_convolution_equals_torch_convolution():
    g = generator()
    x, weight, bias = (
        torch.randn(2, 20, 6, generator=g),
        torch.randn(6, 4, generator=g),
        torch.randn(6, generator=g),
    )
    y, taps = causal_convolution(x, weight, bias, torch.zeros(2, 3, 6))
    padded = torch.nn.functional.pad(x.transpose(1, 2), (3, 0))
    expected = torch.nn.functional.conv1d(padded, weight[:, None], bias, groups=6).transpose(1, 2)
    torch.testing.assert_close(y, expected, atol=1e-6, rtol=1e-6)
    assert torch.equal(taps, x[:, -3:])


def test_continuous_time_means_more_decay_after_more_time():
    module = mamba()
    step = torch.zeros(1, 2, 3)
    delta = module.step_size(step, torch.tensor([[0.0, 3600.0]]))
    assert (delta[:, 1] > delta[:, 0]).all()
    # log1p(3600) = 8.1889...; the first rate is 1e-3 for every head.
    torch.testing.assert_close(delta[:, 1] - delta[:, 0], torch.full((1, 3), 1e-3 * math.log1p(3600)))
    with torch.no_grad():
        module.clock.fill_(-50.0)
    assert (module.step_size(step, torch.tensor([[0.0, 1e5]])) >= 0).all()


@torch.no_grad()
def test_without_continuous_time_the_clock_is_not_read():
    module = mamba(continuous_time=False)
    x, seconds = sequence(2, 10)
    assert torch.equal(module(x, seconds)[0], module(x, seconds * 100)[0])
    assert not torch.equal(mamba()(x, seconds)[0], mamba()(x, seconds * 100)[0])


@torch.no_grad()
def test_starts_as_moving_averages_over_ten_to_a_thousand_rows():
    """An impulse is left over as exp(-t / time constant); the time constants spread evenly on a log scale."""
    module = mamba(continuous_time=False)
    module.in_proj.weight.zero_()
    state = module.initial_state(1)
    state.ssm.fill_(1.0)
    _, state = module(torch.zeros(1, 20, 12), torch.zeros(1, 20), state)
    constants = -20 / state.ssm[0, :, 0, 0].log()
    torch.testing.assert_close(constants, 10 ** torch.tensor([16 / 6, 2.0, 8 / 6]), rtol=1e-3, atol=0)
    assert (module.d == 0).all()


def test_inverse_softplus():
    y = torch.tensor([1e-3, 0.1, 3.0])
    torch.testing.assert_close(torch.nn.functional.softplus(inverse_softplus(y)), y)


@torch.no_grad()
def test_cfc_module_is_the_loop_with_the_input_share_added():
    module = CfC(12, 8, generator=generator())
    x, seconds = sequence(2, 9)
    gates = torch.einsum("btf,gf->btg", x, module.weight_x) + module.bias
    expected, _ = cfc_loop(gates, module.weight_h, seconds, torch.zeros(2, 8))
    torch.testing.assert_close(module(x, seconds)[0], expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", HEADS)
def test_heads_have_a_logit_per_horizon_and_learn(kind):
    heads = make_heads(kind, 8, 5, generator=generator())
    h = torch.randn(4, 7, 8, generator=generator(1))
    logits = heads(h)
    assert logits.shape == (4, 7, 5)
    logits.sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in heads.parameters())


def test_grn_has_ten_tensors_and_linear_two():
    assert len(list(make_heads("grn", 8, 5, generator=generator()).parameters())) == 10
    assert len(list(make_heads("linear", 8, 5, generator=generator()).parameters())) == 2
    with pytest.raises(KeyError):
        make_heads("other", 8, 5, generator=generator())


def test_mlp_head_hand_worked():
    """Width 1: w GELU(W h + b) + c with W = 2, b = 1, w = 3, c = -1 at h = 0: 3 GELU(1) - 1."""
    heads = make_heads("mlp", 1, 1, generator=generator())
    with torch.no_grad():
        heads.hidden.fill_(2), heads.hidden_bias.fill_(1), heads.out.fill_(3), heads.out_bias.fill_(-1)
        assert heads(torch.zeros(1, 1)).item() == pytest.approx(3 * 0.8413447461 - 1)
