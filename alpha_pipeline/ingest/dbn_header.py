"""The header of a DBN file and its symbol mappings, read by the official library."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alpha_core.errors import InputError
from alpha_pipeline.ingest.records import UNDEF_TIMESTAMP
from alpha_pipeline.ingest.stream import ByteStream
from alpha_pipeline.ingest.symbology import Listing

if TYPE_CHECKING:
    from databento_dbn import Metadata

MAGIC = b"DBN"
FIRST_READ = 1 << 14
MAX_HEADER_BYTES = 1 << 26
LENGTH_FIELD = slice(4, 8)
"""Where a header says how many bytes follow, little endian."""

SHOWN_REASON = 100
MAX_INSTRUMENT_ID = 2**32 - 1
NEVER = 2**64 - 1


def read_header(stream: ByteStream) -> tuple["Metadata", bytes]:
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
        _refuse_foreign(stream, head)
        _refuse_endless(stream.path, head)
        metadata, reason = _decode(head)
        if metadata is None and (not count or len(head) > MAX_HEADER_BYTES):
            raise InputError(
                f"{stream.path} has no readable DBN header in bytes 0 to {len(head)} of the decompressed "
                f"stream ({reason}): the file was cut or is damaged, fetch it again"
            )
    return metadata, head[_header_length(head) :]


def _refuse_foreign(stream: ByteStream, head: bytes) -> None:
    path = stream.path
    if not head and stream.truncated:
        raise InputError(
            f"{path} has no readable DBN header: it is cut inside its first compressed frame, fetch the file again"
        )
    if not head:
        raise InputError(f"{path} has no bytes (byte 0 is its end): fetch the file again")
    if not head.startswith(MAGIC):
        raise InputError(
            f"{path} is not a DBN file: byte 0 of the stream begins {head[:8]!r} instead of {MAGIC!r}; "
            "fragments without header and the older DBZ format must be converted first"
        )


def _refuse_endless(path: Path, head: bytes) -> None:
    """The library makes room for as much as a header claims to hold, and the process ends when there is none."""
    claimed = int.from_bytes(head[LENGTH_FIELD], "little")
    if claimed > MAX_HEADER_BYTES:
        raise InputError(
            f"{path} has a DBN header that claims {claimed} bytes (bytes 4 to 8 of the decompressed stream), must be "
            f"at most {MAX_HEADER_BYTES}: the file is damaged, fetch it again"
        )


def _decode(head: bytes) -> tuple["Metadata | None", str]:
    """The header at the start of `head`, or None and why the library sees none."""
    import databento_dbn

    as_is: Any = databento_dbn.VersionUpgradePolicy.AS_IS  # the library's stub calls this member an int
    try:
        with _refusals():
            return databento_dbn.Metadata.decode(head, as_is), ""
    except _RefusedError as error:
        return None, str(error)


class _RefusedError(Exception):
    """The official library does not read the bytes; the text is its reason, shortened."""


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn the library's errors, and its panics on some damaged bytes, into one exception."""
    import databento_dbn

    try:
        yield
    except BaseException as error:
        # a panic is a BaseException whose class cannot be imported
        if not isinstance(error, databento_dbn.DBNError) and type(error).__name__ != "PanicException":
            raise
        raise _RefusedError(" ".join(str(error).split())[:SHOWN_REASON]) from error


def _header_length(head: bytes) -> int:
    low, high = len(MAGIC), len(head)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _decode(head[:middle])[0] is not None else (middle, high)
    return high


def header_listings(path: Path, metadata: "Metadata") -> list[Listing]:
    """Symbol mappings of the header; an unresolved one (empty target) lists nothing.

    Raises:
        InputError: an instrument id is no number, or a date is none.
    """
    forward = str(metadata.stype_out) == "instrument_id"
    if not forward and str(metadata.stype_in) != "instrument_id":
        return []
    return [
        Listing(
            symbol=key if forward else entry["symbol"],
            instrument_id=_instrument_id(path, entry["symbol"] if forward else key),
            start_ns=_midnight_ns(entry["start_date"]),
            end_ns=_midnight_ns(entry["end_date"]),
        )
        for key, entries in _mappings(path, metadata).items()
        for entry in entries
        if entry["symbol"]
    ]


def _mappings(path: Path, metadata: "Metadata") -> Mapping[str, Any]:
    """The library keeps dates as numbers, and makes dates of them only now."""
    try:
        return metadata.mappings
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{path} has symbol mappings in its header that cannot be read ({error}): the file is damaged, fetch it "
            "again"
        ) from error


def _instrument_id(path: Path, text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_INSTRUMENT_ID:
        raise InputError(
            f"{path} maps a symbol to the instrument id {text!r} in its header, must be a whole number up to "
            f"{MAX_INSTRUMENT_ID}: the file is damaged, fetch it again"
        )
    return int(text)


def _midnight_ns(day: date) -> int:
    """Nanoseconds since 1970, within the format's range of times."""
    seconds = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    return min(max(seconds * 10**9, 0), NEVER)


def body_listings(path: Path, raw: bytes, metadata: "Metadata") -> list[Listing]:
    """Listings of a live stream's mapping record: the symbol asked for and the one it stands for.

    Raises:
        InputError: the record is not one that the official library reads.
    """
    import databento_dbn

    try:
        with _refusals():
            decoder = databento_dbn.DBNDecoder(
                has_metadata=False, ts_out=metadata.ts_out, input_version=metadata.version
            )
            decoder.write(raw)
            return [listing for message in decoder.decode() for listing in _mapping_listings(message)]
    except _RefusedError as error:
        raise InputError(
            f"{path} has a symbol-mapping record that cannot be read ({error}): the file is damaged, fetch it again"
        ) from error


def _mapping_listings(message: Any) -> list[Listing]:
    start = 0 if message.start_ts == UNDEF_TIMESTAMP else message.start_ts
    end = NEVER if message.end_ts == UNDEF_TIMESTAMP else message.end_ts
    symbols = dict.fromkeys((message.stype_in_symbol, message.stype_out_symbol))
    return [
        Listing(symbol=symbol, instrument_id=message.instrument_id, start_ns=start, end_ns=end)
        for symbol in symbols
        if symbol and not symbol.isdigit()
    ]
