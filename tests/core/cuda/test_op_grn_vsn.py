"""Heads and gate against reference numbers, and the folded heads against the written-out formula."""

import json

import pytest
import torch

from alpha_core.cuda.grn import GRNWeights, grn_heads
from alpha_core.cuda.grn.reference import grn_formula
from alpha_core.cuda.vsn import vsn_gate, vsn_select
from alpha_core.cuda.vsn.reference import vsn_formula

NAMES = ("W2", "b2", "W1", "b1", "w_skip", "b_skip", "w_gate", "b_gate", "w_main", "b_main")


def weights(H=5, D=8, *, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    shapes = [(H, D, D), (H, D), (H, D, D), (H, D), (H, D), (H,), (H, D), (H,), (H, D), (H,)]
    return GRNWeights(*(torch.randn(*s, generator=g, dtype=torch.float64).to(dtype) * 0.5 for s in shapes))


def zeros(H=5, D=8):
    return GRNWeights(*(torch.zeros_like(w) for w in weights(H, D)))


@pytest.mark.parametrize("form", [grn_heads, grn_formula])
def test_grn_reference_numbers(vectors, form):
    cases = json.loads((vectors / "grn_head.json").read_text())["cases"]
    assert len(cases) == 2
    v = {k: torch.tensor(value) for k, value in cases[0].items()}
    logit = form(v["h"], GRNWeights(*(v[name][None] for name in NAMES)))[:, 0]
    torch.testing.assert_close(logit, v["logit"], atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.sigmoid(logit), v["probability"], atol=1e-5, rtol=0)
    assert cases[1]["all_weights_zero"]
    assert torch.sigmoid(form(v["h"], zeros(1, 4))).unique().tolist() == [cases[1]["probability"]]


@pytest.mark.parametrize("shape", [(1,), (33,), (3, 7), (0,)])
def test_folded_heads_equal_the_formula(shape):
    h = torch.randn(*shape, 8, generator=torch.Generator().manual_seed(1))
    own, expected = grn_heads(h, weights()), grn_formula(h, weights())
    assert own.shape == (*shape, 5)
    torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-5)


def test_gradients_of_folded_heads_equal_those_of_the_formula():
    h = torch.randn(6, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = []
    for form in (grn_heads, grn_formula):
        leaves = [w.clone().requires_grad_() for w in weights(dtype=torch.float64)]
        x = h.clone().requires_grad_()
        form(x, GRNWeights(*leaves)).sin().sum().backward()
        gradients.append([x.grad, *(w.grad for w in leaves)])
    for own, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(own, expected, atol=1e-11, rtol=1e-10)


def test_gradcheck_of_the_heads():
    h = torch.randn(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    leaves = [w.requires_grad_() for w in weights(2, 3, dtype=torch.float64)]
    assert torch.autograd.gradcheck(lambda x, *w: grn_heads(x, GRNWeights(*w)), [h, *leaves])


def test_heads_keep_the_rules_of_torch():
    h = torch.randn(6, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    w = weights()
    leaves = [v.requires_grad_() for v in (w.w2, w.b2, torch.stack((w.w_gate, w.w_main), 1), w.w_skip)]
    arguments = (h, *leaves[:3], torch.zeros(5, 2), leaves[3], torch.zeros(5))
    torch.library.opcheck(torch.ops.alpha.grn_forward.default, arguments)
    logits, *kept = torch.ops.alpha.grn_forward(*(v.detach() for v in arguments))
    torch.library.opcheck(
        torch.ops.alpha.grn_backward.default, (logits, h.detach(), *(v.detach() for v in leaves), *kept)
    )


def test_heads_of_half_precision_rows_give_logits_of_the_weights_precision():
    h = torch.randn(6, 8, generator=torch.Generator().manual_seed(1)).bfloat16().requires_grad_()
    logits = grn_heads(h, weights())
    assert logits.dtype == torch.float32
    assert torch.equal(logits, grn_heads(h.float(), weights()))
    logits.sum().backward()
    assert h.grad.dtype == torch.bfloat16


def test_heads_read_any_layout_of_rows():
    h = torch.randn(8, 4, 6, generator=torch.Generator().manual_seed(1)).permute(2, 1, 0)
    assert torch.equal(grn_heads(h, weights()), grn_heads(h.contiguous(), weights()))
    assert torch.equal(grn_heads(h[::2], weights()), grn_heads(h, weights())[::2])


def test_heads_are_independent_of_one_another():
    h = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    changed = GRNWeights(*(torch.cat((w[:2], w[2:3] * 3 + 1, w[3:])) for w in weights()))
    difference = (grn_heads(h, weights()) - grn_heads(h, changed)).abs().amax(0)
    assert (difference[[0, 1, 3, 4]] == 0).all()
    assert difference[2] > 0.1


def test_saturated_gates_stay_finite():
    w = weights()._replace(b_gate=torch.full((5,), 1e4), b_main=torch.full((5,), -1e4))
    h = torch.full((2, 8), 1e3)
    assert torch.isfinite(grn_heads(h, w)).all()


def test_vsn_reference_numbers(vectors):
    cases = json.loads((vectors / "vsn.json").read_text())["cases"]
    assert cases
    for case in cases:
        v = {k: torch.tensor(value) for k, value in case.items()}
        y, gate = vsn_gate(v["x"], v["W"], v["b"])
        torch.testing.assert_close(gate, v["gate"], atol=1e-5, rtol=0)
        torch.testing.assert_close(y, v["y"], atol=1e-5, rtol=0)


def test_uniform_gate_is_the_identity():
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(1))
    y, gate = vsn_gate(x, torch.zeros(40, 40), torch.full((40,), 3.0))
    torch.testing.assert_close(y, x, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(gate.sum(-1), torch.ones(3))


def test_gradcheck_of_the_gate():
    g = torch.Generator().manual_seed(1)
    leaves = [
        torch.randn(*s, generator=g, dtype=torch.float64).requires_grad_() for s in ((3, 4), (4, 4), (4,))
    ]
    assert torch.autograd.gradcheck(vsn_gate, leaves)


def test_gate_of_extreme_scores_is_finite():
    y, gate = vsn_gate(torch.full((1, 3), 1e4), torch.eye(3) * 1e3, torch.tensor([0.0, 1e6, 0.0]))
    assert torch.isfinite(y).all()
    assert gate.argmax().item() == 1


def vsn_arguments(N=5, F=7, dtype=torch.float32):
    g = torch.Generator().manual_seed(1)
    return [torch.randn(*s, generator=g, dtype=dtype) for s in ((N, F), (F, F), (F,))]


def test_gradients_of_the_gate_equal_those_of_the_formula():
    results = []
    for form in (vsn_gate, vsn_formula):
        leaves = [v.requires_grad_() for v in vsn_arguments(dtype=torch.float64)]
        y, gate = form(*leaves)
        (y.sin().sum() + gate.cos().sum()).backward()
        results.append([y, gate, *(v.grad for v in leaves)])
    for own, expected in zip(*results, strict=True):
        torch.testing.assert_close(own, expected, atol=1e-12, rtol=1e-10)


def test_selection_without_the_gate_is_the_same_selection():
    leaves = [v.requires_grad_() for v in vsn_arguments()]
    assert torch.equal(vsn_select(*leaves), vsn_gate(*leaves)[0])
    own, other = (
        torch.autograd.grad(y.sin().sum(), leaves) for y in (vsn_select(*leaves), vsn_gate(*leaves)[0])
    )
    assert all(torch.equal(a, b) for a, b in zip(own, other, strict=True))
    assert vsn_select(leaves[0][:0], *leaves[1:]).shape == (0, 7)


@pytest.mark.parametrize("gated", [False, True])
def test_gate_keeps_the_rules_of_torch(gated):
    x, weight, bias = (v.requires_grad_() for v in vsn_arguments())
    torch.library.opcheck(torch.ops.alpha.vsn_forward.default, (x, weight, bias, gated))
    x, weight, bias = vsn_arguments()
    y, gate = torch.ops.alpha.vsn_forward(x, weight, bias, gated)
    arguments = (y, gate if gated else None, x, weight, bias, gate)
    for with_x in (True, False):
        torch.library.opcheck(torch.ops.alpha.vsn_backward.default, (*arguments, with_x))
