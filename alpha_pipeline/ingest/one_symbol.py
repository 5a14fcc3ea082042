"""What raw files of one symbol share, where the name tells it and the records have no instrument id."""

from collections import Counter
from pathlib import Path

from alpha_pipeline.ingest.records import UNDEF_TIMESTAMP
from alpha_pipeline.ingest.symbology import Listing

INSTRUMENT_ID = 1
"""What their records are given."""


class OneSymbolFile:
    """A file being read, front to back, once; the attributes are those of `raw.RawFile`."""

    version = 1

    def __init__(self, path: Path, symbol: str) -> None:
        self.path = path
        self.records_read = 0
        self.trailing_bytes = 0
        self.truncated = False
        self.skipped_by_type: Counter[str] = Counter()
        self._symbol = symbol

    @property
    def requested(self) -> list[str]:
        """The symbol in the file's name."""
        return [self._symbol]

    @property
    def listings(self) -> list[Listing]:
        """The one instrument of the file."""
        return [Listing(symbol=self._symbol, instrument_id=INSTRUMENT_ID, start_ns=0, end_ns=UNDEF_TIMESTAMP)]
