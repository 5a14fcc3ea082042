"""Lines of a text file, plain or compressed, one at a time and each of bounded length."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.stream import ByteStream

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE = 1 << 24
BUFFER = 1 << 20


class _Text:
    """A text file being read; one that is cut gives its whole lines.

    Attributes:
        truncated: whether the compressed data end early, or the last line has no end (known at the end).
        trailing_bytes: length of that last line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.truncated = False
        self.trailing_bytes = 0
        self._file, self._stream = _opened(path)

    def close(self) -> None:
        """Release the file."""
        self._file.close()
        if self._stream is not None:
            self._stream.close()


class Lines(_Text):
    """Numbered lines without their ends, from 1."""

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := self._next():
            number += 1
            if line.endswith(b"\n"):
                yield number, line[:-1]
            elif len(line) >= MAX_LINE:
                raise InputError(
                    f"{self._path} has a line {number} of more than {MAX_LINE} bytes: it is no log of messages"
                )
            else:
                self.truncated, self.trailing_bytes = True, len(line)
                return
        self.truncated |= self._stream is not None and self._stream.truncated

    def _next(self) -> bytes:
        try:
            return self._file.readline(MAX_LINE)
        except EOFError:
            self.truncated = True
            return b""
        except (OSError, zlib.error) as error:
            raise _damaged(self._path, error) from error


class LineBlocks(_Text):
    """Whole lines, many at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._bytes = b""
        self._ends = np.empty(0, np.int64)
        self._over = False

    def held(self) -> int:
        """Whole lines that `take` can give; reads on when it has none, so that 0 is the end.

        Raises:
            InputError: the data are damaged, or a line is too long.
        """
        while not len(self._ends) and not self._over:
            more = self._read()
            if not more:
                self._over, self.trailing_bytes = True, len(self._bytes)
                self.truncated |= bool(self._bytes) or (self._stream is not None and self._stream.truncated)
            self._bytes += more
            self._ends = np.flatnonzero(np.frombuffer(self._bytes, np.uint8) == ord("\n")) + 1
            if len(self._bytes) > MAX_LINE and not len(self._ends):
                raise InputError(f"{self._path} has a line of more than {MAX_LINE} bytes: it is no table")
        return len(self._ends)

    def take(self, count: int) -> bytes:
        """The next lines with their ends, at most as many as are held."""
        end = int(self._ends[count - 1])
        taken, self._bytes = self._bytes[:end], self._bytes[end:]
        self._ends = self._ends[count:] - end
        return taken

    def _read(self) -> bytes:
        """About as many bytes as the buffer has, fewer at the end, none behind it."""
        parts, size = [], 0
        try:
            while size < BUFFER and (part := self._file.read1(BUFFER)):
                parts.append(part)
                size += len(part)
        except EOFError:
            self.truncated = True
        except (OSError, zlib.error) as error:
            raise _damaged(self._path, error) from error
        return b"".join(parts)


def _opened(path: Path) -> tuple[io.BufferedIOBase, ByteStream | None]:
    """The text's bytes, and the stream below them unless it is gzip's."""
    if _is_gzip(path):
        return gzip.open(path, "rb"), None
    stream = ByteStream(path)
    return io.BufferedReader(_Readable(stream), BUFFER), stream


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} is damaged ({error}): fetch the file again")


class _Readable(io.RawIOBase):
    """A byte stream as the standard library wants one."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        return self._stream.fill(memoryview(target))


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == GZIP_MAGIC
    except OSError as error:
        raise InputError(
            f"{path} cannot be opened ({error}): check that it exists and may be read"
        ) from error
