"""The fill model's tests share the synthetic markets of the environment's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "core" / "market"))
