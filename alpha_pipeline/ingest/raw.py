"""The interface of a source of raw files: what its names say, and how its records are read."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

import numpy as np

from alpha_pipeline.ingest.symbology import Listing
from alpha_pipeline.instrument import InstrumentSpec


@dataclass(frozen=True, kw_only=True)
class FileName:
    """What a name says of a file.

    Attributes:
        day: UTC date 'YYYY-MM-DD' of the data; as the name writes it when that is no date of the calendar.
        until: last date when the file spans several days, else None.
        symbol: the symbol in the name, None when only the content tells it.
        usable: False when the name itself says that the content is of a kind which is not ingested.
        orders: whether the name says that the content is single orders, from which books must be built.
        goes_on: whether the content may only be understood after that of the day before.
    """

    day: str
    until: str | None
    symbol: str | None
    usable: bool
    orders: bool = False
    goes_on: bool = False


def iso_day(text: str) -> str:
    """A name's date as 'YYYY-MM-DD'; the text itself when the calendar has no such date."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return text


class RawFile(Protocol):
    """A file being read, front to back, once."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def version(self) -> int:
        """Version of its format."""
        ...

    @property
    def schema(self) -> str:
        """What its books come from: "mbp-10", "mbo", ...; files of different schemas repeat one another."""
        ...

    @property
    def requested(self) -> list[str]:
        """Symbols that the file was asked for, resolved or not."""
        ...

    @property
    def listings(self) -> list[Listing]:
        """Symbols and ids known so far."""
        ...

    @property
    def records_read(self) -> int:
        """Records met so far, of all types."""
        ...

    @property
    def skipped_by_type(self) -> Mapping[str, int]:
        """Records met so far that gave no MBP-10 record, by type."""
        ...

    @property
    def trailing_bytes(self) -> int:
        """Bytes after the last whole record, known at the end."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether the file was cut, known at the end."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """What else the source counted so far, by name: events that records or rows do not tell."""
        ...

    def chunks(self, chunk_records: int) -> Iterator[np.ndarray]:
        """Records in file order, [n] MBP10_DTYPE; a chunk holds while the next is made, not longer."""
        ...


class Source(Protocol):
    """One format of raw files."""

    def recognises(self, name: str) -> bool:
        """Whether a file of this name is read by this source, whatever its day."""
        ...

    def parse(self, name: str) -> FileName | None:
        """What a file's name says, None when it is no file of this source with a day in its name."""
        ...

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Whether the content, where the name does not tell, may be the instrument's."""
        ...

    def stands_alone(self, path: Path) -> bool:
        """Whether the beginning of a file that may go on from an earlier one shows that it does not."""
        ...

    def open(
        self, path: Path, spec: InstrumentSpec, beside: Sequence[Path] = ()
    ) -> AbstractContextManager[RawFile]:
        """Begin to read a file for an instrument; `beside` are all files of the day.

        Raises:
            InputError: it is not what its name claims.
        """
        ...


Chunks = Generator[np.ndarray]
"""Records in the order of their files, [n] MBP10_DTYPE each."""
