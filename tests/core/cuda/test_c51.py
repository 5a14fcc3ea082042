"""Means and draws of return distributions: both forms against float64, edges of quantiles, the rules of operators."""

import pytest
import torch

from alpha_core.cuda.c51 import dense, sample_atoms, values_and_draws


def arguments(n, A, Z, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, A, Z, generator=g)
    return logits, torch.linspace(-7, 5, Z), torch.rand(n, A, generator=g)


pytestmark = pytest.mark.filterwarnings("ignore:invalid value")  # the interpreter says so, a device does not


@pytest.fixture(params=["dense", "kernels"])
def form(request, kernel_device):
    if request.param == "dense":
        return dense.values
    from alpha_core.cuda.c51 import kernels

    def run(*values):
        return tuple(
            v.cpu() for v in kernels.values(*(None if v is None else v.to(kernel_device) for v in values))
        )

    return run


@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 9, 51), (33, 9, 51), (5, 2, 64), (4, 3, 101)])
def test_means_and_draws_are_those_of_float64(form, shape):
    logits, support, uniforms = arguments(*shape)
    means, draws = form(logits, support, uniforms)
    exact, drawn = dense.values(*(v.double() for v in (logits, support, uniforms)))
    assert (means - exact).abs().max() < 1e-5
    # A uniform so close to an edge that rounding decides is allowed the atom beside it.
    weights = logits.double().softmax(-1).cumsum(-1)
    near = (weights - uniforms[..., None]).abs().amin(-1) < 1e-6
    assert ((draws - drawn).abs() < 1e-5)[~near].all()
    assert near.float().mean() < 0.1


def test_a_draw_is_the_first_atom_that_reaches_the_uniform(form):
    logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().expand(5, 1, 4)
    support = torch.tensor([-3.0, -1.0, 2.0, 8.0])
    uniforms = torch.tensor([[0.0], [0.09], [0.11], [0.59], [0.99999994]])
    means, draws = form(logits.contiguous(), support, uniforms)
    assert draws.flatten().tolist() == [-3.0, -3.0, -1.0, 2.0, 8.0]
    assert torch.allclose(means, torch.tensor(-0.3 - 0.2 + 0.6 + 3.2))


def test_atoms_without_mass_are_not_drawn(form):
    logits = torch.full((2, 1, 5), -1e30)
    logits[:, :, 2] = 4.0
    means, draws = form(logits, torch.arange(5.0), torch.tensor([[0.0], [0.999]]))
    assert draws[1].item() == 2.0
    assert means.flatten().tolist() == [2.0, 2.0]


def test_draws_are_as_frequent_as_probable(form):
    logits = torch.tensor([0.0, 1.0, -1.0]).expand(1, 40_000, 3).contiguous()
    uniforms = ((torch.arange(40_000) + 0.5) / 40_000)[None]
    _, draws = form(logits, torch.tensor([0.0, 1.0, 2.0]), uniforms)
    found = torch.bincount(draws.flatten().long(), minlength=3) / 40_000
    torch.testing.assert_close(found, logits[0, 0].softmax(-1), atol=1e-4, rtol=0)


def test_nan_is_told_and_stays_where_it_is(form):
    logits, support, uniforms = arguments(4, 3, 11)
    logits[2, 1, 5] = float("nan")
    means, draws = form(logits, support, uniforms)
    bad = torch.zeros(4, 3, dtype=torch.bool)
    bad[2, 1] = True
    assert torch.equal(torch.isnan(means), bad)
    assert torch.isfinite(draws[~bad]).all()


def test_without_uniforms_there_are_no_draws_and_no_rows_give_none(form):
    logits, support, uniforms = arguments(4, 3, 11)
    means, draws = form(logits, support, None)
    assert draws.shape == (0, 3)
    assert torch.equal(means, form(logits, support, uniforms)[0])
    assert form(logits[:0], support, uniforms[:0])[1].shape == (0, 3)


def test_two_runs_have_the_same_bits_and_a_row_does_not_know_its_neighbours(form):
    logits, support, uniforms = arguments(33, 9, 51)
    whole, again = form(logits, support, uniforms), form(logits, support, uniforms)
    assert all(torch.equal(a, b) for a, b in zip(whole, again, strict=True))
    alone = form(logits[7:8], support, uniforms[7:8])
    assert torch.equal(alone[1], whole[1][7:8])


def test_operator_keeps_the_rules_of_torch():
    logits, support, uniforms = arguments(3, 2, 5)
    for drawn in (uniforms, None):
        torch.library.opcheck(torch.ops.alpha.c51_values.default, (logits, support, drawn))
    assert values_and_draws(logits, support, None)[1] is None
    assert torch.equal(
        support[sample_atoms(logits.softmax(-1), uniforms)], values_and_draws(logits, support, uniforms)[1]
    )
