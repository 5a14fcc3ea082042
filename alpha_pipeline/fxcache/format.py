"""Layout of a cache file: one Arrow IPC record batch a day, uncompressed, with its whole provenance in the
schema.

The schema metadata holds four keys: `format`, `version`, `header` (JSON, see `Header`) and `header_checksum`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alpha_core.errors import ConfigError, InputError
from alpha_pipeline.features.columns import COLUMNS, Column

FORMAT = "alpha-pipeline/fxcache"
FXCACHE_VERSION = 4
"""1: mid, last trade, features without order flow. 2: order flow. 3: opens, durations, book, tape. 4: what else
a bar says (high, low, volume, notional, number of trades, signed volume)."""

TIMESTAMP = pa.timestamp("ns", tz="UTC")
TIMES = ("ts", "ts_event")
DIGEST_BYTES = 16
PIECE_BYTES = 1 << 24
REBUILD = "run `alpha cache verify --full` and `alpha build`"


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says about itself.

    Attributes:
        day: partition key, YYYY-MM-DD (UTC date of the raw file).
        instrument: name of the instrument.
        status: "ok", or "empty" when the day has no rows.
        rows: number of rows.
        feature_names: names of the columns of `features`.
        config: the FeatureConfig that made it, sampler included.
        source_digests: digest by source name.
        builder_digest: digest of code and config, `stamp.builder_digest`.
        counts: snapshots, good_snapshots, segments, trades, dropped_trades.
        ties: valid labels without change, by label column.
        null_labels: labels whose horizon leaves the segment, by label column.
        checksums: hex digest of each buffer.
    """

    day: str
    instrument: str
    status: str
    rows: int
    feature_names: tuple[str, ...]
    config: dict[str, Any] = field(default_factory=dict)
    source_digests: dict[str, str] = field(default_factory=dict)
    builder_digest: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    ties: dict[str, int] = field(default_factory=dict)
    null_labels: dict[str, int] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)

    def encode(self, version: int = FXCACHE_VERSION) -> dict[str, str]:
        """Schema metadata."""
        text = json.dumps(asdict(self), sort_keys=True)
        return {
            "format": FORMAT,
            "version": str(version),
            "header": text,
            "header_checksum": digest(text.encode()),
        }

    @staticmethod
    def decode(metadata: dict[bytes, bytes]) -> "Header":
        """Reads `encode`'s metadata back. Raises ValueError when it is damaged."""
        text = metadata.get(b"header", b"")
        if digest(text) != metadata.get(b"header_checksum", b"").decode():
            raise ValueError("its header does not match its checksum")
        stored = json.loads(text)
        stored["feature_names"] = tuple(stored["feature_names"])
        return Header(**{f.name: stored[f.name] for f in fields(Header) if f.name in stored})


def check_day(day: str) -> str:
    """The day key itself. Raises ConfigError unless it is YYYY-MM-DD, the only text to become a file name."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", day):
        raise ConfigError(f"day was {day!r}, must be a date written YYYY-MM-DD")
    return day


def digest(data: bytes | memoryview | pa.Buffer) -> str:
    """128-bit BLAKE2b, in hex."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def schema() -> pa.Schema:
    """Columns of the current version, in file order."""
    return pa.schema([pa.field(c.name, arrow_type(c), nullable=c.present is not None) for c in COLUMNS])


def arrow_type(column: Column) -> pa.DataType:
    """How a column lies in the file."""
    if column.name in TIMES:
        return TIMESTAMP
    value = pa.from_numpy_dtype(np.dtype(column.kind))
    return pa.list_(value, column.width) if column.width else value


def column_over(column: Column, rows: int, data: pa.Buffer, bits: pa.Buffer | None, nulls: int) -> pa.Array:
    """The Arrow column whose memory is `data`; nothing is read or copied.

    Args:
        column: which.
        rows: its length R.
        data: R values (R x width for a wide one) of the column's kind.
        bits: presence bitmap, None where no value is absent.
        nulls: number of absent values.
    """
    kind = arrow_type(column)
    if column.width:
        flat = pa.Array.from_buffers(kind.value_type, rows * column.width, [None, data], 0)
        return pa.FixedSizeListArray.from_arrays(flat, column.width)
    return pa.Array.from_buffers(kind, rows, [bits, data], nulls)


def decode_column(column: pa.Array) -> NDArray[Any]:
    """The values of a column as a read-only view [R] or [R, K] of its buffer; timestamps as int64 ns."""
    width = column.type.list_size if pa.types.is_fixed_size_list(column.type) else None
    flat = column.values if width else column
    kind = np.dtype(np.int64) if pa.types.is_timestamp(flat.type) else np.dtype(flat.type.to_pandas_dtype())
    count = len(column) * (width or 1)
    values = np.frombuffer(flat.buffers()[1], kind, count) if count else np.empty(0, kind)
    return values.reshape(len(column), width) if width else values


def decode_present(column: pa.Array) -> NDArray[np.bool_]:
    """[R] bool, which values are not null."""
    bits = column.buffers()[0]
    if bits is None or not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=len(column), bitorder="little").view(np.bool_)


def buffers(batch: pa.RecordBatch) -> Iterator[tuple[str, memoryview]]:
    """Name and bytes of every buffer that holds data, without padding."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        yield name, decode_column(column).reshape(-1).view(np.uint8).data
        if column.null_count:
            yield f"{name}.present", memoryview(column.buffers()[0])[: (len(column) + 7) // 8]


def checksums(batch: pa.RecordBatch, release: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Digest of each buffer by name; `release` is called now and then, when what was read is not needed again."""
    found = {}
    for name, data in buffers(batch):
        state = hashlib.blake2b(digest_size=DIGEST_BYTES)
        for start in range(0, len(data), PIECE_BYTES):
            state.update(data[start : start + PIECE_BYTES])
            release()
        found[name] = state.hexdigest()
    return found


def damaged(path: object, reason: object) -> InputError:
    """The error for a file that is not a whole, valid cache file."""
    return InputError(f"{path} is not a readable fxcache file: {reason}; {REBUILD}")
