"""Settings out of bounds are all named at once."""

import pytest
from pydantic import TypeAdapter, ValidationError

from alpha_core.errors import ConfigError
from alpha_pipeline.simulator import SimulatorConfig


def test_all_bad_fields_are_named():
    with pytest.raises(ConfigError) as caught:
        SimulatorConfig(rho=-1.0, days=0, regime_volatility=(), start_date="2024-02-30", symbol="")
    text = str(caught.value)
    assert "simulator.rho was -1.0, must be in [0.0, 10.0]" in text
    assert "simulator.days was 0, must be in [1, 10000]" in text
    assert "simulator.regime_volatility was ()" in text
    assert "simulator.start_date was '2024-02-30'" in text
    assert "simulator.symbol was ''" in text


def test_session_past_midnight_is_refused():
    with pytest.raises(ConfigError, match=r"session_hours was 26, must be at most 23\.95"):
        SimulatorConfig(session_start_hour=14.0, session_hours=12.0)


def test_nan_is_refused():
    with pytest.raises(ConfigError, match="rho was nan"):
        SimulatorConfig(rho=float("nan"))


def test_unknown_keys_are_refused():
    with pytest.raises(ValidationError, match="rhoo"):
        TypeAdapter(SimulatorConfig).validate_python({"rhoo": 1.0})


def test_days_count_from_the_start_across_a_leap_february():
    config = SimulatorConfig(start_date="2024-02-27")
    assert [config.day(k) for k in range(4)] == ["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01"]
    assert config.index("2024-03-01") == 3
