"""Any genuine file, by the official encoder, against the official decoder and a day kept by hand."""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import databento_dbn as dbn
import polars as pl
from dbn_builder import DAY, T0, TICK
from dbn_strategies import IDS, SECOND, File, files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingested_day import load

from alpha_core.errors import InputError
from alpha_pipeline.ingest import IngestConfig, events, ingest_day
from alpha_pipeline.ingest.databento import DbnFile
from alpha_pipeline.ingest.events import CROSSED, EMPTY_SIDE, GOOD, LOCKED, SUSPECT
from alpha_pipeline.ingest.record_scan import EARLIEST_NS, LATEST_NS
from alpha_pipeline.ingest.records import UNDEF_PRICE
from alpha_pipeline.instrument import InstrumentSpec

SPEC = InstrumentSpec(name="test", symbols=("TEST",), tick_size="0.25")
MANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NAMES = {"SymbolMappingMsg": "symbol-mapping", "SystemMsg": "system", "ErrorMsg": "error"}
GAP_NS = 600 * SECOND
MIDNIGHT = T0 - T0 % (86_400 * SECOND)


def official(body: bytes) -> list[Any]:
    """The records that the official decoder finds; a cut record at the end is none."""
    decoder = dbn.DBNDecoder(upgrade_policy=dbn.VersionUpgradePolicy.AS_IS)
    decoder.write(body)
    return [record for record in decoder.decode() if not isinstance(record, dbn.Metadata)]


def kind(record: Any) -> str:
    return NAMES.get(type(record).__name__.removesuffix("V1").removesuffix("V2"), "mbp-10")


@MANY
@given(file=files(), chunk_records=st.integers(16, 64))
def test_every_byte_of_every_record_is_the_official_one(tmp_path: Path, file: File, chunk_records: int):
    path = tmp_path / "x.dbn.zst"
    path.write_bytes(file.content)
    records = official(file.body)
    with DbnFile(path) as mine:
        found = b"".join(chunk.tobytes() for chunk in mine.chunks(chunk_records))
    counts = Counter(kind(record) for record in records)
    assert found == b"".join(bytes(record) for record in records if kind(record) == "mbp-10")
    assert mine.records_read == len(records)
    assert dict(mine.skipped_by_type) == {name: n for name, n in counts.items() if name != "mbp-10"}
    assert mine.trailing_bytes == len(file.body) - _header_bytes(file.body) - sum(
        len(bytes(r)) for r in records
    )


def _header_bytes(body: bytes) -> int:
    """Bytes 4 to 8 count what follows them."""
    return 8 + int.from_bytes(body[4:8], "little")


@dataclass
class ByHand:
    """A day kept record by record, in plain Python.

    Attributes:
        snapshots: rows by column name.
        trades: rows of the tape.
        skipped: records left out, by reason.
        counts: see order_counts.
    """

    snapshots: list[dict[str, Any]] = field(default_factory=list)
    trades: list[dict[str, Any]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def keep(self, records: list[Any]) -> "ByHand":
        kept = [record for record in records if self._usable(record)]
        self.counts = order_counts(kept)
        if any(b.ts_recv < a.ts_recv for a, b in itertools.pairwise(kept)):
            kept.sort(key=lambda record: record.ts_recv)
        waiting: list[tuple[Any, int]] = []
        for record, epoch in zip(kept, epochs(kept), strict=True):
            if (is_last(record) or is_trade(record)) and not on_grid(record):
                self.skipped["off_tick"] += 1
                continue
            waiting.append((record, epoch))
            if is_last(record):
                self._close(waiting, epoch)
                waiting = []
        self.skipped["unfinished_event"] += len(waiting)
        return self

    def _usable(self, record: Any) -> bool:
        reason = None
        if record.instrument_id not in IDS.values():
            reason = "unmapped_instrument"
        elif record.instrument_id != IDS["TEST"]:
            reason = "other_instrument"
        elif not all(EARLIEST_NS <= t < LATEST_NS for t in (record.ts_recv, record.ts_event)):
            reason = "undefined_timestamp"
        elif not MIDNIGHT <= record.ts_recv < MIDNIGHT + 86_400 * SECOND:
            reason = "outside_mapping"
        self.skipped[reason or "none"] += 1
        return reason is None

    def _close(self, waiting: list[tuple[Any, int]], epoch: int) -> None:
        for record, began in waiting:
            if is_trade(record) and began != epoch:
                self.skipped["unfinished_event"] += 1
            elif is_trade(record) and record.price != UNDEF_PRICE:
                self.trades.append(tape_row(record, len(self.snapshots)))
        last = waiting[-1][0]
        self.snapshots.append(snapshot_row(last) | {"epoch": epoch})


def order_counts(records: list[Any]) -> dict[str, int]:
    """What the report says of flags, times and sequence numbers, for usable records in file order."""
    pairs = list(itertools.pairwise(records))
    back = [b.ts_recv - a.ts_recv for a, b in pairs]
    jumps = [b.sequence - a.sequence for a, b in pairs]
    return {
        "bad_ts_recv": sum(bool(r.flags & 8) for r in records),
        "maybe_bad_book": sum(bool(r.flags & 4) for r in records),
        "snapshot_records": sum(bool(r.flags & 32) for r in records),
        "duplicates": sum(bytes(a) == bytes(b) for a, b in pairs),
        "ts_recv_backward": sum(step < 0 for step in back),
        "largest_backward_ns": -min([0, *back]),
        "ts_event_backward": sum(b.ts_event < a.ts_event for a, b in pairs),
        "sequence_gaps": sum(jump > 1 for jump in jumps),
        "largest_sequence_gap": max([0, *jumps]),
        "sequence_resets": sum(jump < 0 for jump in jumps),
    }


def epochs(records: list[Any]) -> list[int]:
    """Breaks of a market that never closes: a cleared book, a silence, the first record of a distrusted stretch."""
    numbers, epoch, before = [], 0, None
    for record in records:
        if before is not None:
            distrust = bool(record.flags & 4) and not before.flags & 4
            epoch += letter(record.action) == "R" or record.ts_recv - before.ts_recv > GAP_NS or distrust
        numbers.append(epoch)
        before = record
    return numbers


def letter(value: Any) -> str:
    return str(getattr(value, "value", value))


def is_last(record: Any) -> bool:
    return bool(record.flags & 0x80)


def is_trade(record: Any) -> bool:
    return letter(record.action) == "T"


def on_grid(record: Any) -> bool:
    """All prices that the record's rows would show: the touch for a trade, all levels for an event's end."""
    shown = [record.price]
    for level in record.levels if is_last(record) else record.levels[:1]:
        shown += [level.bid_px, level.ask_px]
    return all(price == UNDEF_PRICE or price % TICK == 0 for price in shown)


def ticks(price: int) -> int | None:
    return None if price == UNDEF_PRICE else price // TICK


def state(record: Any) -> int:
    top = record.levels[0]
    if record.flags & 4:
        return SUSPECT
    if UNDEF_PRICE in (top.bid_px, top.ask_px) or 0 in (top.bid_sz, top.ask_sz):
        return EMPTY_SIDE
    spread = ticks(top.ask_px) - ticks(top.bid_px)
    return CROSSED if spread < 0 else LOCKED if spread == 0 else GOOD


def snapshot_row(record: Any) -> dict[str, Any]:
    names = ("sequence", "instrument_id", "size", "flags")
    row = {name: int(getattr(record, name)) for name in names}
    row |= {"ts_recv": record.ts_recv, "ts_event": record.ts_event, "price": ticks(record.price)}
    row |= {"action": letter(record.action), "side": letter(record.side), "book_state": state(record)}
    for k, level in enumerate(record.levels):
        row |= {f"{side}_px_{k:02d}": ticks(getattr(level, f"{side}_px")) for side in ("bid", "ask")}
        row |= {f"{s}_{n}_{k:02d}": getattr(level, f"{s}_{n}") for s in ("bid", "ask") for n in ("sz", "ct")}
    return row


def tape_row(record: Any, row: int) -> dict[str, Any]:
    top = record.levels[0]
    return {
        "ts_event": record.ts_event,
        "ts_recv": record.ts_recv,
        "price": ticks(record.price),
        "size": record.size,
        "aggressor": {"B": 1, "A": -1, "N": 0}[letter(record.side)],
        "bid_px": ticks(top.bid_px),
        "ask_px": ticks(top.ask_px),
        "sequence": record.sequence,
        "snapshot_row": row,
    }


@MANY
@given(file=files(), chunk_records=st.integers(16, 64), batch_rows=st.integers(1, 32))
def test_every_field_of_every_row_is_the_one_kept_by_hand(
    tmp_path: Path, file: File, chunk_records: int, batch_rows: int
):
    path = tmp_path / f"TEST-{DAY}.mbp-10.dbn.zst"
    path.write_bytes(file.content)
    records = [record for record in official(file.body) if kind(record) == "mbp-10"]
    hand = ByHand().keep(records)
    config = IngestConfig(chunk_records=chunk_records, max_event_records=1 << 20)
    try:
        with mock.patch.object(events, "BATCH_ROWS", batch_rows):
            day = load(tmp_path / "day", ingest_day([path], SPEC, tmp_path / "day", config=config))
    except InputError as error:
        assert "lie off it" in str(error) and not hand.snapshots and hand.skipped["off_tick"]
        return
    rows = day.snapshots.with_columns(_integers("ts_event", "ts_recv")).to_dicts()
    numbering = {epoch: k for k, epoch in enumerate(dict.fromkeys(row["epoch"] for row in hand.snapshots))}
    expected = [{**row, "segment": numbering[row["epoch"]]} for row in hand.snapshots]
    for row in expected:
        del row["epoch"]
    assert rows == [{name: row[name] for name in day.snapshots.columns} for row in expected]
    assert day.trades.with_columns(_integers("ts_event", "ts_recv")).to_dicts() == hand.trades
    assert {name: getattr(day.report, name) for name in hand.counts} == hand.counts
    shown = Counter(row["book_state"] for row in rows)
    told = day.report.one_sided, day.report.locked, day.report.crossed, day.report.suspect
    assert told == tuple(shown[k] for k in (EMPTY_SIDE, LOCKED, CROSSED, SUSPECT))
    used = hand.skipped.pop("none", 0)
    assert {k: v for k, v in day.report.skipped.items() if v} == {k: v for k, v in hand.skipped.items() if v}
    assert day.report.records_kept == used - hand.skipped["off_tick"] - hand.skipped["unfinished_event"]


def _integers(*names: str) -> list[pl.Expr]:
    return [pl.col(name).to_physical() for name in names]
