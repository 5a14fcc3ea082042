"""Lines of a text file, plain or compressed, one at a time and each of bounded length."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from alpha_core.errors import InputError
from alpha_pipeline.ingest.stream import ByteStream

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE = 1 << 24
BUFFER = 1 << 20


class Lines:
    """Numbered lines without their ends, from 1; a file that is cut gives its whole lines.

    Attributes:
        truncated: whether the compressed data end early, or the last line has no end (known at the end).
        trailing_bytes: length of that last line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.truncated = False
        self.trailing_bytes = 0
        self._stream: ByteStream | None = None
        if _is_gzip(path):
            self._file: BinaryIO = gzip.open(path, "rb")  # type: ignore[assignment]  # noqa: SIM115
        else:
            self._stream = ByteStream(path)
            self._file = io.BufferedReader(_Readable(self._stream), BUFFER)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        self._file.close()
        if self._stream is not None:
            self._stream.close()

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
            raise InputError(f"{self._path} is damaged ({error}): fetch the file again") from error


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
