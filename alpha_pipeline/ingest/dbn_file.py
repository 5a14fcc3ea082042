"""One DBN file being read: its header, then its records in bulk."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.dbn_header import body_listings, header_listings, read_header
from alpha_pipeline.ingest.dbn_records import RecordKind, RecordWalk
from alpha_pipeline.ingest.records import MBP10_DTYPE, RTYPE_MBP10
from alpha_pipeline.ingest.stream import ByteStream

MBP10 = RecordKind(schema="mbp-10", rtype=RTYPE_MBP10, dtype=MBP10_DTYPE)


class DbnFile:
    """One MBP-10 file: what its header says, then its records in file order. Read once, front to back.

    Attributes:
        path: the file.
        metadata: the header as the official library reads it.
        listings: symbol mappings of the header; those met in the body are added while reading.
        trailing_bytes: bytes after the last whole record (known at the end).
        counts: nothing is counted beside.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trailing_bytes = 0
        self.counts: Mapping[str, int] = {}
        self._stream = ByteStream(path)
        try:
            self.metadata, self._rest = read_header(self._stream)
            self._refuse_schema()
        except BaseException:
            self._stream.close()
            raise
        self._walk = RecordWalk(path, MBP10, self._stream.offset - len(self._rest))
        self.listings = header_listings(self.metadata)

    def __enter__(self) -> "DbnFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def version(self) -> int:
        """Version of the format."""
        return self.metadata.version

    @property
    def requested(self) -> list[str]:
        """Symbols that the file was asked for, resolved or not."""
        return list(self.metadata.symbols)

    @property
    def records_read(self) -> int:
        """Records met so far, of all types."""
        return self._walk.read

    @property
    def skipped_by_type(self) -> Mapping[str, int]:
        """Records of other types met so far, by name."""
        return self._walk.skipped

    @property
    def truncated(self) -> bool:
        """Whether the file ends in the middle of a compressed frame or of a record (known at the end)."""
        return self._stream.truncated or self.trailing_bytes > 0

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records of type MBP-10, [n] MBP10_DTYPE; a chunk holds while the next is made, not longer.

        Args:
            chunk_records: records per chunk, at most.

        Raises:
            InputError: the bytes are not a sequence of records, or hold records of another schema only.
        """
        filled = len(self._rest)
        size = max(chunk_records * self._walk.kind.lengths[-1], filled)
        buffer, other = np.empty(size, dtype=np.uint8), np.empty(size, dtype=np.uint8)
        buffer[:filled] = np.frombuffer(self._rest, dtype=np.uint8)
        while True:
            count = self._stream.fill(memoryview(buffer.data)[filled:])
            filled += count
            records, used = self._walk.records(buffer[:filled])
            self._note_mappings()
            if len(records):
                yield records
            if not used and not count:
                break
            other[: filled - used] = buffer[used:filled]
            buffer, other = other, buffer
            filled -= used
        self.trailing_bytes = filled
        self._walk.refuse_other_schema()

    def _note_mappings(self) -> None:
        for raw in self._walk.mappings:
            self.listings.extend(body_listings(raw, self.metadata))
        self._walk.mappings.clear()

    def _refuse_schema(self) -> None:
        schema = self.metadata.schema
        if schema is not None and str(schema) != MBP10.schema:
            raise InputError(
                f"{self.path} holds schema {schema} by its header (byte 0), must be {MBP10.schema}: "
                f"give a file of schema {MBP10.schema}"
            )
