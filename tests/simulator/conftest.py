"""One simulated day, shared by the tests that only look at it."""

import pytest

from alpha_pipeline.simulator import SimulatedDay, SimulatorConfig, simulate_day

TICK_NANOS = 250_000_000
DAY = "2024-01-02"


@pytest.fixture(scope="session")
def config() -> SimulatorConfig:
    return SimulatorConfig(events_per_day=20_000, days=3)


@pytest.fixture(scope="session")
def simulated(config: SimulatorConfig) -> SimulatedDay:
    return simulate_day(config, TICK_NANOS, DAY, 0)
