"""`alpha build` of sixty cached days with nothing to do, the whole command."""

import os
import subprocess
import sys
import time

from measure import ROOT, Row, green, scratch, show

DAYS = 60
TESTS = ("tests/pipeline/test_digests.py", "tests/pipeline/test_plan.py")
COMMAND = "from alpha_pipeline.cli import main\nif __name__ == '__main__':\n    main()\n"
INSTRUMENT = f"""
[instrument]
name = "sixty"
symbols = ["SIXTY"]
tick_size = "0.25"
calendar = "24/7"

[simulator]
symbol = "SIXTY"
days = {DAYS}
events_per_day = 3000
"""


def run() -> list[Row]:
    with scratch() as folder:
        (folder / "instruments").mkdir()
        (folder / "instruments" / "sixty.toml").write_text(INSTRUMENT)
        (folder / "alpha_command.py").write_text(COMMAND)
        environment = os.environ | {"ALPHA_HOME": str(folder), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(folder / "alpha_command.py"), "build", "--instrument", "sixty"]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        time.sleep(3)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            times.append(time.perf_counter() - began)
            assert f"0 built, {4 * DAYS} up to date" in done.stdout
        return [
            Row(f"`alpha build` of {DAYS} cached days, nothing to do", f"{sorted(times)[2]:.1f} s", "3 s")
        ]


if __name__ == "__main__":
    green(*TESTS)
    show(run())
