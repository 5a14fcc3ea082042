"""Circuit breakers: reference numbers, and NaN always fails by name."""

import json
import math

import pytest
import torch

from alpha_core.control.bus import SignalBus
from alpha_core.control.kill_criteria import (
    THRESHOLDS,
    action_entropy,
    early_q_movement,
    evaluate,
    observe,
    q_spread,
    return_vs_random,
)

GOOD = {"q_spread": 0.2, "action_entropy": 1.5, "return_vs_random": 0.3, "early_q_movement": 0.1}


def test_reference_numbers(vectors):
    spread, entropy, against, movement = json.loads((vectors / "kill_criteria.json").read_text())["cases"]
    assert float(q_spread(torch.tensor(spread["q_values"], dtype=torch.float32))) == pytest.approx(
        spread["q_spread"], abs=1e-4
    )
    assert float(action_entropy(torch.tensor(entropy["action_counts"]))) == pytest.approx(
        entropy["action_entropy"], abs=1e-4
    )
    value = return_vs_random(
        torch.tensor(float(against["rollout_return"])), against["baseline_mean"], against["baseline_std"]
    )
    assert float(value) == pytest.approx(against["return_vs_random"], abs=1e-4)
    initial = torch.zeros(100)
    initial[0] = movement["theta_init_norm"]
    moved = initial.clone()
    moved[1] = movement["distance_from_init"]
    # Split into parts, as a network with an encoder is.
    parts = initial.split(40), moved.split(40)
    assert float(early_q_movement(*parts)) == pytest.approx(movement["early_q_movement"], abs=1e-4)


def test_movement_sees_a_rotation_that_keeps_the_norm():
    assert float(early_q_movement([torch.tensor([1.0, 0.0])], [torch.tensor([0.0, 1.0])])) == pytest.approx(
        2**0.5
    )


def test_movement_refuses_different_parts():
    with pytest.raises(ValueError, match="argument"):
        early_q_movement([torch.ones(1)], [torch.ones(1), torch.ones(1)])


def test_q_spread_over_legal_actions_only():
    q = torch.tensor([[1.0, 3.0, 1000.0]])
    assert float(q_spread(q, torch.tensor([[True, True, False]]))) == pytest.approx(0.5)


def test_thresholds_are_the_fixed_ones():
    assert THRESHOLDS["action_entropy"] == pytest.approx(1.0986, abs=1e-4)
    verdicts = evaluate(dict(THRESHOLDS))
    assert all(v.passed for v in verdicts)
    assert not any(v.passed for v in evaluate({k: v - 1e-6 for k, v in THRESHOLDS.items()}))


@pytest.mark.parametrize("name", list(GOOD))
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_not_finite_fails_by_name(name, bad):
    failed = [v for v in evaluate({**GOOD, name: bad}) if not v.passed]
    assert [v.name for v in failed] == [name]
    assert failed[0].reason.startswith(f"{name} was {'NaN' if math.isnan(bad) else bad}")


def test_an_absent_figure_fails_and_an_unknown_one_is_refused():
    assert [v.name for v in evaluate({k: v for k, v in GOOD.items() if k != "q_spread"}) if not v.passed] == [
        "q_spread"
    ]
    with pytest.raises(ValueError, match="luck"):
        evaluate({**GOOD, "luck": 1.0})


def test_nan_reaches_the_figures():
    assert math.isnan(float(q_spread(torch.tensor([[1.0, math.nan], [1.0, 2.0]]))))
    assert math.isnan(float(action_entropy(torch.zeros(9))))
    assert math.isnan(float(return_vs_random(torch.tensor(1.0), 0.0, 0.0)))
    assert math.isnan(float(early_q_movement([torch.ones(2)], [torch.tensor([1.0, math.nan])])))


def test_entropy_is_zero_for_one_action_and_log_nine_for_all():
    assert float(action_entropy(torch.tensor([0, 7, 0, 0, 0, 0, 0, 0, 0]))) == 0.0
    assert float(action_entropy(torch.full((9,), 5))) == pytest.approx(math.log(9))


def test_observe_smooths_on_the_bus_and_cannot_hide_a_nan():
    bus, verdicts = observe(SignalBus.initial(), GOOD)
    assert all(v.passed for v in verdicts)
    bus, verdicts = observe(bus, {**GOOD, "q_spread": 0.1})
    # m = s gives half the way: 0.2 then 0.1 smooths to 0.15.
    assert next(v for v in verdicts if v.name == "q_spread").figure == pytest.approx(0.15)
    _, verdicts = observe(bus, {**GOOD, "q_spread": math.nan})
    assert [v.name for v in verdicts if not v.passed] == ["q_spread"]
