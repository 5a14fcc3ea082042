"""A simulated order-book market: genuine DBN MBP-10 files, with alpha planted at a known strength or none."""

from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.days import SimulatedDay, simulate_day, simulate_days

__all__ = ["SimulatedDay", "SimulatorConfig", "simulate_day", "simulate_days"]
