"""The blocks against others' own words: Mamba2's published recurrence in numpy, and the CfC cell of ncps."""

import numpy as np
import pytest
import torch

from alpha_core.nn.cfc import CfC
from alpha_core.nn.mamba2 import Mamba2
from alpha_core.nn.perception import Architecture, Perception


def silu(x):
    return x / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def recurrence(block: Mamba2, x, seconds):
    """Mamba2's step as its authors' package takes it, row by row in float64, without any of our operators.

    zxbcdt = W_in u; a window of four inputs through the depthwise convolution and SiLU; dt = softplus(dt + bias);
    dA = exp(-exp(A_log) dt); h = h dA + dt B x; y = C h + D x; y = RMSNorm(y SiLU(z)) w; W_out y; residual.
    """
    w = {name: value.detach().double().numpy() for name, value in block.state_dict().items()}
    inner, N, H = block.inner, block.states, block.heads
    P, C = inner // H, inner + 2 * block.states
    out = np.zeros(x.shape)
    for b in range(x.shape[0]):
        window, h = np.zeros((4, C)), np.zeros((H, P, N))
        for t in range(x.shape[1]):
            z, xbc, dt = np.split(w["in_proj.weight"] @ x[b, t], [inner, inner + C])
            window = np.vstack((window[1:], xbc))
            xbc = silu((window * w["conv_weight"].T).sum(0) + w["conv_bias"])
            u, B_t, C_t = xbc[:inner].reshape(H, P), xbc[inner : inner + N], xbc[inner + N :]
            dt = softplus(dt + w["dt_bias"])
            if "clock" in w:
                dt = dt + softplus(w["clock"]) * np.log1p(seconds[b, t])
            decay = np.exp(-np.exp(w["a_log"]) * dt)
            h = decay[:, None, None] * h + dt[:, None, None] * u[:, :, None] * B_t
            y = (h @ C_t + w["d"][:, None] * u).reshape(-1)
            gated = y * silu(z)
            normed = gated / np.sqrt(np.mean(gated**2) + 1e-5) * w["norm_weight"]
            out[b, t] = x[b, t] + w["out_proj.weight"] @ normed
    return out


@torch.no_grad()
@pytest.mark.parametrize("continuous_time", [True, False])
def test_mamba2_is_the_published_recurrence(continuous_time):
    """Weights far from the start: norms, skips and biases are ones and zeros there and would hide mistakes."""
    g = torch.Generator().manual_seed(0)
    block = Mamba2(
        8, expand=2, heads=2, state=3, chunk=16, continuous_time=continuous_time, generator=g
    ).double()
    for parameter in block.parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    x = torch.randn(2, 70, 8, generator=g, dtype=torch.float64)
    seconds = 5 * torch.rand(2, 70, generator=g, dtype=torch.float64)
    expected = recurrence(block, x.numpy(), seconds.numpy())
    whole, _ = block(x, seconds)
    np.testing.assert_allclose(whole.numpy(), expected, rtol=1e-10, atol=1e-10)
    state, steps = block.initial_state(2), []
    for t in range(70):
        y, state = block.step(x[:, t], seconds[:, t], state)
        steps.append(y)
    np.testing.assert_allclose(torch.stack(steps, 1).numpy(), expected, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_cfc_is_the_cell_of_ncps():
    """Batch and width equal, with another gap for each sequence: gaps spread along units would show."""
    ncps = pytest.importorskip("ncps.torch", reason="ncps absent: install the development requirements")
    inputs, width, B, T = 5, 6, 6, 40
    g = torch.Generator().manual_seed(1)
    own = CfC(inputs, width, generator=g)
    own.bias.uniform_(-1, 1, generator=g)
    other = ncps.CfCCell(inputs, width, mode="default", backbone_layers=0)
    stacked = torch.cat((own.weight_x, own.weight_h.T), dim=1)
    layers = (other.ff1, other.ff2, other.time_b, other.time_a)
    for layer, weight, bias in zip(layers, stacked.split(width), own.bias.split(width), strict=True):
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    x, seconds = torch.randn(B, T, inputs, generator=g), 3 * torch.rand(B, T, generator=g)
    seconds[:, 7], seconds[2, 9], seconds[4, 11] = 0.0, 1e-9, 1.8e5
    hidden, _ = own(x, seconds)
    h = torch.zeros(B, width)
    for t in range(T):
        h, _ = other(x[:, t], h, seconds[:, t, None])
        torch.testing.assert_close(hidden[:, t], h, atol=2e-6, rtol=2e-6)


@torch.no_grad()
@pytest.mark.slow
def test_ten_thousand_steps_agree_with_the_batch():
    """Relative to the largest logit of the sequence; breaks and gaps from nothing to hours among the rows."""
    rows, block = 10_000, 256
    network = Perception(
        Architecture(hidden=16, state=8, heads=2), generator=torch.Generator().manual_seed(2)
    )
    g = torch.Generator().manual_seed(3)
    x = torch.randn(1, rows, 40, generator=g).cumsum(1) * 0.05
    seconds = torch.rand(1, rows, generator=g)
    seconds[0, ::97], seconds[0, 1::503], seconds[0, 2::2003] = 0.0, 60.0, 4 * 3600.0
    reset = torch.zeros(1, rows, dtype=torch.bool)
    reset[0, [0, 3000, 3001, 7680]] = True
    whole, _ = network(x, seconds, None, reset)
    state, blocks = network.initial_state(1), []
    for t in range(0, rows, block):
        cut = slice(t, t + block)
        logits, state = network(x[:, cut], seconds[:, cut], state, reset[:, cut])
        blocks.append(logits)
    state, steps = network.initial_state(1), []
    for t in range(rows):
        if reset[0, t]:
            state = network.initial_state(1)
        logits, state = network.step(x[:, t], seconds[:, t], state)
        steps.append(logits)
    largest = whole.abs().max()
    for name, other in (("blocks", torch.cat(blocks, 1)), ("steps", torch.stack(steps, 1))):
        error = float((other - whole).abs().max() / largest)
        assert error <= 1e-4, f"{name}: {error}"
