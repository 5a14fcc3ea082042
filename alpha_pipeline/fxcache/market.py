"""Joins cached days into the tensors that the environment and the perception take."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from alpha_core.errors import DataError
from alpha_core.market.data import MarketData
from alpha_pipeline.fxcache.readers import CachedDay

DAY_NS = 86_400_000_000_000

if TYPE_CHECKING:
    from alpha_core.training.sequences import MappedData, SequenceData


def market_data(days: Sequence[CachedDay]) -> MarketData:
    """The market of several days, in the given order, on the CPU; alpha is zeros.

    Empty days have no rows but keep their place in `day`.

    Raises:
        DataError: no rows at all, days out of order, a day of an old format version, or unequal feature
            names.
    """
    _check(days)
    ts, segment = _join(days, lambda d: d.ts), _segments(days)
    return MarketData(
        mid2=torch.from_numpy(_join(days, lambda d: d.mid2)),
        book=torch.from_numpy(_join(days, lambda d: d.book)),
        tape=torch.from_numpy(_join(days, lambda d: d.tape)),
        segment=torch.from_numpy(segment),
        day=torch.from_numpy(day_index(days)),
        seconds=torch.from_numpy(_seconds_to_next(ts, segment)),
        second_of_day=torch.from_numpy((ts % DAY_NS * 1e-9).astype(np.float32)),
        features=torch.from_numpy(_join(days, lambda d: d.features)),
        feature_names=days[0].feature_names,
        alpha=torch.zeros(len(ts)),
    )


def sequence_data(days: Sequence[CachedDay]) -> "SequenceData":
    """Features and labels of several days for the perception, in memory; rows in warm-up have no valid label.

    Raises:
        DataError: as `market_data`.
    """
    return mapped_data(days).loaded()


def mapped_data(days: Sequence[CachedDay]) -> "MappedData":
    """The same with the features, four fifths of all bytes, left in the mapped files.

    Raises:
        DataError: as `market_data`.
    """
    from alpha_core.training.sequences import MappedData

    _check(days)
    seconds = (_join(days, lambda d: d.duration_ns) * 1e-9).astype(np.float32)
    return MappedData(
        features=tuple(day.features for day in days if day.rows),
        seconds_since_previous=torch.from_numpy(seconds),
        labels=torch.from_numpy(_join(days, lambda d: d.labels)),
        valid=torch.from_numpy(_join(days, lambda d: d.label_valid & d.warm[:, None])),
        segment=torch.from_numpy(_segments(days)),
        feature_names=days[0].feature_names,
    )


def _check(days: Sequence[CachedDay]) -> None:
    keys = [day.day for day in days]
    if not sum(day.rows for day in days):
        raise DataError(f"none of the {len(keys)} days ({', '.join(keys)}) has rows; choose days with data")
    if sorted(set(keys)) != keys:
        raise DataError(f"the days are {', '.join(keys)}, must be distinct and in order")
    if any(day.feature_names != days[0].feature_names for day in days):
        raise DataError("the days have different feature columns; rebuild them with `alpha run`")


def _join(days: Sequence[CachedDay], column: Callable[[CachedDay], NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([column(day) for day in days])


def _segments(days: Sequence[CachedDay]) -> NDArray[np.int32]:
    """[R] int32, segments numbered 0, 1, ... over all days."""
    return (np.cumsum(_join(days, lambda d: d.first)) - 1).astype(np.int32)


def day_index(days: Sequence[CachedDay]) -> NDArray[np.int32]:
    """[R] int32, position of each row's day; empty days keep theirs."""
    return np.repeat(np.arange(len(days), dtype=np.int32), [day.rows for day in days])


def _seconds_to_next(ts: NDArray[np.int64], segment: NDArray[np.int32]) -> NDArray[np.float32]:
    seconds = np.zeros(len(ts), np.float32)
    inside = segment[1:] == segment[:-1]
    seconds[:-1][inside] = np.diff(ts)[inside] * 1e-9
    return seconds
