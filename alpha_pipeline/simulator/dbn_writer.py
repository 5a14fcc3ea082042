"""From a tape to 368-byte records, and from records to a DBN file the official decoder reads."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import databento_dbn as dbn
import numpy as np
import zstandard

from alpha_pipeline.ingest.records import LENGTH_UNIT, MBP10_DTYPE, RTYPE_MBP10, UNDEF_PRICE, Flag
from alpha_pipeline.simulator.book import CLEAR, LEVELS, Tape
from alpha_pipeline.simulator.clock import EventClock

DATASET = "XSIM.SIM"
DBN_VERSION = 3
_COMPRESSION = 3
_BLOCK = 2048  # records laid out at a time: they stay in the processor's cache


def to_records(tape: Tape, clock: EventClock, *, instrument_id: int, tick_nanos: int) -> np.ndarray:
    """Lay a tape out as MBP-10 records.

    Args:
        tape: what happened, in ticks.
        clock: times by event.
        instrument_id: written to every record.
        tick_nanos: price increment in units of 1e-9.

    Returns:
        [records] of MBP10_DTYPE.
    """
    rows = int(tape.rows[0])
    out = np.empty(rows, MBP10_DTYPE)
    out["length"] = MBP10_DTYPE.itemsize // LENGTH_UNIT
    out["rtype"], out["publisher_id"], out["instrument_id"] = RTYPE_MBP10, 0, instrument_id
    for start in range(0, rows, _BLOCK):
        part = slice(start, min(start + _BLOCK, rows))
        _fill_head(out[part], tape, clock, part, tick_nanos)
        _fill_levels(out["levels"][part], tape.touch[part], tape.queues[part], tick_nanos)
    _hide_absent_levels(out["levels"][: 1 + 2 * LEVELS])
    return out


def _fill_head(out: np.ndarray, tape: Tape, clock: EventClock, part: slice, tick_nanos: int) -> None:
    event, action = tape.event[part], tape.action[part]
    out["ts_event"], out["ts_recv"] = clock.ts_event[event], clock.ts_recv[event]
    out["ts_in_delta"] = clock.ts_in_delta[event]
    out["sequence"] = np.arange(part.start + 1, part.stop + 1)
    out["action"], out["side"] = action.view("S1"), tape.side[part].view("S1")
    out["price"] = np.where(action == CLEAR, UNDEF_PRICE, tape.price[part] * tick_nanos)
    out["size"], out["depth"] = tape.size[part], tape.depth[part]
    out["flags"] = tape.last[part] * np.uint8(Flag.LAST) + (event == 0) * np.uint8(Flag.SNAPSHOT)


def _fill_levels(levels: np.ndarray, touch: np.ndarray, queues: np.ndarray, tick_nanos: int) -> None:
    """Prices step one tick away from the touch, level by level."""
    behind = np.arange(LEVELS, dtype=np.int64) * tick_nanos
    levels["bid_px"] = (touch[:, :1] * tick_nanos) - behind
    levels["ask_px"] = (touch[:, 1:] * tick_nanos) + behind
    for k, name in enumerate(("bid_sz", "ask_sz", "bid_ct", "ask_ct")):
        levels[name] = queues[:, :, k]


def _hide_absent_levels(levels: np.ndarray) -> None:
    """While the book is being built, a level without lots has the undefined price."""
    for side in ("bid", "ask"):
        levels[f"{side}_px"][levels[f"{side}_sz"] == 0] = UNDEF_PRICE


def encode(records: np.ndarray, *, symbol: str, day: str) -> bytes:
    """One day as the bytes of a `.dbn.zst` file: metadata, then the records, in one zstd frame.

    Args:
        records: [N] of MBP10_DTYPE, N >= 1, one instrument.
        symbol: raw symbol that maps to the records' instrument_id on `day`.
        day: UTC date.
    """
    metadata = _metadata(records, symbol, dt.date.fromisoformat(day)).encode()
    return zstandard.ZstdCompressor(level=_COMPRESSION).compress(metadata + records.tobytes())


def _metadata(records: np.ndarray, symbol: str, date: dt.date) -> dbn.Metadata:
    interval = SimpleNamespace(
        start_date=date, end_date=date + dt.timedelta(days=1), symbol=str(records["instrument_id"][0])
    )
    mapping: Any = SimpleNamespace(raw_symbol=symbol, intervals=[interval])
    return dbn.Metadata(
        dataset=DATASET,
        start=int(records["ts_recv"][0]),
        end=int(records["ts_recv"][-1]) + 1,
        stype_in=dbn.SType.from_str("raw_symbol"),
        stype_out=dbn.SType.from_str("instrument_id"),
        schema=dbn.Schema.from_str("mbp-10"),
        symbols=[symbol],
        mappings=[mapping],
        version=DBN_VERSION,
    )
