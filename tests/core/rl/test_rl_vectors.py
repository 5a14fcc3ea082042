"""Reference numbers of the RL functions, every case of every file."""

import json

import pytest
import torch

from alpha_core.rl import categorical, linear_q, munchausen, thompson


def cases(vectors, name):
    return json.loads((vectors / f"{name}.json").read_text())["cases"]


def real(values):
    return torch.tensor(values, dtype=torch.float32)


def test_c51_projection(vectors):
    found = cases(vectors, "c51_projection")
    assert len(found) == 20
    for case in found:
        atoms = categorical.support(case["v_min"], case["v_max"], case["atoms"])
        projected = categorical.bellman_project(
            torch.tensor([case["reward"]]),
            torch.tensor([case["gamma"] * (1 - case["done"])]),
            torch.tensor([case["next_probs"]]),
            atoms,
            kappa=case["kappa"] or 0.0,
        )
        torch.testing.assert_close(projected, torch.tensor([case["projected"]]), atol=1e-5, rtol=0)
        assert float(projected.sum()) == pytest.approx(1.0, abs=1e-5)


def test_munchausen_scalar_targets(vectors):
    for case in cases(vectors, "munchausen"):
        settings = munchausen.Munchausen(alpha=case["alpha_m"], tau=case["tau"], floor=case["l0"])
        done = torch.tensor(case["dones"], dtype=torch.float32)
        targets = munchausen.scalar_target(
            torch.tensor(case["q_current"]),
            torch.tensor(case["actions"]),
            torch.tensor(case["rewards"]),
            case["gamma"] * (1 - done),
            torch.tensor(case["q_next"]),
            settings,
        )
        torch.testing.assert_close(targets, torch.tensor(case["targets"]), atol=1e-3, rtol=0)


def test_thompson_draws_and_actions(vectors):
    atoms = torch.linspace(-10, 10, 51)
    found = cases(vectors, "thompson")
    assert len(found) == 6
    for case in found:
        probs, uniforms = torch.tensor(case["probs"]), torch.tensor(case["uniforms"])
        drawn = atoms[thompson.sample_atoms(probs, uniforms)]
        torch.testing.assert_close(drawn, torch.tensor(case["sampled_returns"]), atol=1e-4, rtol=0)
        assert int(thompson.thompson_action(probs[None], atoms, uniforms[None])) == case["action"]


def test_linear_q_forward_gradient_and_step(vectors):
    for case in cases(vectors, "linear_q"):
        params = linear_q.LinearQ(real(case["W"]), real(case["b"]))
        x = real(case["X"])
        close = {"atol": 1e-4, "rtol": 0}
        torch.testing.assert_close(linear_q.q_values(params, x), real(case["Q"]), **close)
        grads = linear_q.gradient(params, x, torch.tensor(case["actions"]), real(case["targets"]))
        torch.testing.assert_close(grads.weight, real(case["dW"]), **close)
        torch.testing.assert_close(grads.bias, real(case["db"]), **close)
        stepped = linear_q.sgd(params, grads, case["lr"])
        torch.testing.assert_close(stepped.weight, real(case["W_after_sgd"]), **close)
        torch.testing.assert_close(stepped.bias, real(case["b_after_sgd"]), **close)
