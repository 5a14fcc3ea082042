"""The two tables a day becomes: their schemas, their files, and how these appear together or not at all."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alpha_core.durable import sync
from alpha_core.errors import InputError
from alpha_core.shapes import LEVELS

if TYPE_CHECKING:
    import polars as pl

SLICE_ROWS = 1 << 17
FLUSH_BYTES = 1 << 25
"""Bytes of a table after which the disk is told to begin."""

SNAPSHOTS = "snapshots.arrow"
TRADES = "trades.arrow"
REPORT = "ingest_report.json"

TIME = pa.timestamp("ns", tz="UTC")
LETTER = pa.dictionary(pa.int8(), pa.string())


def _level_fields(prefix: str, kind: pa.DataType) -> list[pa.Field]:
    return [pa.field(f"{prefix}_{level:02d}", kind) for level in range(LEVELS)]


SNAPSHOT_SCHEMA = pa.schema(
    [
        pa.field("ts_event", TIME),
        pa.field("ts_recv", TIME),
        pa.field("sequence", pa.uint32()),
        pa.field("instrument_id", pa.uint32()),
        pa.field("action", LETTER),
        pa.field("side", LETTER),
        pa.field("price", pa.int64()),
        pa.field("size", pa.uint32()),
        *_level_fields("bid_px", pa.int64()),
        *_level_fields("ask_px", pa.int64()),
        *_level_fields("bid_sz", pa.uint32()),
        *_level_fields("ask_sz", pa.uint32()),
        *_level_fields("bid_ct", pa.uint32()),
        *_level_fields("ask_ct", pa.uint32()),
        pa.field("flags", pa.uint8()),
        pa.field("book_state", pa.uint8()),
        pa.field("segment", pa.int32()),
    ]
)
"""One row per event end; prices in ticks, null where the book has no such level."""

TRADE_SCHEMA = pa.schema(
    [
        pa.field("ts_event", TIME),
        pa.field("ts_recv", TIME),
        pa.field("price", pa.int64()),
        pa.field("size", pa.uint32()),
        pa.field("aggressor", pa.int8()),
        pa.field("bid_px", pa.int64()),
        pa.field("ask_px", pa.int64()),
        pa.field("sequence", pa.uint32()),
        pa.field("snapshot_row", pa.int64()),
    ]
)
"""One row per trade; `bid_px`, `ask_px` are the touch before it, `snapshot_row` is its event's row."""


def open_table(path: Path) -> pa.Table:
    """A table of this module, memory-mapped: columns are read from the file when they are used.

    Raises:
        InputError: the file is absent or no Arrow file.
    """
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} is not a readable Arrow file ({error}): ingest the day again") from error


def read_slices(
    path: Path, rows: int = SLICE_ROWS, *, columns: Sequence[str] = ()
) -> "Iterator[pl.DataFrame]":
    """The rows of a table of this module in order, about `rows` at a time and never all of them.

    The file is read rather than mapped: pages of a map count as memory of the process until its end.

    Args:
        path: the file.
        rows: least number of rows of a slice but the last; batches of the file are not divided.
        columns: what is read of it, all when empty.

    Raises:
        InputError: the file is absent, no Arrow file, or lacks a column.
    """
    import polars as pl

    waiting: list[pa.RecordBatch] = []
    try:
        with pa.OSFile(str(path), "rb") as source:
            reader = _reader(source, columns)
            for index in range(reader.num_record_batches):
                waiting.append(reader.get_batch(index))
                if sum(batch.num_rows for batch in waiting) >= rows:
                    yield pl.DataFrame(pl.from_arrow(waiting))
                    waiting = []
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} is not a readable Arrow file ({error}): ingest the day again") from error
    if waiting:
        yield pl.DataFrame(pl.from_arrow(waiting))


def _reader(source: pa.NativeFile, columns: Sequence[str]) -> pa.RecordBatchFileReader:
    if not columns:
        return pa.ipc.open_file(source)
    schema = pa.ipc.open_file(source).schema
    wanted = [schema.names.index(schema.field(name).name) for name in columns]
    return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted))


class DayWriter:
    """Writes a day's files under temporary names beside their targets and publishes them together.

    A thread writes batches while the caller makes the next, and another one lets the disk begin with what was
    written, so that little is left to wait for at the end. The report is removed before the first table is replaced
    and comes back last, so that a folder with a report is a whole day, whenever the process dies.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._created = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
        self._temporary = {name: out / f".{name}.{os.getpid()}.tmp" for name in (SNAPSHOTS, TRADES, REPORT)}
        self._writing, self._flushing = _Background("ingest-write"), _Background("ingest-flush")
        self._unflushed = 0
        self._files: dict[str, pa.NativeFile] = {}
        self._writers: dict[str, pa.RecordBatchFileWriter] = {}
        try:
            for name, schema in ((SNAPSHOTS, SNAPSHOT_SCHEMA), (TRADES, TRADE_SCHEMA)):
                self._files[name] = pa.OSFile(str(self._temporary[name]), "wb")
                self._writers[name] = pa.ipc.new_file(self._files[name], schema)
        except BaseException:
            self._discard()
            raise

    def __enter__(self) -> "DayWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def scratch(self, name: str) -> Path:
        """Path of a further temporary file, removed with the others."""
        return self._temporary.setdefault(name, self._out / f".{name}.{os.getpid()}.tmp")

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append rows to `snapshots.arrow` or `trades.arrow`.

        On return all batches but this one are written; its memory must hold until the next call.

        Raises:
            OSError: the batch before could not be written.
        """
        self._writing.wait()
        self._writing.start(self._writers[name].write_batch, batch)
        self._unflushed += batch.nbytes
        if self._unflushed >= FLUSH_BYTES and not self._flushing.busy:
            self._flushing.wait()
            self._flushing.start(sync, self._temporary[name])
            self._unflushed = 0

    def publish(self, report: Mapping[str, Any]) -> None:
        """Make everything durable under its final name; the report is the last to appear."""
        self._writing.wait()
        self._flushing.wait()
        for name, writer in self._writers.items():
            writer.close()
            self._files[name].close()
        self._temporary[REPORT].write_bytes(json.dumps(report, indent=2).encode())
        for name in (SNAPSHOTS, TRADES, REPORT):
            sync(self._temporary[name])
        (self._out / REPORT).unlink(missing_ok=True)
        for name in (SNAPSHOTS, TRADES, REPORT):
            self._temporary[name].replace(self._out / name)
        sync(self._out)

    def _discard(self) -> None:
        self._writing.close()
        self._flushing.close()
        for file in self._files.values():
            file.close()
        for path in self._temporary.values():
            path.unlink(missing_ok=True)
        if self._created and not any(self._out.iterdir()):
            self._out.rmdir()


class _Background:
    """A thread that does one thing at a time."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._doing: Future[object] | None = None

    @property
    def busy(self) -> bool:
        return self._doing is not None and not self._doing.done()

    def start(self, work: Callable[..., object], *arguments: object) -> None:
        self._doing = self._thread.submit(work, *arguments)

    def wait(self) -> None:
        """Until it is done; raises what was raised there."""
        if self._doing is not None:
            self._doing.result()

    def close(self) -> None:
        self._thread.shutdown()
