"""A day's stream that broke, and how its pieces become one file without a record lost or doubled.

The vendor's streams are ordered by receive time and can be asked for from any receive time on. So of a piece that
broke only the records before its latest receive time count, and the next piece begins there: a record at that very
time is in the next piece whole, and in the earlier one not at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zstandard

from alpha_core.errors import InputError
from alpha_pipeline.ingest.dbn_file import KINDS
from alpha_pipeline.ingest.dbn_header import read_header
from alpha_pipeline.ingest.dbn_records import RecordKind, RecordWalk
from alpha_pipeline.ingest.stream import ByteStream

CHUNK = 1 << 22
LEVEL = 3


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What one stream brought.

    Attributes:
        records: whole records.
        latest_ns: latest receive time among them, None when there are none.
        whole: whether it can be read to a proper end.
    """

    records: int
    latest_ns: int | None
    whole: bool


def inspect(part: Path, schema: str) -> Piece:
    """Read a piece as far as it can be read."""
    count, latest, whole = 0, None, False
    try:
        with ByteStream(part) as stream:
            for records in _bodies(stream, schema):
                count += len(records)
                latest = max(latest or 0, int(records["ts_recv"].max()))
            whole = not stream.truncated
    except InputError:
        whole = False
    return Piece(records=count, latest_ns=latest, whole=whole)


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
                    frame.write(_header_bytes(part))
                for records in _bodies(stream, schema):
                    kept = records if until is None else records[records["ts_recv"] < np.uint64(until)]
                    frame.write(kept.tobytes())
                    count += len(kept)
    return count


def _header_bytes(part: Path) -> bytes:
    """The bytes before the first record."""
    with ByteStream(part) as stream:
        _, rest = read_header(stream)
        length = stream.offset - len(rest)
    with ByteStream(part) as stream:
        head = memoryview(bytearray(length))
        stream.fill(head)
        return bytes(head)


def _bodies(stream: ByteStream, schema: str) -> Iterator[np.ndarray]:
    """Whole records of the schema, chunk by chunk, as copies."""
    kind = next(kind for kind in KINDS if kind.schema == schema)
    _, rest = read_header(stream)
    yield from _walked(stream, rest, kind)


def _walked(stream: ByteStream, rest: bytes, kind: RecordKind) -> Iterator[np.ndarray]:
    walk = RecordWalk(stream.path, (kind,), stream.offset - len(rest))
    waiting = rest
    while True:
        more = memoryview(bytearray(CHUNK))
        count = stream.fill(more)
        data = np.frombuffer(waiting + more[:count], dtype=np.uint8)
        records, used = walk.records(data)
        if len(records):
            yield records.copy()
        if not used and not count:
            return
        waiting = data[used:].tobytes()
