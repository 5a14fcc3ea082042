"""Simulated events to records in memory."""

import time

from measure import Row, green, show

from alpha_pipeline.simulator import SimulatorConfig, simulate_day

EVENTS = 1_000_000
TESTS = ("tests/simulator/test_book.py", "tests/simulator/test_dbn_files.py")


def run() -> list[Row]:
    config = SimulatorConfig(events_per_day=EVENTS)
    simulate_day(SimulatorConfig(events_per_day=1000), 250_000_000, config.start_date, 0)
    times = []
    for _ in range(5):
        began = time.process_time()
        simulate_day(config, 250_000_000, config.start_date, 0)
        times.append(time.process_time() - began)
    return [
        Row(
            "simulator, events to records, of one core",
            f"{EVENTS / sorted(times)[2] / 1e6:.2f} M events/s",
            "1 M/s",
        )
    ]


if __name__ == "__main__":
    green(*TESTS)
    show(run())
