"""Row ranges for training, validation and test. Knows nothing of models; each leak it prevents is named.

1. **Label overlap.** The label of row i is known `label_horizon` snapshots later. A training row whose label
   reaches into the validation or test part has seen its prices. Prevented by the purge in snapshots.
2. **Regime persistence.** Volatility, flow and the perception's own smoothed features drift over thousands of
   rows, so the last training rows resemble the first test rows although no label overlaps. Prevented by the
   purge in rows and, when configured, in whole sessions; the largest of the three purges holds.
3. **Backward overlap.** Where training rows follow a test part, the labels of its last rows reach into them.
   Prevented by purging behind the test part as well (`training_mask`).
4. **Settlement.** Episodes that start in the last rows of a test part are still open behind it. Prevented by
   the embargo, which keeps the next fold's test part from starting there.

A purge is always taken from the earlier, training side: the test part is never shortened by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alpha_core.errors import DataError
from alpha_pipeline.evaluation.config import WalkForwardConfig

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RowRange:
    """Rows [start, stop) of the concatenated decision points."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        return slice(self.start, self.stop)


@dataclass(frozen=True, kw_only=True)
class Fold:
    """One fold; its parts lie in this order in time and do not touch one another.

    Attributes:
        index: 0, 1, ...
        train: rows to fit everything on: scaler, fill model, perception, policy.
        validation: rows for early stopping, calibration and the choice of thresholds.
        test: rows to report on.
        embargo: rows behind the test part that no later test part may use.
    """

    index: int
    train: RowRange
    validation: RowRange
    test: RowRange
    embargo: RowRange


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Where each decision point lies in snapshots and days, over all days.

    Attributes:
        position: [R] int64, good snapshots since the first row's day began, strictly increasing.
        day: [R] int64, index of the trading day, not decreasing.
    """

    position: Ints
    day: Ints

    def __len__(self) -> int:
        return self.position.size


def timeline(*, segment: ArrayLike, event_index: ArrayLike, day: ArrayLike) -> Timeline:
    """Join the days' own snapshot counts into one.

    Args:
        segment: [R] identity of the contiguous stretch of each row, unique across days.
        event_index: [R] index among the good snapshots of the row's own day; it restarts with each day.
        day: [R] index of the trading day.

    Raises:
        DataError: no rows, arrays of different lengths, or rows out of time order.
    """
    segments, events, days = (np.asarray(a, dtype=np.int64) for a in (segment, event_index, day))
    if not segments.size == events.size == days.size or not days.size:
        raise DataError(
            f"segment, event_index and day have {segments.size}, {events.size} and {days.size} rows: "
            "pass the same rows of each, at least one"
        )
    if (np.diff(days) < 0).any():
        raise DataError("day decreases along the rows: concatenate the days in time order before splitting")
    if ((np.diff(segments) == 0) & (np.diff(days) != 0)).any():
        raise DataError("a segment spans two days: give each day's segments identities of their own")
    position = events + _offsets(events, days)
    if (np.diff(position) <= 0).any():
        raise DataError("event_index does not increase inside a day: sort the rows by event_index")
    return Timeline(position=position, day=days)


def purge_end(line: Timeline, boundary: int, config: WalkForwardConfig) -> int:
    """First row that must not be used for fitting because it lies too close in front of row `boundary`.

    Row i stays usable when it is more than `purge_snapshots` snapshots and more than `purge_rows` rows
    ahead of the boundary, with `purge_sessions` whole sessions between them (leaks 1 and 2 of the module).
    A boundary equal to the number of rows is the first row of the next day.
    """
    if boundary < len(line):
        position, day = int(line.position[boundary]), int(line.day[boundary])
    else:
        position, day = int(line.position[-1]) + 1, int(line.day[-1]) + 1
    ends = [boundary - config.purge_rows, _first(line.position, position - config.purge_snapshots)]
    if config.purge_sessions > 0:
        ends.append(_first(line.day, day - config.purge_sessions))
    return max(0, min(ends))


def training_mask(
    line: Timeline, tests: Sequence[RowRange], *, purge_snapshots: int, label_horizon: int
) -> NDArray[np.bool_]:
    """Rows that may be fitted on when test parts lie anywhere, before or behind them (leaks 1 and 3).

    A row is dropped when it is at most `purge_snapshots` snapshots away from the nearest test row. Each test
    part purges its own neighbourhood only: what lies between two of them stays.

    Args:
        line: positions of all rows.
        tests: the test parts.
        purge_snapshots: snapshots dropped on either side.
        label_horizon: longest label in snapshots.

    Returns:
        [R] bool.

    Raises:
        DataError: the purge is shorter than the label, or nothing is left to train on.
    """
    if label_horizon < 1 or purge_snapshots < label_horizon:
        raise DataError(
            f"purge_snapshots was {purge_snapshots} with label_horizon {label_horizon}: "
            "state a label horizon >= 1 and a purge at least as long"
        )
    keep = np.ones(len(line), dtype=np.bool_)
    for test in tests:
        first = _first(line.position, int(line.position[test.start]) - purge_snapshots)
        behind = _first(line.position, int(line.position[test.stop - 1]) + purge_snapshots + 1)
        keep[first:behind] = False
    if not keep.any():
        raise DataError(
            f"purging {purge_snapshots} snapshots around {len(tests)} test parts leaves no training row of "
            f"{len(line)}: use fewer test parts or more days"
        )
    return keep


def split_training(line: Timeline, rows: RowRange, config: WalkForwardConfig) -> tuple[RowRange, RowRange]:
    """Cut rows into train | purge | validation; validation is the last `validation_share` of them.

    Raises:
        DataError: no training or no validation row is left.
    """
    start = rows.stop - round(len(rows) * config.validation_share)
    train = RowRange(rows.start, max(rows.start, min(purge_end(line, start, config), rows.stop)))
    validation = RowRange(start, rows.stop)
    for name, part in (("training", train), ("validation", validation)):
        if len(part) <= 0:
            raise DataError(
                f"no {name} row is left of rows {rows.start}..{rows.stop} after purging "
                f"{config.purge_rows} rows, {config.purge_snapshots} snapshots and {config.purge_sessions} "
                "sessions: add days, or lower walk_forward.purge_rows, walk_forward.purge_sessions "
                "or walk_forward.folds"
            )
    return train, validation


def walk_forward(line: Timeline, config: WalkForwardConfig) -> list[Fold]:
    """Sequential folds, the last one ending at the last row.

    All folds have the same length: `window_rows`, or less when the record is shorter, so that the test parts
    follow one another, each behind the embargo of the one before; a longer record's oldest rows stay unused.

    Args:
        line: the in-sample rows; out-of-sample days must not be among them.
        config: sizes of the parts.

    Returns:
        `config.folds` folds in time order.

    Raises:
        DataError: a part of a fold has no rows left.
    """
    window = _window_rows(len(line), config)
    test_rows = int(window * (1.0 - config.train_share))
    stride = test_rows + config.embargo_rows
    folds = []
    for index in range(config.folds):
        stop = len(line) - config.embargo_rows - (config.folds - 1 - index) * stride
        test = RowRange(stop - test_rows, stop)
        if test_rows < 1 or stop - window < 0:
            raise DataError(
                f"fold {index} of {config.folds} has no test row in {len(line)} in-sample rows with an "
                f"embargo of {config.embargo_rows}: add days, or lower walk_forward.folds or "
                "walk_forward.embargo_rows"
            )
        fitted = RowRange(stop - window, max(stop - window, purge_end(line, test.start, config)))
        train, validation = split_training(line, fitted, config)
        embargo = RowRange(test.stop, test.stop + config.embargo_rows)
        folds.append(Fold(index=index, train=train, validation=validation, test=test, embargo=embargo))
    return folds


def before_oos(line: Timeline, config: WalkForwardConfig) -> tuple[RowRange, RowRange]:
    """Training and validation rows of the final fit, whose next row is the first out-of-sample one.

    Args:
        line: all in-sample rows.
        config: sizes of the purges and the validation share.

    Raises:
        DataError: no training or no validation row is left.
    """
    return split_training(line, RowRange(0, purge_end(line, len(line), config)), config)


def in_sample_oos(days: Sequence[str], oos_days: int) -> tuple[list[str], list[str]]:
    """The last `oos_days` days are out of sample, all earlier ones in sample.

    Args:
        days: day keys 'YYYY-MM-DD' with data, any order.
        oos_days: number of days kept for the gate.

    Raises:
        DataError: a day appears twice, or no day would be left on one side.
    """
    ordered = sorted(days)
    if len(set(ordered)) != len(ordered):
        raise DataError(f"days has {len(ordered) - len(set(ordered))} duplicates: pass each day once")
    if not 1 <= oos_days < len(ordered):
        raise DataError(
            f"walk_forward.oos_days was {oos_days} with {len(ordered)} days of data, must be at least 1 and "
            "leave one day in sample: add days or lower it"
        )
    return ordered[:-oos_days], ordered[-oos_days:]


def _first(ascending: Ints, bound: int) -> int:
    """First index whose value is at least `bound`."""
    return int(np.searchsorted(ascending, bound, "left"))


def _offsets(event_index: Ints, day: Ints) -> Ints:
    """Snapshots before each row's day, [R]; a day ends at its last decision point, a lower bound."""
    last = np.flatnonzero(np.diff(day, append=day[-1:] + 1))
    lengths = event_index[last] + 1
    before = np.cumsum(lengths) - lengths
    return np.repeat(before, np.diff(last, prepend=-1))


def _window_rows(rows: int, config: WalkForwardConfig) -> int:
    """Longest window with which `folds` test parts and their embargoes fit behind the first training part."""
    usable = rows - config.folds * config.embargo_rows
    longest = usable / (config.train_share + config.folds * (1.0 - config.train_share))
    return max(0, min(config.window_rows, int(longest)))
