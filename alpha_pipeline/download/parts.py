"""A day's stream that broke, and how its pieces become one file without a record lost or doubled.

The vendor's streams are ordered by receive time and can be asked for from any receive time on. So of a piece that
broke only the records before its latest receive time count, and the next piece begins there: a record at that very
time is in the next piece whole, and in the earlier one not at all. A piece that is not in that order cannot be gone on
from: the day then begins anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zstandard

from alpha_core.errors import InputError
from alpha_pipeline.ingest.dbn_bodies import Bodies, header_bytes
from alpha_pipeline.ingest.stream import ByteStream

LEVEL = 3


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What one stream brought.

    Attributes:
        records: whole records.
        first_ns: receive time of the first, None when there are none.
        latest_ns: receive time of the last, None when there are none.
        ordered: whether receive times never go back, without which no piece can follow exactly.
        whole: whether it can be read to a proper end.
    """

    records: int
    first_ns: int | None
    latest_ns: int | None
    ordered: bool
    whole: bool


def inspect(part: Path, schema: str) -> Piece:
    """Read a piece as far as it can be read."""
    count, whole, ordered = 0, False, True
    first: int | None = None
    latest: int | None = None
    try:
        with ByteStream(part) as stream:
            pieces = Bodies(stream, schema)
            for records in pieces:
                times = np.ascontiguousarray(records["ts_recv"])
                ordered &= bool((times[1:] >= times[:-1]).all()) and int(times[0]) >= (latest or 0)
                first, latest = int(times[0]) if first is None else first, int(times[-1])
                count += len(records)
            whole = not stream.truncated and not pieces.trailing_bytes
    except InputError:
        whole = False
    return Piece(records=count, first_ns=first, latest_ns=latest, ordered=ordered, whole=whole)


def join(parts: Sequence[tuple[Path, int | None]], schema: str, target: Path) -> int:
    """Write the header of the first piece and the records of all of them, one zstd frame each.

    Args:
        parts: pieces in order, each with the receive time at which the next one begins (None for the last).
        schema: of the records.
        target: the file to write.

    Returns:
        Number of records.
    """
    count = 0
    with target.open("wb") as file:
        for number, (part, until) in enumerate(parts):
            with (
                ByteStream(part) as stream,
                zstandard.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False) as frame,
            ):
                if number == 0:
                    frame.write(header_bytes(part))
                for records in Bodies(stream, schema):
                    kept = records if until is None else records[records["ts_recv"] < np.uint64(until)]
                    frame.write(kept.tobytes())
                    count += len(kept)
    return count
