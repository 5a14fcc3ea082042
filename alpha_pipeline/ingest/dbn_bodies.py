"""The records of a DBN file as they are, for those who copy them rather than read them as books."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from alpha_pipeline.ingest.dbn_file import KINDS
from alpha_pipeline.ingest.dbn_header import read_header
from alpha_pipeline.ingest.dbn_records import RecordWalk
from alpha_pipeline.ingest.stream import ByteStream

CHUNK = 1 << 22


class Bodies:
    """Whole records of one schema in a stream, chunk by chunk, as copies.

    Attributes:
        trailing_bytes: bytes after the last whole record, known at the end.
        others: records of other types met so far.
    """

    def __init__(self, stream: ByteStream, schema: str) -> None:
        self.trailing_bytes = 0
        self.others = 0
        self._stream = stream
        self._kind = next(kind for kind in KINDS if kind.schema == schema)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Arrays [n] of the schema's dtype, n > 0. Raises InputError when the bytes are no records."""
        _, waiting = read_header(self._stream)
        walk = RecordWalk(self._stream.path, (self._kind,), self._stream.offset - len(waiting))
        while True:
            more = memoryview(bytearray(CHUNK))
            count = self._stream.fill(more)
            data = np.frombuffer(waiting + more[:count], dtype=np.uint8)
            records, used = walk.records(data)
            self.others = walk.skipped.total()
            if len(records):
                yield records.copy()
            waiting = data[used:].tobytes()
            if not used and not count:
                self.trailing_bytes = len(waiting)
                return


def header_bytes(path: Path) -> bytes:
    """The bytes before the first record. Raises InputError when there is no header."""
    with ByteStream(path) as stream:
        _, rest = read_header(stream)
        length = stream.offset - len(rest)
    with ByteStream(path) as stream:
        head = memoryview(bytearray(length))
        stream.fill(head)
        return bytes(head)
