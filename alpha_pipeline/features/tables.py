"""Reads the snapshot and trade tables, from memory or from files, a bounded number of rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alpha_core.errors import DataError, InputError
from alpha_core.shapes import LEVELS, UNDEFINED_TICKS

BLOCK_ROWS = 8192
"""Rows decoded at once: few enough to stay in cache, enough to hide the cost of a call."""

INT32_MAX = 2**31 - 1
PRICE_MAX = 2**29 - 1
"""Largest price in ticks such that mids in half ticks, and their changes, fit int32."""

SIDES = ("bid", "ask")
KEY_COLUMNS = ("ts_event", "ts_recv", "book_state", "segment")
BOOK_COLUMNS = tuple(
    f"{side}_{kind}_{level:02d}" for kind in ("px", "sz", "ct") for side in SIDES for level in range(LEVELS)
)
TRADE_COLUMNS = ("price", "size", "aggressor", "snapshot_row")


@dataclass(frozen=True, kw_only=True)
class Trades:
    """Trades in event order.

    Attributes:
        row: [T] int64, index in the snapshot table of the event that contains the trade.
        price: [T] int32 ticks.
        size: [T] int64 lots.
        side: [T] int8, +1 buy aggressor, -1 sell aggressor, 0 unknown.
    """

    row: NDArray[np.int64]
    price: NDArray[np.int32]
    size: NDArray[np.int64]
    side: NDArray[np.int8]

    @classmethod
    def none(cls) -> "Trades":
        """No trades."""
        return cls(
            row=np.empty(0, np.int64),
            price=np.empty(0, np.int32),
            size=np.empty(0, np.int64),
            side=np.empty(0, np.int8),
        )

    def __len__(self) -> int:
        return len(self.row)

    def __add__(self, other: "Trades") -> "Trades":
        return Trades(
            **{f.name: np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)}
        )

    def take(self, index: NDArray[np.int64] | slice) -> "Trades":
        """The chosen trades, in the given order."""
        return Trades(
            row=self.row[index], price=self.price[index], size=self.size[index], side=self.side[index]
        )


def iter_batches(
    source: pa.Table | Path, columns: Sequence[str], rows: int = BLOCK_ROWS
) -> Iterator[pa.RecordBatch]:
    """The named columns of a table or of an Arrow IPC file, in pieces of at most `rows` rows.

    A file is read, not mapped: pages of a map would count as memory of the process until the file's end.

    Raises:
        InputError: the file is not Arrow IPC, or a column is missing.
    """
    if isinstance(source, Path):
        for batch in _file_batches(source, columns):
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
    else:
        _require(source.schema, columns, "the table")
        yield from source.select(list(columns)).to_batches(max_chunksize=rows)


def _file_batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        with pa.OSFile(str(path), "rb") as source:
            schema = pa.ipc.open_file(source).schema
            _require(schema, columns, str(path))
            wanted = [schema.get_field_index(name) for name in columns]
            reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted))
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
    except (pa.ArrowInvalid, FileNotFoundError) as error:
        raise InputError(
            f"{path} cannot be read as an Arrow IPC file ({error}); ingest the day again"
        ) from error


def _require(schema: pa.Schema, columns: Sequence[str], where: str) -> None:
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InputError(f"{where} lacks the columns {', '.join(missing)}; ingest the day again")


def nanoseconds(column: pa.Array, name: str) -> NDArray[np.int64]:
    """A timestamp column as int64 nanoseconds since the epoch, never by way of a float."""
    if not (pa.types.is_timestamp(column.type) and column.type.unit == "ns"):
        raise InputError(f"column {name} has type {column.type}, must be timestamp[ns]; ingest the day again")
    return np.array(column.view(pa.int64()))


def ticks(column: pa.Array, name: str, row: int) -> NDArray[np.int64]:
    """A price column as int64 ticks, UNDEFINED_TICKS where it is null, within +-PRICE_MAX elsewhere.

    Args:
        column: prices.
        name: of the table and the column, for errors.
        row: where in the table the column begins, for errors.

    Raises:
        DataError: a price out of range.
    """
    filled = pc.fill_null(column, UNDEFINED_TICKS) if column.null_count else column
    values = filled.to_numpy()
    if np.count_nonzero(values < -PRICE_MAX) > column.null_count or values.max(initial=0) > PRICE_MAX:
        wrong = ((values < -PRICE_MAX) | (values > PRICE_MAX)) & column.is_valid().to_numpy(
            zero_copy_only=False
        )
        at = int(np.argmax(wrong))
        raise DataError(
            f"column {name} holds {values[at]} ticks in row {row + at}, must be in [-{PRICE_MAX}, {PRICE_MAX}] "
            "or null; check the instrument's tick_size, and the raw file if that is right"
        )
    return values


def lots(column: pa.Array, name: str, row: int) -> NDArray[np.int32]:
    """A size or order-count column as int32; the arguments are those of `ticks`.

    Raises:
        DataError: a null, or more than 2^31 - 1.
    """
    if column.null_count:
        raise DataError(f"column {name} holds nulls, must hold 0 for an absent level; ingest the day again")
    values = column.to_numpy()
    if values.max(initial=0) > INT32_MAX:
        at = int(np.argmax(values > INT32_MAX))
        raise DataError(
            f"column {name} holds {values[at]} in row {row + at}, must be at most {INT32_MAX}; set a larger lot_size "
            "if the source is a depth log, else the raw file is damaged: fetch it again or take it away"
        )
    return values.astype(np.int32)


class TradeFeed:
    """The trade tape of a day, read as far as it is asked for.

    Attributes:
        count: trades handed out so far.
    """

    def __init__(self, source: pa.Table | Path) -> None:
        self._parts = _trade_parts(iter_batches(source, TRADE_COLUMNS, rows=1 << 16))
        self._ahead = Trades.none()
        self._last_row = 0
        self.count = 0

    def until(self, row: int) -> Trades:
        """The trades of the events before the given snapshot row that were not handed out yet.

        Raises:
            DataError: a null, a size or price out of range, or rows that are not in event order.
        """
        while not len(self._ahead) or self._ahead.row[-1] < row:
            part = next(self._parts, None)
            if part is None:
                break
            self._check_order(part)
            self._ahead += part
        cut = int(np.searchsorted(self._ahead.row, row))
        found, self._ahead = self._ahead.take(slice(cut)), self._ahead.take(slice(cut, None))
        self.count += cut
        return found

    def rest(self) -> Trades:
        """All trades that were not handed out yet."""
        return self.until(np.iinfo(np.int64).max)

    def _check_order(self, part: Trades) -> None:
        if not len(part):
            return
        if part.row[0] < self._last_row or (np.diff(part.row) < 0).any():
            raise DataError(
                "trades.snapshot_row must be non-negative and never decrease; ingest the day again"
            )
        self._last_row = int(part.row[-1])


def _trade_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[Trades]:
    row = 0
    for batch in batches:
        yield _trade_part(batch, row)
        row += batch.num_rows


def _trade_part(batch: pa.RecordBatch, row: int) -> Trades:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    holes = [name for name in TRADE_COLUMNS if columns[name].null_count]
    if holes:
        raise DataError(
            f"the trade columns {', '.join(holes)} hold nulls, must hold none; ingest the day again"
        )
    return Trades(
        row=columns["snapshot_row"].to_numpy().astype(np.int64),
        price=ticks(columns["price"], "trades.price", row).astype(np.int32),
        size=columns["size"].to_numpy().astype(np.int64),
        side=np.sign(columns["aggressor"].to_numpy()).astype(np.int8),
    )
