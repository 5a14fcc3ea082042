"""DBN files: header and symbology through the official library, record bodies in bulk as numpy views.

The body is a sequence of records that state their own length. As long as all of them are MBP-10 a chunk is
one view of the buffer; where other types lie between, the lengths are walked and the MBP-10 records gathered.
Other types are counted; nothing else is skipped here.
"""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.raw import FileName
from alpha_pipeline.ingest.records import (
    ADMINISTRATIVE_RTYPES,
    HEADER_BYTES,
    LENGTH_UNIT,
    MBP10_DTYPE,
    RECORD_BYTES,
    RTYPE_MBP10,
    RTYPE_NAMES,
    RTYPE_SYMBOL_MAPPING,
    TS_OUT_BYTES,
    UNDEF_TIMESTAMP,
)
from alpha_pipeline.ingest.stream import ByteStream
from alpha_pipeline.ingest.symbology import Listing
from alpha_pipeline.instrument import InstrumentSpec, symbol_of

if TYPE_CHECKING:
    from databento_dbn import Metadata

MAGIC = b"DBN"
SCHEMA = "mbp-10"
FIRST_READ = 1 << 14
MAX_HEADER_BYTES = 1 << 26
NEVER = 2**64 - 1


class DbnFile:
    """One MBP-10 file: what its header says, then its records in file order. Read once, front to back.

    Attributes:
        path: the file.
        metadata: the header as the official library reads it.
        listings: symbol mappings of the header; those met in the body are added while reading.
        records_read: records met so far, of all types.
        skipped_by_type: records of other types, by name.
        trailing_bytes: bytes after the last whole record (known at the end).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records_read = 0
        self.skipped_by_type: Counter[str] = Counter()
        self.trailing_bytes = 0
        self._stream = ByteStream(path)
        try:
            self.metadata, self._rest = _read_header(self._stream)
        except BaseException:
            self._stream.close()
            raise
        self._position = self._stream.offset - len(self._rest)
        self.listings = _header_listings(self.metadata)

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
        size = max(chunk_records * (RECORD_BYTES + TS_OUT_BYTES), filled)
        buffer, other = np.empty(size, dtype=np.uint8), np.empty(size, dtype=np.uint8)
        buffer[:filled] = np.frombuffer(self._rest, dtype=np.uint8)
        while True:
            count = self._stream.fill(memoryview(buffer.data)[filled:])
            filled += count
            records, used = self._records(buffer[:filled])
            if len(records):
                yield records
            if not used and not count:
                break
            other[: filled - used] = buffer[used:filled]
            buffer, other = other, buffer
            self._position += used
            filled -= used
        self.trailing_bytes = filled
        self._refuse_other_schema()

    def _records(self, data: np.ndarray) -> tuple[np.ndarray, int]:
        """MBP-10 records at the start of `data` and the bytes that all whole records there take."""
        uniform = _uniform(data)
        if uniform is not None:
            self.records_read += len(uniform)
            return uniform, len(uniform) * uniform.strides[0]
        starts, used = self._walk(data)
        return _gather(data, starts), used

    def _walk(self, data: np.ndarray) -> tuple[list[int], int]:
        """Offsets of the MBP-10 records among others, and the bytes that the whole records take."""
        raw = data.tobytes()
        starts, at, size = [], 0, len(raw)
        while at + HEADER_BYTES <= size:
            length, rtype = raw[at] * LENGTH_UNIT, raw[at + 1]
            if rtype != RTYPE_MBP10 or length != RECORD_BYTES:
                self._check(length, rtype, at)
            if at + length > size:
                break
            if rtype == RTYPE_MBP10:
                starts.append(at)
            else:
                self._skip(rtype, raw[at : at + length])
            self.records_read += 1
            at += length
        return starts, at

    def _check(self, length: int, rtype: int, at: int) -> None:
        allowed = (RECORD_BYTES, RECORD_BYTES + TS_OUT_BYTES)
        if length < HEADER_BYTES:
            reason = f"a record of {length} bytes, shorter than its own header of {HEADER_BYTES}"
        elif rtype not in RTYPE_NAMES:
            reason = f"a record of the unknown type 0x{rtype:02x}"
        elif rtype == RTYPE_MBP10 and length not in allowed:
            reason = f"an MBP-10 record of {length} bytes instead of {RECORD_BYTES}"
        else:
            return
        raise InputError(
            f"{self.path} has at byte {self._position + at} of the decompressed stream {reason}: "
            "the file is damaged, fetch it again"
        )

    def _skip(self, rtype: int, raw: bytes) -> None:
        self.skipped_by_type[RTYPE_NAMES[rtype]] += 1
        if rtype == RTYPE_SYMBOL_MAPPING:
            self.listings.extend(_body_listings(raw, self.metadata))

    def _refuse_other_schema(self) -> None:
        skipped = sum(self.skipped_by_type.values())
        administrative = {RTYPE_NAMES[rtype] for rtype in ADMINISTRATIVE_RTYPES}
        others = sorted(set(self.skipped_by_type) - administrative)
        if others and skipped == self.records_read:
            raise InputError(
                f"{self.path} holds {skipped} records of {', '.join(others)} and none of {SCHEMA}: "
                f"give a file of schema {SCHEMA}"
            )


def _uniform(data: np.ndarray) -> np.ndarray | None:
    """View of the whole records of `data` when all of them are MBP-10 of one length, else None."""
    if len(data) < RECORD_BYTES or data[1] != RTYPE_MBP10:
        return None
    stride = int(data[0]) * LENGTH_UNIT
    if stride not in (RECORD_BYTES, RECORD_BYTES + TS_OUT_BYTES):
        return None
    records = np.ndarray((len(data) // stride,), MBP10_DTYPE, data, strides=(stride,))
    # length and type are the first two bytes: one comparison for both
    starts = np.ndarray((len(records),), np.uint16, data, strides=(stride,))
    return records if len(records) and (starts == starts[0]).all() else None


def _gather(data: np.ndarray, starts: list[int]) -> np.ndarray:
    """Copy the records that begin at `starts` into one contiguous array."""
    rows = np.lib.stride_tricks.sliding_window_view(data, RECORD_BYTES)[starts] if starts else data[:0]
    return np.ascontiguousarray(rows).reshape(-1).view(MBP10_DTYPE)


def _read_header(stream: ByteStream) -> tuple["Metadata", bytes]:
    """The header and the bytes already read behind it.

    The official library reads a header from any bytes that start with one. The shortest prefix that it
    accepts is the header, found by bisection, so that no field of it is read here.
    """
    head = b""
    metadata = None
    while metadata is None:
        more = memoryview(bytearray(max(FIRST_READ, len(head))))
        count = stream.fill(more)
        head += more[:count]
        _refuse_foreign(stream.path, head)
        metadata, reason = _decode(head)
        if metadata is None and (not count or len(head) > MAX_HEADER_BYTES):
            raise InputError(
                f"{stream.path} has no readable DBN header in bytes 0 to {len(head)} of the decompressed "
                f"stream ({reason}): the file was cut or is damaged, fetch it again"
            )
    _refuse_schema(stream.path, metadata)
    return metadata, head[_header_length(head) :]


def _refuse_foreign(path: Path, head: bytes) -> None:
    if not head:
        raise InputError(f"{path} has no bytes (byte 0 is its end): fetch the file again")
    if not head.startswith(MAGIC):
        raise InputError(
            f"{path} is not a DBN file: byte 0 of the stream begins {head[:8]!r} instead of {MAGIC!r}; "
            "fragments without header and the older DBZ format must be converted first"
        )


def _decode(head: bytes) -> tuple["Metadata | None", str]:
    """The header at the start of `head`, or None and why the library sees none."""
    import databento_dbn

    as_is: Any = databento_dbn.VersionUpgradePolicy.AS_IS  # the library's stub calls this member an int
    try:
        return databento_dbn.Metadata.decode(head, as_is), ""
    except databento_dbn.DBNError as error:
        return None, str(error)


def _header_length(head: bytes) -> int:
    low, high = len(MAGIC), len(head)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _decode(head[:middle])[0] is not None else (middle, high)
    return high


def _refuse_schema(path: Path, metadata: "Metadata") -> None:
    if metadata.schema is not None and str(metadata.schema) != SCHEMA:
        raise InputError(
            f"{path} holds schema {metadata.schema} by its header (byte 0), must be {SCHEMA}: "
            f"give a file of schema {SCHEMA}"
        )


def _header_listings(metadata: "Metadata") -> list[Listing]:
    """Symbol mappings of the header; an unresolved one (empty target) lists nothing."""
    forward = str(metadata.stype_out) == "instrument_id"
    if not forward and str(metadata.stype_in) != "instrument_id":
        return []
    return [
        Listing(
            symbol=key if forward else entry["symbol"],
            instrument_id=int(entry["symbol"] if forward else key),
            start_ns=_midnight_ns(entry["start_date"]),
            end_ns=_midnight_ns(entry["end_date"]),
        )
        for key, entries in metadata.mappings.items()
        for entry in entries
        if entry["symbol"]
    ]


def _midnight_ns(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 10**9


def _body_listings(raw: bytes, metadata: "Metadata") -> list[Listing]:
    """Listings of a live stream's mapping record: the symbol asked for and the one it stands for."""
    import databento_dbn

    decoder = databento_dbn.DBNDecoder(
        has_metadata=False, ts_out=metadata.ts_out, input_version=metadata.version
    )
    decoder.write(raw)
    return [listing for message in decoder.decode() for listing in _mapping_listings(message)]


def _mapping_listings(message: Any) -> list[Listing]:
    start = 0 if message.start_ts == UNDEF_TIMESTAMP else message.start_ts
    end = NEVER if message.end_ts == UNDEF_TIMESTAMP else message.end_ts
    symbols = dict.fromkeys((message.stype_in_symbol, message.stype_out_symbol))
    return [
        Listing(symbol=symbol, instrument_id=message.instrument_id, start_ns=start, end_ns=end)
        for symbol in symbols
        if symbol and not symbol.isdigit()
    ]


class DbnSource:
    """DBN files, one UTC day each.

    Two forms of names: `<symbol>-<date>[.<schema>].dbn[.zst]`, and the vendor's
    `<dataset>-<date>[.<schema>][.<symbol>].dbn[.zst]` with a lower-case dataset such as `glbx-mdp3`, where
    the symbol may lie in the content only. Dates are 2023-12-25 or 20231225.
    """

    NAME = re.compile(
        r"(?P<lead>.+?)-(?P<date>\d{4}-\d{2}-\d{2}|\d{8})(?:-(?P<until>\d{4}-\d{2}-\d{2}|\d{8}))?"
        r"(?P<rest>(?:\..+)?)\.dbn(?:\.zst)?",
        re.DOTALL,
    )
    DATASET = re.compile(r"[a-z]{4,5}-[a-z0-9]+(?:-[a-z0-9]+)?")
    SCHEMAS = re.compile(
        r"mbo|mbp-\d+|tbbo|tcbbo|trades|(?:c|)bbo-\d+[sm]|cmbp-1|ohlcv-\d+[smhd]|definition|statistics|status|imbalance"
    )

    def recognises(self, name: str) -> bool:
        """Whether a file of this name is of this family; what it really is, its first bytes tell."""
        return ".dbn" in name or name.endswith(".dbz")

    def parse(self, name: str) -> FileName | None:
        """What a file's name says, None when it is no DBN file of one day."""
        match = self.NAME.fullmatch(name)
        day = _iso_day(match["date"]) if match else None
        if match is None or day is None:
            return None
        parts = [part for part in match["rest"].split(".") if part]
        schema = next((part for part in parts if self.SCHEMAS.fullmatch(part)), None)
        inside = ".".join(part for part in parts if part != schema)
        symbol = inside if self.DATASET.fullmatch(match["lead"]) else match["lead"]
        told = symbol and not symbol.isdigit()  # a number there is a part of a split file
        return FileName(
            day=day,
            until=match["until"],
            symbol=symbol_of(symbol) if told else None,
            usable=schema in (None, SCHEMA),
        )

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Whether the header lists or requests the instrument, or leaves its symbols to the body.

        An unreadable file counts as belonging: its day must fail with the reason rather than look absent.
        """
        try:
            with DbnFile(path) as file:
                named = [listing.symbol for listing in file.listings] + file.requested
        except InputError:
            return True
        return not named or any(spec.matches(symbol) for symbol in named)

    def open(self, path: Path) -> DbnFile:
        """Begin to read a file."""
        return DbnFile(path)


def _iso_day(text: str) -> str | None:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None
