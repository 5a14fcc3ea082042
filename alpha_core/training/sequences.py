"""Rows in time order, and the two ways to walk them in parallel without losing state inside a segment."""

import hashlib
import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alpha_core.errors import DataError
from alpha_core.nn.inputs import misfits
from alpha_core.shapes import FEATURES, HORIZONS

CHUNK = 65_536
"""Rows that a pass over all features looks at together."""


@dataclass(frozen=True, kw_only=True)
class RowData(ABC):
    """Decision points of one or several days in time order, on the host, wherever their features lie.

    Attributes:
        seconds_since_previous: [N] float32, 0 on a segment's first row.
        labels: [N, 5] int32, change of the mid in half ticks over each horizon.
        valid: [N, 5] bool, False where the horizon leaves the segment.
        segment: [N] integer, equal on rows that follow one another without a break.
        feature_names: names of the columns, used in messages and by the baselines.
    """

    seconds_since_previous: Tensor
    labels: Tensor
    valid: Tensor
    segment: Tensor
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        N = self.rows
        wrong = self._wrong_features()
        for name, shape, dtypes in (
            ("seconds_since_previous", (N,), (torch.float32,)),
            ("labels", (N, len(HORIZONS)), (torch.int32, torch.int64)),
            ("valid", (N, len(HORIZONS)), (torch.bool,)),
            ("segment", (N,), (torch.int32, torch.int64)),
        ):
            value: Tensor = getattr(self, name)
            dtype = value.dtype if value.dtype in dtypes else dtypes[0]
            wrong += misfits(name, value, shape, dtype, torch.device("cpu"))
        if len(self.feature_names) not in (0, FEATURES):
            wrong.append(f"feature_names has {len(self.feature_names)} names, must be {FEATURES} or none")
        if wrong:
            raise DataError(f"sequence data: {'; '.join(wrong)}: build it from one cache")

    @property
    @abstractmethod
    def rows(self) -> int:
        """N."""

    @abstractmethod
    def _wrong_features(self) -> list[str]:
        """What is wrong with the features' shapes and types, one phrase each."""

    @abstractmethod
    def feature_parts(self, start: int, stop: int) -> Iterator[NDArray[np.float32]]:
        """The arrays [n, F] that rows [start, stop) consist of, in order, without copying."""

    @abstractmethod
    def take_features(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Copy the features of rows [n], in any order, to `out` [n, F]."""

    def feature_chunks(self) -> Iterator[tuple[int, Tensor]]:
        """First row and features [n, F] of all rows, CHUNK at a time: the same cuts wherever the features lie."""
        for start in range(0, self.rows, CHUNK):
            parts = list(self.feature_parts(start, min(start + CHUNK, self.rows)))
            yield start, torch.from_numpy(np.concatenate(parts))

    @property
    def mask(self) -> Tensor:
        """[N, 5] bool: the label exists and the mid moved. Ties have no direction to learn."""
        return self.valid & (self.labels != 0)

    def column_name(self, index: int) -> str:
        """Name of a feature, or its position when names were not given."""
        return self.feature_names[index] if self.feature_names else f"column {index}"

    def first_of_segment(self) -> Tensor:
        """[N] bool: rows that begin afresh."""
        first = torch.ones(self.rows, dtype=torch.bool)
        first[1:] = self.segment[1:] != self.segment[:-1]
        return first

    def digest(self) -> str:
        """SHA-256 of all that training reads, 64 hex digits; where the features lie does not count."""
        told = hashlib.sha256(repr((self.rows, self.feature_names)).encode())
        for _, features in self.feature_chunks():
            told.update(features.numpy().data)
        for name in ("seconds_since_previous", "labels", "valid", "segment"):
            value: Tensor = getattr(self, name)
            told.update(f"{value.dtype}".encode())
            told.update(value.contiguous().numpy().data)
        return told.hexdigest()

    def require_finite(self) -> None:
        """Raises DataError naming every feature that holds NaN or infinity, or an impossible duration."""
        problems = self._unreal_features()
        seconds = self.seconds_since_previous
        wrong = ~(torch.isfinite(seconds) & (seconds >= 0))
        if bool(wrong.any()):
            row = int(wrong.int().argmax())
            problems.append(f"seconds_since_previous was {seconds[row].item()} in row {row}, must be >= 0")
        if problems:
            raise DataError(
                f"sequence data must be finite: {'; '.join(problems)}: rebuild the cache of that day"
            )

    def _unreal_features(self) -> list[str]:
        """Each feature that holds NaN or infinity, with the first row and how many there are."""
        first: dict[int, tuple[float, int]] = {}
        count = torch.zeros(FEATURES, dtype=torch.int64)
        for start, features in self.feature_chunks():
            bad = ~torch.isfinite(features)
            count += bad.sum(0)
            for index in torch.nonzero(bad.any(0)).flatten().tolist():
                row = int(bad[:, index].int().argmax())
                first.setdefault(index, (features[row, index].item(), start + row))
        return [
            f"feature {self.column_name(index)} was {value} in row {row} ({int(count[index])} rows)"
            for index, (value, row) in sorted(first.items())
        ]


@dataclass(frozen=True, kw_only=True)
class SequenceData(RowData):
    """Decision points whose features lie in memory.

    Attributes:
        features: [N, 40] float32, raw.
    """

    features: Tensor

    def _wrong_features(self) -> list[str]:
        return misfits("features", self.features, (self.rows, FEATURES), torch.float32, torch.device("cpu"))

    @property
    def rows(self) -> int:
        return self.features.shape[0] if self.features.dim() else 0

    def feature_parts(self, start: int, stop: int) -> Iterator[NDArray[np.float32]]:
        """See RowData.feature_parts."""
        yield self.features[start:stop].numpy()

    def take_features(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """See RowData.take_features."""
        take_rows(self.features.numpy(), rows, out)

    def slice(self, start: int, stop: int) -> "SequenceData":
        """Rows [start, stop), sharing storage."""
        names = ("features", "seconds_since_previous", "labels", "valid", "segment")
        return replace(self, **{name: getattr(self, name)[start:stop] for name in names})


@dataclass(frozen=True, kw_only=True)
class MappedData(RowData):
    """Decision points whose features stay where they are, for instance in mapped files, one array a day.

    Attributes:
        features: arrays [n, 40] float32, which make up the N rows in order; never written to.
    """

    features: tuple[NDArray[np.float32], ...]

    def _wrong_features(self) -> list[str]:
        return [
            f"features of part {i} are {part.dtype} {list(part.shape)}, must be float32 [n, {FEATURES}]"
            for i, part in enumerate(self.features)
            if part.dtype != np.float32 or part.ndim != 2 or part.shape[1] != FEATURES
        ]

    @cached_property
    def ends(self) -> list[int]:
        """Row after the last of each part."""
        return list(accumulate(len(part) for part in self.features))

    @property
    def rows(self) -> int:
        return self.ends[-1] if self.ends else 0

    def feature_parts(self, start: int, stop: int) -> Iterator[NDArray[np.float32]]:
        """See RowData.feature_parts."""
        while start < stop:
            index = bisect_right(self.ends, start)
            part = self.features[index]
            first = self.ends[index] - len(part)
            yield part[start - first : stop - first]
            start = self.ends[index]

    def take_features(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """See RowData.take_features."""
        index = np.searchsorted(self.ends, rows, side="right")
        cuts = [0, *(np.flatnonzero(np.diff(index)) + 1).tolist(), len(rows)]
        for low, high in pairwise(cuts):
            part = self.features[index[low]]
            take_rows(part, rows[low:high] - (self.ends[index[low]] - len(part)), out[low:high])

    def slice(self, start: int, stop: int) -> "MappedData":
        """Rows [start, stop), sharing storage."""
        names = ("seconds_since_previous", "labels", "valid", "segment")
        rest = {name: getattr(self, name)[start:stop] for name in names}
        return replace(self, features=tuple(self.feature_parts(start, stop)), **rest)

    def loaded(self) -> SequenceData:
        """A copy in memory."""
        return SequenceData(
            features=torch.from_numpy(np.concatenate(self.features)),
            seconds_since_previous=self.seconds_since_previous,
            labels=self.labels,
            valid=self.valid,
            segment=self.segment,
            feature_names=self.feature_names,
        )


def take_rows(source: NDArray[Any], rows: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Copy rows [n] of [N, ...], all of them within it, to [n, ...]."""
    # Numpy checks indices against a copy of `out` in its other modes.
    np.take(source, rows, axis=0, out=out, mode="clip")


class Block(NamedTuple):
    """T rows of B sequences at once."""

    rows: Tensor  # [B, T] int64 positions in the data
    used: Tensor  # [B, T] bool, False on padding
    reset: Tensor | None  # [B, T] bool, None when no row starts afresh


def stream_rows(rows: int, streams: int, offset: int) -> tuple[Tensor, Tensor]:
    """Cut the rows into equal contiguous streams, starting at `offset` and wrapping at the end.

    Args:
        rows: N.
        streams: B.
        offset: first row of the first stream.

    Returns:
        positions [B, S] and used [B, S]; every row is used exactly once.
    """
    length = math.ceil(rows / streams)
    flat = torch.arange(streams * length)
    return ((flat + offset) % rows).view(streams, length), (flat < rows).view(streams, length)


def lane_rows(segment_starts: Tensor, rows: int, lanes: int) -> tuple[Tensor, Tensor]:
    """Spread whole segments over lanes of about equal length, longest first.

    Args:
        segment_starts: [K] int64, increasing, the first row of each segment.
        rows: N.
        lanes: most lanes.

    Returns:
        positions [B, S] and used [B, S]; a segment lies in one lane, in order, so carried state is exact.
    """
    stops = torch.cat((segment_starts[1:], torch.tensor([rows])))
    spans = list(zip(segment_starts.tolist(), stops.tolist(), strict=True))
    members: list[list[Tensor]] = [[] for _ in range(min(lanes, len(spans)))]
    filled = [0] * len(members)
    for start, stop in sorted(spans, key=lambda span: span[0] - span[1]):
        lane = filled.index(min(filled))
        members[lane].append(torch.arange(start, stop))
        filled[lane] += stop - start
    positions = torch.zeros(len(members), max(filled), dtype=torch.int64)
    used = torch.zeros_like(positions, dtype=torch.bool)
    for lane, parts in enumerate(members):
        positions[lane, : filled[lane]] = torch.cat(parts)
        used[lane, : filled[lane]] = True
    return positions, used


def blocks(positions: Tensor, used: Tensor, first: Tensor, length: int, start: int = 0) -> Iterator[Block]:
    """Walk lanes or streams `length` rows at a time, from block number `start` on.

    Args:
        positions: [B, S].
        used: [B, S].
        first: [N] bool, rows that start afresh.
        length: T.
        start: number of blocks to pass over.
    """
    for begin in range(start * length, positions.shape[1], length):
        rows = positions[:, begin : begin + length]
        reset = first[rows]
        yield Block(rows, used[:, begin : begin + length], reset if bool(reset.any()) else None)
