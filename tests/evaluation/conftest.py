"""Makes the market builders of the environment's own tests importable here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "core" / "market"))
