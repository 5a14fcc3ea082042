"""The body of a DBN file: a sequence of records that state their own type and length.

As long as all of them are of the kind that is read, a chunk is one view of the buffer; where other types lie
between, the lengths are walked and the wanted records gathered. Other types are counted, nothing else is
skipped here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.ingest.records import (
    ADMINISTRATIVE_RTYPES,
    HEADER_BYTES,
    LENGTH_UNIT,
    RTYPE_NAMES,
    RTYPE_SYMBOL_MAPPING,
    TS_OUT_BYTES,
)


@dataclass(frozen=True, kw_only=True)
class RecordKind:
    """The records of one schema.

    Attributes:
        schema: the format's name of the schema.
        rtype: type in the record's header.
        dtype: layout of one record, without the send time that live streams append.
    """

    schema: str
    rtype: int
    dtype: np.dtype

    @property
    def lengths(self) -> tuple[int, int]:
        """Bytes of a record, without and with the send time."""
        return self.dtype.itemsize, self.dtype.itemsize + TS_OUT_BYTES


class RecordWalk:
    """Finds the records of one kind in consecutive pieces of a file's body.

    Attributes:
        kind: what is looked for; None until a record of one of the kinds was met, when there are several.
        position: offset in the decompressed stream of the first byte not yet walked.
        read: records met so far, of all types.
        skipped: records of other types met so far, by name.
        mappings: bytes of the symbol-mapping records met so far.
    """

    def __init__(self, path: Path, kinds: Sequence[RecordKind], position: int) -> None:
        self.kind = kinds[0] if len(kinds) == 1 else None
        self.position = position
        self.read = 0
        self.skipped: Counter[str] = Counter()
        self.mappings: list[bytes] = []
        self._path = path
        self._kinds = kinds

    def records(self, data: np.ndarray) -> tuple[np.ndarray, int]:
        """Records of the kind at the start of `data` and the bytes that all whole records there take.

        There is none as long as the kind is not known.

        Args:
            data: [n] uint8, beginning at `position`.

        Raises:
            InputError: the bytes are no sequence of records.
        """
        uniform = None if self.kind is None else _uniform(data, self.kind)
        if uniform is None:
            starts, used = self._walk(data)
            records = data[:0] if self.kind is None else _gather(data, starts, self.kind.dtype)
        else:
            self.read += len(uniform)
            records, used = uniform, len(uniform) * uniform.strides[0]
        self.position += used
        return records, used

    def refuse_other_schema(self) -> None:
        """Raise the error for a body of market data none of which is of the kind; to be asked at the end."""
        skipped = self.skipped.total()
        administrative = {RTYPE_NAMES[rtype] for rtype in ADMINISTRATIVE_RTYPES}
        others = sorted(set(self.skipped) - administrative)
        if others and skipped == self.read:
            wanted = " or ".join(kind.schema for kind in self._kinds)
            raise InputError(
                f"{self._path} holds {skipped} records of {', '.join(others)} and none of {wanted}: "
                f"give a file of schema {wanted}"
            )

    def _walk(self, data: np.ndarray) -> tuple[list[int], int]:
        """Offsets of the wanted records among others, and the bytes that the whole records take."""
        raw = data.tobytes()
        starts, at, size = [], 0, len(raw)
        while at + HEADER_BYTES <= size:
            length, rtype = raw[at] * LENGTH_UNIT, raw[at + 1]
            kind = self.kind or self._settle(rtype)
            if kind is None or rtype != kind.rtype or length != kind.dtype.itemsize:
                self._check(length, rtype, at)
            if at + length > size:
                break
            if kind is not None and rtype == kind.rtype:
                starts.append(at)
            else:
                self._skip(rtype, raw[at : at + length])
            self.read += 1
            at += length
        return starts, at

    def _settle(self, rtype: int) -> RecordKind | None:
        self.kind = next((kind for kind in self._kinds if kind.rtype == rtype), None)
        return self.kind

    def _check(self, length: int, rtype: int, at: int) -> None:
        if length < HEADER_BYTES:
            reason = f"a record of {length} bytes, shorter than its own header of {HEADER_BYTES}"
        elif rtype not in RTYPE_NAMES:
            reason = f"a record of the unknown type 0x{rtype:02x}"
        elif self.kind is not None and rtype == self.kind.rtype and length not in self.kind.lengths:
            name = self.kind.schema.upper()
            reason = f"an {name} record of {length} bytes instead of {self.kind.dtype.itemsize}"
        else:
            return
        raise InputError(
            f"{self._path} has at byte {self.position + at} of the decompressed stream {reason}: "
            "the file is damaged, fetch it again"
        )

    def _skip(self, rtype: int, raw: bytes) -> None:
        self.skipped[RTYPE_NAMES[rtype]] += 1
        if rtype == RTYPE_SYMBOL_MAPPING:
            self.mappings.append(raw)


def _uniform(data: np.ndarray, kind: RecordKind) -> np.ndarray | None:
    """View of the whole records of `data` when all of them are of the kind and one length, else None."""
    if len(data) < kind.dtype.itemsize or data[1] != kind.rtype:
        return None
    stride = int(data[0]) * LENGTH_UNIT
    if stride not in kind.lengths:
        return None
    records = np.ndarray((len(data) // stride,), kind.dtype, data, strides=(stride,))
    # length and type are the first two bytes: one comparison for both
    starts = np.ndarray((len(records),), np.uint16, data, strides=(stride,))
    return records if len(records) and (starts == starts[0]).all() else None


def _gather(data: np.ndarray, starts: list[int], dtype: np.dtype) -> np.ndarray:
    """Copy the records that begin at `starts` into one contiguous array."""
    rows = np.lib.stride_tricks.sliding_window_view(data, dtype.itemsize)[starts] if starts else data[:0]
    return np.ascontiguousarray(rows).reshape(-1).view(dtype)
