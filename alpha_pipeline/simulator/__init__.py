"""A simulated order-book market: genuine DBN MBP-10 files, with alpha planted at a known strength or none."""

from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.days import SimulatedDay, simulate_day, simulate_days

VERSION = "2"
"""Version of the market's rules: part of the identity of the days it wrote."""


__all__ = ["SimulatedDay", "SimulatorConfig", "simulate_day", "simulate_days"]
