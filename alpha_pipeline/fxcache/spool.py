"""Columns on their way into a cache file, on disk instead of in memory.

An Arrow record batch lays each column down as one piece, while a day comes in blocks of rows. So every column
has a file of its own until the day ends. These files have no name (nothing is left of them after a crash), are
mapped but never read through the map, and reach the cache file by a copy inside the kernel.
"""

import errno
import hashlib
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alpha_pipeline.features.columns import COLUMNS, PRESENCES, Column
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache.writer import unwritable

_NO_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
"""What file systems say that cannot copy inside the kernel."""


class _Part:
    """One buffer of the batch to come: an unnamed file, its digest and its map."""

    def __init__(self, target: Path) -> None:
        # unbuffered, so that a full disk is met by the write that fills it and not while closing
        self.file: FileIO = tempfile.TemporaryFile(  # noqa: SIM115  closed by the spool
            buffering=0, dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"
        )
        self.size = 0
        self._digest = hashlib.blake2b(digest_size=layout.DIGEST_BYTES)
        self._map: mmap.mmap | None = None

    def write(self, values: NDArray[Any]) -> None:
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        self._digest.update(data)
        self.size += len(data)
        while data:
            data = data[self.file.write(data) :]

    @property
    def checksum(self) -> str:
        return self._digest.hexdigest()

    def buffer(self) -> pa.Buffer:
        """The whole file as memory."""
        if not self.size:
            return pa.py_buffer(b"")
        self._map = mmap.mmap(self.file.fileno(), self.size, access=mmap.ACCESS_READ)
        return pa.py_buffer(self._map)


class _Bits:
    """Presence of a column's values: one bit a row in a part, and the number of absent ones."""

    def __init__(self, target: Path) -> None:
        self.part = _Part(target)
        self.absent = 0
        self._rest = np.empty(0, np.bool_)

    def write(self, present: NDArray[np.bool_]) -> None:
        self.absent += len(present) - int(np.count_nonzero(present))
        waiting = np.concatenate([self._rest, present])
        whole = len(waiting) // 8 * 8
        self.part.write(np.packbits(waiting[:whole], bitorder="little"))
        self._rest = waiting[whole:]

    def finish(self) -> None:
        """Write the last, incomplete byte."""
        self.part.write(np.packbits(self._rest, bitorder="little"))
        self._rest = self._rest[:0]


class ColumnSpool:
    """Takes a day's columns block by block and gives them back as Arrow columns over the spooled files."""

    def __init__(self, target: Path) -> None:
        """`target` is the cache file to come; its columns are spooled on the same file system.

        Raises:
            AlphaError: its folder cannot be written.
        """
        self._target = target
        self._kinds = {column.name: np.dtype(column.kind) for column in COLUMNS}
        with self._writing():
            self._data = {name: _Part(target) for name in self._kinds}
            self._bits = {name: _Bits(target) for name in PRESENCES}
        self._files: dict[int, _Part] = {}

    def __enter__(self) -> "ColumnSpool":
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts():
            part.file.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self._target, error) from error

    def _parts(self) -> list[_Part]:
        return [*self._data.values(), *(bits.part for bits in self._bits.values())]

    def append(self, name: str, values: NDArray[Any]) -> None:
        """The next values of a column of `columns.COLUMNS`, or of one of `columns.PRESENCES`.

        Raises:
            AlphaError: the disk is full.
        """
        with self._writing():
            if name in self._bits:
                self._bits[name].write(values)
            else:
                self._data[name].write(values.astype(self._kinds[name], copy=False))

    def finish(self, rows: int) -> tuple[list[pa.Array], dict[str, str]]:
        """All columns in file order over the spooled bytes, and the checksum of each buffer by name.

        Raises:
            AlphaError: the disk is full.
        """
        checksums: dict[str, str] = {}
        with self._writing():
            for bits in self._bits.values():
                bits.finish()
            arrays = [self._array(column, rows, checksums) for column in COLUMNS]
        return arrays, checksums

    def _array(self, column: Column, rows: int, checksums: dict[str, str]) -> pa.Array:
        data = self._data[column.name]
        checksums[column.name] = data.checksum
        bits = self._bits[column.present] if column.present else None
        if bits is None or not bits.absent:
            return layout.column_over(column, rows, self._mapped(data), None, 0)
        checksums[f"{column.name}.present"] = bits.part.checksum
        return layout.column_over(column, rows, self._mapped(data), self._mapped(bits.part), bits.absent)

    def _mapped(self, part: _Part) -> pa.Buffer:
        buffer = part.buffer()
        if part.size:
            self._files[buffer.address] = part
        return buffer

    def splice(self, target: BinaryIO) -> "SplicedFile":
        """What Arrow is to write the batch to, instead of the target itself."""
        return SplicedFile(target, self._files)


class SplicedFile:
    """A file for Arrow's writer that recognises spooled buffers by their address and copies their files."""

    def __init__(self, target: BinaryIO, files: dict[int, _Part]) -> None:
        self._target = target
        self._files = files
        self.closed = False

    def write(self, data: pa.Buffer | bytes) -> int:
        """Write bytes, or the file that they are the map of."""
        buffer = pa.py_buffer(data)
        part = self._files.get(buffer.address)
        if part is None or part.size != buffer.size:
            return self._target.write(data)
        self._target.flush()
        _copy(part.file, self._target, part.size)
        return part.size

    def flush(self) -> None:
        """As of any file."""
        self._target.flush()

    def tell(self) -> int:
        """As of any file."""
        return self._target.tell()

    def close(self) -> None:
        """The target is its owner's to close."""
        self.closed = True


def _copy(source: FileIO, target: BinaryIO, size: int) -> None:
    """Append a whole file to another, inside the kernel as far as the file system does that."""
    done = 0
    try:
        while count := os.copy_file_range(source.fileno(), target.fileno(), size - done, offset_src=done):
            done += count
    except OSError as error:
        if error.errno not in _NO_COPY:
            raise
    target.seek(0, os.SEEK_END)
    source.seek(done)
    shutil.copyfileobj(source, target, 1 << 20)
