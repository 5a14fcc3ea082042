"""Small genuine DBN files, written by the official encoder."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import databento_dbn as dbn
import zstandard

from alpha_pipeline.ingest.records import UNDEF_PRICE

DAY = date(2024, 3, 6)
T0 = 1_709_733_600_000_000_000  # 2024-03-06 14:00:00 UTC, a Wednesday
TICK = 250_000_000
LAST = 0x80
ACTIONS = {
    "A": dbn.Action.ADD,
    "C": dbn.Action.CANCEL,
    "M": dbn.Action.MODIFY,
    "R": dbn.Action.CLEAR,
    "T": dbn.Action.TRADE,
    "F": dbn.Action.FILL,
    "N": dbn.Action.NONE,
}
SIDES = {"A": dbn.Side.ASK, "B": dbn.Side.BID, "N": dbn.Side.NONE}
EMPTY_LEVEL = (UNDEF_PRICE, 0, 0)

Level = tuple[int, int, int]


def ladder(best: int, step: int, levels: int = 10, size: int = 5) -> list[Level]:
    """Levels from `best` on, `step` apart, sizes rising by one."""
    return [(best + k * step, size + k, 1 + k) for k in range(levels)]


@dataclass(frozen=True, kw_only=True)
class Msg:
    """One MBP-10 record; bids and asks are (price, size, count), missing levels are undefined."""

    ts: int = T0
    ts_event: int | None = None
    action: str = "M"
    side: str = "N"
    price: int = UNDEF_PRICE
    size: int = 0
    flags: int = LAST
    sequence: int = 1
    instrument_id: int = 1
    bids: Sequence[Level] = tuple(ladder(20_000 * TICK, -TICK))
    asks: Sequence[Level] = tuple(ladder(20_001 * TICK, TICK))

    def build(self) -> dbn.MBP10Msg:
        return dbn.MBP10Msg(
            publisher_id=1,
            instrument_id=self.instrument_id,
            ts_event=self.ts if self.ts_event is None else self.ts_event,
            price=self.price,
            size=self.size,
            action=ACTIONS[self.action],
            side=SIDES[self.side],
            depth=0,
            ts_recv=self.ts,
            flags=self.flags,
            ts_in_delta=0,
            sequence=self.sequence,
            levels=[_pair(self.bids, self.asks, k) for k in range(10)],
        )

    def __bytes__(self) -> bytes:
        return bytes(self.build())


def _pair(bids: Sequence[Level], asks: Sequence[Level], k: int) -> dbn.BidAskPair:
    bid = bids[k] if k < len(bids) else EMPTY_LEVEL
    ask = asks[k] if k < len(asks) else EMPTY_LEVEL
    return dbn.BidAskPair(
        bid_px=bid[0], ask_px=ask[0], bid_sz=bid[1], ask_sz=ask[1], bid_ct=bid[2], ask_ct=ask[2]
    )


@dataclass(frozen=True, kw_only=True)
class Order:
    """One MBO record."""

    ts: int = T0
    ts_event: int | None = None
    id: int = 1
    action: str = "A"
    side: str = "B"
    price: int = UNDEF_PRICE
    size: int = 0
    flags: int = LAST
    sequence: int = 1
    instrument_id: int = 1
    publisher_id: int = 1
    ts_in_delta: int = 0

    def build(self) -> dbn.MBOMsg:
        return dbn.MBOMsg(
            publisher_id=self.publisher_id,
            instrument_id=self.instrument_id,
            ts_event=self.ts if self.ts_event is None else self.ts_event,
            order_id=self.id,
            price=self.price,
            size=self.size,
            action=ACTIONS[self.action],
            side=SIDES[self.side],
            ts_recv=self.ts,
            flags=self.flags,
            channel_id=0,
            ts_in_delta=self.ts_in_delta,
            sequence=self.sequence,
        )

    def __bytes__(self) -> bytes:
        return bytes(self.build())


@dataclass(frozen=True)
class Interval:
    """What the encoder wants of one mapping interval."""

    start_date: date
    end_date: date
    symbol: str


@dataclass(frozen=True)
class Mapping:
    """What the encoder wants of one symbol's mappings."""

    raw_symbol: str
    intervals: Sequence[Interval]


def header(
    ids: dict[str, int] | None = None,
    *,
    symbols: Sequence[str] | None = None,
    mappings: Sequence[Mapping] | None = None,
    schema: object = dbn.Schema.MBP_10,
    version: int = 3,
    day: date = DAY,
    ts_out: bool = False,
) -> bytes:
    """An encoded header in which each symbol is its id all day long."""
    ids = {"TEST": 1} if ids is None else ids
    if mappings is None:
        mappings = [Mapping(s, [Interval(day, day + timedelta(days=1), str(n))]) for s, n in ids.items()]
    return dbn.Metadata(
        dataset="GLBX.MDP3",
        start=T0,
        stype_in=dbn.SType.RAW_SYMBOL,
        stype_out=dbn.SType.INSTRUMENT_ID,
        schema=schema,
        symbols=list(ids) if symbols is None else list(symbols),
        partial=[],
        not_found=[],
        mappings=mappings,
        version=version,
        ts_out=ts_out,
    ).encode()


def mapping_record(symbol: str = "TEST", instrument_id: int = 1, **more: object) -> dbn.SymbolMappingMsg:
    """A mapping in the body of a file, without an end; `more` are other fields of the record."""
    fields = {
        "publisher_id": 1,
        "instrument_id": instrument_id,
        "ts_event": T0,
        "stype_in": dbn.SType.RAW_SYMBOL,
        "stype_in_symbol": symbol,
        "stype_out": dbn.SType.INSTRUMENT_ID,
        "stype_out_symbol": str(instrument_id),
        "start_ts": dbn.UNDEF_TIMESTAMP,
        "end_ts": dbn.UNDEF_TIMESTAMP,
    }
    return dbn.SymbolMappingMsg(**(fields | more))


def foreign(symbol: str = "STRANGER", instrument_id: int = 9) -> list[object]:
    """A record of each type that lies between those of the market: system, error, mapping."""
    return [
        dbn.SystemMsg(ts_event=T0, msg="Heartbeat"),
        dbn.ErrorMsg(ts_event=T0, err="late"),
        mapping_record(symbol, instrument_id),
    ]


def frames(*parts: bytes) -> bytes:
    """Each part as a zstd frame of its own."""
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)


def skippable(content: bytes) -> bytes:
    """A skippable zstd frame."""
    return b"\x50\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def write(
    path: Path, records: Iterable[object] = (), *, head: bytes | None = None, plain: bool = False
) -> Path:
    """A file of a header and records (anything with bytes()); compressed unless `plain`."""
    body = (header() if head is None else head) + b"".join(bytes(record) for record in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body if plain else frames(body))
    return path
