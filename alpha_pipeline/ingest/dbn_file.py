"""One DBN file being read: its header, then its records in bulk."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.dbn_header import body_listings, header_listings, read_header
from alpha_pipeline.ingest.dbn_records import RecordKind, RecordWalk
from alpha_pipeline.ingest.records import MBO_DTYPE, MBP10_DTYPE, RTYPE_MBO, RTYPE_MBP10
from alpha_pipeline.ingest.stream import ByteStream

if TYPE_CHECKING:
    from alpha_pipeline.ingest.mbo import BookBuilder

MBP10 = RecordKind(schema="mbp-10", rtype=RTYPE_MBP10, dtype=MBP10_DTYPE)
MBO = RecordKind(schema="mbo", rtype=RTYPE_MBO, dtype=MBO_DTYPE)
KINDS = (MBP10, MBO)
FOLDED = "mbo-folded"
"""Name under which MBO records that gave no MBP-10 record of their own are counted."""


class DbnFile:
    """One file of MBP-10 or MBO records, as MBP-10 records in file order. Read once, front to back.

    The header's schema tells which; where it has none (a live capture), the first such record.

    Attributes:
        path: the file.
        metadata: the header as the official library reads it.
        listings: symbol mappings of the header; those met in the body are added while reading.
        trailing_bytes: bytes after the last whole record (known at the end).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trailing_bytes = 0
        self._builder: BookBuilder | None = None
        self._stream = ByteStream(path)
        try:
            self.metadata, self._rest = read_header(self._stream)
            self.listings = header_listings(path, self.metadata)
            kinds = self._kinds()
        except BaseException:
            self._stream.close()
            raise
        self._walk = RecordWalk(path, kinds, self._stream.offset - len(self._rest))

    def __enter__(self) -> "DbnFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def version(self) -> int:
        """Version of the format."""
        return self.metadata.version

    @property
    def schema(self) -> str:
        """Schema of the records; "unknown" when neither the header nor a record has told it yet."""
        return self._walk.kind.schema if self._walk.kind is not None else "unknown"

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
        """Records met so far that gave no MBP-10 record, by type."""
        folded = {FOLDED: self._builder.folded} if self._builder is not None else {}
        return self._walk.skipped | Counter(folded)

    @property
    def counts(self) -> Mapping[str, int]:
        """What the building of books from orders met so far; nothing in a file of books."""
        return self._builder.counts if self._builder is not None else {}

    @property
    def truncated(self) -> bool:
        """Whether the file ends in the middle of a compressed frame or of a record (known at the end)."""
        return self._stream.truncated or self.trailing_bytes > 0

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """MBP-10 records, [n] MBP10_DTYPE; a chunk holds while the next is made, not longer.

        Args:
            chunk_records: records per chunk, at most.

        Raises:
            InputError: the bytes are not a sequence of records, or hold records of other schemas only, or
                books cannot be built from the orders.
        """
        for records in self.records(chunk_records):
            if self._walk.kind is MBO:
                yield from self._books().push(records)
            else:
                yield records
        if self._builder is not None and len(unfinished := self._builder.finish()):
            yield unfinished

    def records(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records as the file has them, [n] MBP10_DTYPE or MBO_DTYPE; a chunk holds while the next is made."""
        filled = len(self._rest)
        size = max(chunk_records * (self._walk.kind or MBP10).lengths[-1], filled)
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

    def _books(self) -> "BookBuilder":
        if self._builder is None:
            from alpha_pipeline.ingest.mbo import BookBuilder

            self._builder = BookBuilder(self.path)
        return self._builder

    def _note_mappings(self) -> None:
        for raw in self._walk.mappings:
            self.listings.extend(body_listings(self.path, raw, self.metadata))
        self._walk.mappings.clear()

    def _kinds(self) -> tuple[RecordKind, ...]:
        """What the records may be, by the header."""
        schema = self.metadata.schema
        kinds = KINDS if schema is None else tuple(kind for kind in KINDS if kind.schema == str(schema))
        if not kinds:
            wanted = " or ".join(kind.schema for kind in KINDS)
            raise InputError(
                f"{self.path} holds schema {schema} by its header (byte 0), must be {wanted}: "
                f"give a file of schema {wanted}"
            )
        return kinds
