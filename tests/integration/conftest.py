"""Raw files with chosen records are built as the ingestion's own tests build them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "ingest"))
