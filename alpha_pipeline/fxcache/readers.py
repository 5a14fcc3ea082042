"""Opens cache files of every version: memory-mapped, without copying, checked as far as asked."""

import mmap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alpha_core.errors import ConfigError, DataError, InputError
from alpha_core.shapes import LEVELS
from alpha_pipeline.features.columns import COLUMNS, LABELS
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache import legacy
from alpha_pipeline.fxcache.format import Header, damaged

Verify = Literal["none", "fast", "full"]
VERIFY: tuple[Verify, ...] = ("none", "fast", "full")
View = Callable[[pa.RecordBatch, Header], legacy.DayView]


@dataclass(frozen=True, kw_only=True)
class CacheInfo:
    """A cache file in short, for people and metadata.

    Attributes:
        path: the file.
        version: format version of the file.
        size_bytes: length of the file.
        header: see `Header`.
        degraded: what an old version lacks and how it was filled in; empty for the current version.
    """

    path: Path
    version: int
    size_bytes: int
    header: Header
    degraded: tuple[str, ...] = ()

    @property
    def day(self) -> str:
        return self.header.day

    @property
    def rows(self) -> int:
        return self.header.rows

    @property
    def status(self) -> str:
        return self.header.status

    @property
    def stamp(self) -> dict[str, Any]:
        """What the file was made from, comparable with `stamp.required_stamp`."""
        return {
            "format_version": self.version,
            "builder_digest": self.header.builder_digest,
            "source_digests": dict(sorted(self.header.source_digests.items())),
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain types."""
        return {
            "path": str(self.path),
            "version": self.version,
            "size_bytes": self.size_bytes,
            "degraded": list(self.degraded),
            **asdict(self.header),
        }


class CachedDay:
    """One day of decision points. Arrays are read-only views of the mapped file unless said otherwise.

    R rows. Prices in ticks, mids in half ticks, times in integer nanoseconds since the epoch (UTC).
    """

    def __init__(self, info: CacheInfo, view: legacy.DayView, mapped: mmap.mmap) -> None:
        self.info = info
        self._view = view
        self._mapped = mapped

    def release(self) -> None:
        """Stop counting the pages read so far as memory of this process; what is read again comes back.

        For whoever walks through a day that need not fit into memory. Every array stays valid.
        """
        _release(self._mapped)

    @property
    def rows(self) -> int:
        return self.info.rows

    @property
    def day(self) -> str:
        return self.info.day

    @property
    def stamp(self) -> dict[str, Any]:
        return self.info.stamp

    @property
    def degraded(self) -> bool:
        """Whether an old format version made the reader fill in what it lacks (`info.degraded` says what)."""
        return bool(self.info.degraded)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self._view.feature_names

    @property
    def mapped_range(self) -> tuple[int, int]:
        """First address of the map and its length in bytes."""
        return pa.py_buffer(self._mapped).address, len(self._mapped)

    @property
    def ts(self) -> NDArray[np.int64]:
        """[R] int64, receive time in ns."""
        return self._view.columns["ts"]

    @property
    def ts_event(self) -> NDArray[np.int64]:
        """[R] int64, exchange time in ns."""
        return self._view.columns["ts_event"]

    @property
    def segment(self) -> NDArray[np.int32]:
        """[R] int32."""
        return self._view.columns["segment"]

    @property
    def event_index(self) -> NDArray[np.int64]:
        """[R] int64, index among the day's good snapshots, in which horizons are counted."""
        return self._view.columns["event_index"]

    @property
    def features(self) -> NDArray[np.float32]:
        """[R, 40] float32, unnormalised."""
        return self._view.columns["features"]

    @property
    def mid2(self) -> NDArray[np.int32]:
        """[R] int32 half ticks."""
        return self._view.columns["mid2"]

    @property
    def mid_open(self) -> NDArray[np.int32]:
        """[R] int32 half ticks, mid at the previous row; a segment's first row has its own."""
        return self._view.columns["mid_open"]

    @property
    def duration_ns(self) -> NDArray[np.int64]:
        """[R] int64, time since the previous row; 0 on a segment's first."""
        return self._view.columns["duration_ns"]

    @property
    def book(self) -> NDArray[np.int32]:
        """[R, 10, 4] int32: bid price, ask price, bid size, ask size. DataError in versions without it."""
        return self._block("book").reshape(self.rows, LEVELS, 4)

    @property
    def tape(self) -> NDArray[np.int32]:
        """[R, 22] int32, see `alpha_core.market.data.TAPE_WIDTH`. DataError in versions without it."""
        return self._block("tape")

    @property
    def last_trade(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Last trade price [R] int32 of the segment so far, and [R] bool whether there is one (copy)."""
        return self._view.columns["last_trade"], self._view.present("last_trade")

    @property
    def raw_open(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """First trade price [R] int32 since the previous row, and [R] bool whether there is one (copy)."""
        return self._view.columns["raw_open"], self._view.present("raw_open")

    @property
    def high(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Highest trade price [R] int32 since the previous row, and [R] bool whether there is one (copy)."""
        return self._block("high"), self._view.present("high")

    @property
    def low(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Lowest trade price [R] int32 since the previous row, and [R] bool whether there is one (copy)."""
        return self._block("low"), self._view.present("low")

    @property
    def volume(self) -> NDArray[np.int64]:
        """[R] int64 lots traded since the previous row."""
        return self._block("volume")

    @property
    def notional(self) -> NDArray[np.int64]:
        """[R] int64, sum of price in ticks times lots since the previous row; over `volume` it is the VWAP."""
        return self._block("notional")

    @property
    def vwap(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Volume-weighted price [R] float64 ticks since the previous row, and [R] bool whether there is one.

        Computed; 0 where nothing was traded.
        """
        traded = self.volume > 0
        return self.notional / np.where(traded, self.volume, 1), traded

    @property
    def trades(self) -> NDArray[np.int32]:
        """[R] int32, number of trades since the previous row."""
        return self._block("trades")

    @property
    def signed_volume(self) -> NDArray[np.int64]:
        """[R] int64, lots bought minus lots sold by aggressors since the previous row."""
        return self._block("signed_volume")

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """[R, 5] int32, change of the mid in half ticks, 0 where not valid. A copy of five columns."""
        return np.stack([self._view.columns[name] for name in LABELS], axis=1)

    @cached_property
    def label_valid(self) -> NDArray[np.bool_]:
        """[R, 5] bool, whether the horizon ends inside the segment. A copy, unpacked from bits."""
        return np.stack([self._view.present(name) for name in LABELS], axis=1)

    @cached_property
    def first(self) -> NDArray[np.bool_]:
        """[R] bool, whether a row opens its segment. Computed."""
        first = np.ones(self.rows, np.bool_)
        first[1:] = self.segment[1:] != self.segment[:-1]
        return first

    @cached_property
    def warm(self) -> NDArray[np.bool_]:
        """[R] bool, whether the row is old enough in its segment for its EMAs, by `warmup_rows`. Computed."""
        index = np.arange(self.rows)
        opened = np.maximum.accumulate(np.where(self.first, index, 0))
        return index - opened >= self.info.header.config.get("warmup_rows", 0)

    def _block(self, name: str) -> NDArray[Any]:
        if name not in self._view.columns:
            raise DataError(
                f"{self.info.path} is fxcache version {self.info.version}, which has no {name}; "
                f"rebuild the day with `alpha run`"
            )
        return self._view.columns[name]


def view_v4(batch: pa.RecordBatch, header: Header) -> legacy.DayView:
    """The current version: every column as it lies in the file."""
    return legacy.DayView(
        columns={n: layout.decode_column(c) for n, c in zip(batch.schema.names, batch.columns, strict=True)},
        nullable={column.name: batch.column(column.name) for column in COLUMNS if column.present},
        feature_names=header.feature_names,
    )


READERS: dict[int, View] = {1: legacy.view_v1, 2: legacy.view_v2, 3: legacy.view_v3, 4: view_v4}
"""By format version. A new version that changes no column needs no view of its own: see `_view_of`."""


def open_day(path: Path, verify: Verify = "fast") -> CachedDay:
    """Maps a cache file.

    Args:
        path: the file.
        verify: "none" trusts everything behind the header; "fast" also compares columns, row count and
            buffer sizes; "full" also compares the checksum of every buffer, which reads the whole file.

    Raises:
        InputError: the file is missing, damaged, no cache file, or newer than this code.
    """
    path = Path(path)
    if verify not in VERIFY:
        raise ConfigError(f"verify was {verify!r}, must be one of {', '.join(VERIFY)}")
    mapped, reader = _map(path)
    version, header = _header(path, reader.schema)
    try:
        batch = _only_batch(reader)
        if verify != "none":
            _verify_fast(batch, header, version)
        if verify == "full":
            _verify_full(batch, header, mapped)
        view = _view_of(version)(batch, header)
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        raise damaged(path, error) from error
    info = CacheInfo(
        path=path, version=version, size_bytes=len(mapped), header=header, degraded=view.degraded
    )
    return CachedDay(info, view, mapped)


def _view_of(version: int) -> View:
    """The view of a version; the version in force is read by the newest view, so that a bump alone works."""
    newest = READERS[max(READERS)]
    return READERS.get(version, newest) if version == layout.FXCACHE_VERSION else READERS[version]


def read_info(path: Path) -> CacheInfo:
    """What a file says of itself, without its data. Raises InputError as `open_day`."""
    mapped, reader = _map(path)
    version, header = _header(path, reader.schema)
    notes = () if version == layout.FXCACHE_VERSION else (f"format version {version}",)
    return CacheInfo(path=path, version=version, size_bytes=len(mapped), header=header, degraded=notes)


def read_header(path: Path) -> tuple[int, Header]:
    """Format version and header of a file, without its data. Raises InputError as `open_day`."""
    _, reader = _map(path)
    return _header(path, reader.schema)


def _map(path: Path) -> tuple[mmap.mmap, pa.RecordBatchFileReader]:
    if not path.is_file():
        raise InputError(f"{path} does not exist; run `alpha run`")
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return mapped, pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, error) from error


def _release(mapped: mmap.mmap) -> None:
    mapped.madvise(mmap.MADV_DONTNEED)


def _header(path: Path, schema: pa.Schema) -> tuple[int, Header]:
    metadata = schema.metadata or {}
    if metadata.get(b"format") != layout.FORMAT.encode():
        raise damaged(path, f"its format is {metadata.get(b'format')!r}, must be {layout.FORMAT!r}")
    try:
        version = int(metadata.get(b"version", b""))
        if version > layout.FXCACHE_VERSION:
            raise InputError(
                f"{path} is fxcache version {version}, this code reads up to {layout.FXCACHE_VERSION}; "
                "upgrade alpha-pipeline, or delete the file and run `alpha run`"
            )
        return version, Header.decode(metadata)
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from error


def _only_batch(reader: pa.RecordBatchFileReader) -> pa.RecordBatch:
    if reader.num_record_batches != 1:
        raise ValueError(f"it holds {reader.num_record_batches} record batches, must hold 1")
    return reader.get_batch(0)


def _verify_fast(batch: pa.RecordBatch, header: Header, version: int) -> None:
    if version == layout.FXCACHE_VERSION and not batch.schema.equals(layout.schema()):
        raise ValueError("its columns are not those of its version")
    if batch.num_rows != header.rows:
        raise ValueError(f"it holds {batch.num_rows} rows, its header says {header.rows}")
    batch.validate()
    names = {name for name, _ in layout.buffers(batch)}
    if names != set(header.checksums):
        raise ValueError(f"buffers {sorted(names ^ set(header.checksums))} are not where the header says")


def _verify_full(batch: pa.RecordBatch, header: Header, mapped: mmap.mmap) -> None:
    found = layout.checksums(batch, lambda: _release(mapped))
    wrong = [name for name, value in header.checksums.items() if found.get(name) != value]
    if wrong:
        raise ValueError(f"the checksums of {', '.join(wrong)} do not match")
