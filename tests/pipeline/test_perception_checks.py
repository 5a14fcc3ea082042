"""The sanity floor and the leak alarm of the perception, on figures made by hand."""

import pytest

from alpha_core.errors import ConfigError
from alpha_core.metrics.auc import leakage_alarm
from alpha_core.training.perception import HorizonMetrics
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.evaluation.config import GateConfig
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.stages.perception_model import floor_check, leak_check


def metrics(horizon, *, auc, low=None, accuracy=0.5, positive=0.5):
    return HorizonMetrics(
        horizon=horizon,
        n=1000,
        ties=0,
        positive=positive,
        auc=auc,
        auc_low=low,
        auc_high=None,
        brier=None,
        mcc=None,
        accuracy=accuracy,
        leakage=leakage_alarm(auc, accuracy, max(positive, 1 - positive)),
        bins=(),
    )


def config(floor="block", simulated=False):
    return PipelineConfig(
        instrument=InstrumentSpec(),
        gate=GateConfig(perception_floor=floor),
        simulator=SimulatorConfig() if simulated else None,
    )


@pytest.mark.parametrize(("low", "passed"), [(0.5001, True), (0.5, False), (0.49, False), (None, False)])
def test_floor_holds_the_lower_bound_against_one_half(low, passed):
    check = floor_check(metrics(300, auc=0.6, low=low), config())
    assert (check.passed, check.blocking, check.figure) == (passed, True, low)
    assert "300 snapshots" in check.description


def test_floor_that_shows_fails_without_stopping_anything():
    check = floor_check(metrics(300, auc=0.5, low=0.47), config("show"))
    assert (check.passed, check.blocking) == (False, False)


def test_floor_is_block_or_show():
    with pytest.raises(ConfigError, match="perception_floor was 'off', must be 'block' or 'show'"):
        GateConfig(perception_floor="off")


def test_too_good_an_auc_or_accuracy_is_a_failed_check_in_plain_words():
    scores = [metrics(30, auc=0.6), metrics(100, auc=0.93), metrics(300, auc=0.7, accuracy=0.8, positive=0.3)]
    check = leak_check(scores, config())
    assert not check.passed
    assert not check.blocking
    assert check.description == (
        "suspect a leak before believing it: "
        "at 100 snapshots the validation AUC is 0.930 and 50% of directions are right "
        "(always saying the commoner one: 50%); "
        "at 300 snapshots the validation AUC is 0.700 and 80% of directions are right "
        "(always saying the commoner one: 70%)"
    )


def test_honest_figures_and_simulated_markets_raise_no_alarm():
    assert leak_check([metrics(30, auc=0.85, accuracy=0.75)], config()).passed
    assert leak_check([metrics(6000, auc=0.6, accuracy=0.77, positive=0.82)], config()).passed
    check = leak_check([metrics(30, auc=0.99)], config(simulated=True))
    assert check.passed
    assert "simulated" in check.description
