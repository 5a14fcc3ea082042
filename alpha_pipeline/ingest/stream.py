"""Bytes of a file as the format has them: plain, or any sequence of zstd frames (skippable ones included).

A stream that ends in the middle of a frame gives what was decompressed and says that it was cut; a frame that
is damaged is an error, and so is one that expands beyond all measure. Memory does not depend on the size of the
file or on its compression ratio.
"""

from pathlib import Path
from types import TracebackType

import pyarrow as pa

from alpha_core.errors import InputError

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
"""Bytes 1 to 3 of a skippable frame, whose byte 0 is 0x50 to 0x5f."""


FREE_BYTES = 1 << 26
RECOVERY_STEP = 1 << 20
MAX_RATIO = 1000
"""A stream of more than FREE_BYTES may be so many times as long as its file. Order books shrink ten- to fortyfold,
since every record has times and sizes of its own; what shrinks a thousandfold is one pattern repeated."""


class ByteStream:
    """Decompressed bytes of one file, read in order.

    Attributes:
        path: the file.
        offset: bytes of the decompressed stream handed out so far.
        truncated: whether the compressed data ended inside a frame (known once the end was reached).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.truncated = False
        try:
            self._file = pa.OSFile(str(path), "rb")
        except OSError as error:
            raise InputError(
                f"{path} cannot be opened ({error}): check that it exists and may be read"
            ) from error
        self._source = self._file
        if is_zstd(_first_bytes(path)):
            self._source = pa.CompressedInputStream(self._file, "zstd")

    def __enter__(self) -> "ByteStream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def fill(self, target: memoryview) -> int:
        """Read until `target` is full or the stream ends; returns the number of bytes written.

        Raises:
            InputError: the compressed data are damaged.
        """
        done = 0
        while done < len(target) and not self.truncated:
            try:
                count = self._source.readinto(target[done:])
            except OSError as error:
                self._judge(error)
                done += self._recover(target[done:], self.offset + done)
                break
            if not count:
                break
            done += count
        self.offset += done
        self._refuse_bomb()
        return done

    def _refuse_bomb(self) -> None:
        """A small file must not keep a machine busy for hours."""
        if self._source is self._file or self.offset <= FREE_BYTES:
            return
        if self.offset > MAX_RATIO * self._file.tell():
            raise InputError(
                f"{self.path} expands to more than {self.offset} bytes from {self._file.tell()}, must be at most "
                f"{MAX_RATIO} times as many: it repeats one pattern and is no market data, remove it"
            )

    def _recover(self, target: memoryview, skip: int) -> int:
        """The last bytes of a stream that was cut, which the library that found the cut keeps to itself."""
        import zstandard

        scratch = memoryview(bytearray(RECOVERY_STEP))
        done = 0
        try:
            with self.path.open("rb") as file:
                reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
                while skip and (count := reader.readinto(scratch[: min(skip, RECOVERY_STEP)])):
                    skip -= count
                while done < len(target) and (count := reader.readinto(target[done:])):
                    done += count
        except zstandard.ZstdError as error:  # a second decoder's window, too, takes memory
            raise InputError(
                f"{self.path} is cut near byte {self._file.tell()} and what lies before cannot be recovered: {error}; "
                "fetch the file again"
            ) from error
        return done

    def _judge(self, error: OSError) -> None:
        """Tell a stream that was cut (kept, reported) from one that is damaged (refused)."""
        if "Truncated" in str(error):
            self.truncated = True
            return
        raise InputError(
            f"{self.path} is damaged near byte {self._file.tell()} (after {self.offset} decompressed bytes): "
            f"{error}; fetch the file again"
        ) from error


def is_zstd(head: bytes) -> bool:
    """Whether the first four bytes start a zstd frame or a skippable frame."""
    return head[:4] == ZSTD_MAGIC or (len(head) >= 4 and head[1:4] == SKIPPABLE_MAGIC and head[0] >> 4 == 5)


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
