"""From records to rows. Each test is named after the fault of other systems that it rules out."""

from datetime import date
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from dbn_builder import EMPTY_LEVEL, LAST, T0, TICK, Msg, header, ladder
from hypothesis import given
from hypothesis import strategies as st

from alpha_core.errors import InputError
from alpha_pipeline.ingest import IngestConfig
from alpha_pipeline.ingest.event_kernel import Grid, _put_ticks
from alpha_pipeline.ingest.events import CROSSED, EMPTY_SIDE, GOOD, LOCKED, SUSPECT
from alpha_pipeline.ingest.records import UNDEF_PRICE, Flag
from alpha_pipeline.instrument import InstrumentSpec

SECOND = 10**9


def nanos(price: str) -> int:
    return int(Decimal(price) * 10**9)


def test_columns_are_in_the_order_of_the_contract(ingest):
    levels = [
        f"{kind}_{k:02d}"
        for kind in ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct")
        for k in range(10)
    ]
    day = ingest([Msg()])
    head = ["ts_event", "ts_recv", "sequence", "instrument_id", "action", "side", "price", "size"]
    assert day.snapshots.columns == [*head, *levels, "flags", "book_state", "segment"]
    assert day.trades.columns == [
        *("ts_event", "ts_recv", "price", "size", "aggressor", "bid_px", "ask_px", "sequence", "snapshot_row")
    ]


def test_every_field_arrives_in_its_column(ingest):
    message = Msg(
        ts=T0 + 5,
        ts_event=T0 + 3,
        action="A",
        side="B",
        price=20_000 * TICK,
        size=7,
        flags=LAST | 0x02,
        sequence=4_000_000_000,
    )
    row = ingest([message]).snapshots.row(0, named=True)
    assert (row["action"], row["side"], row["price"], row["size"]) == ("A", "B", 20_000, 7)
    assert (row["sequence"], row["instrument_id"], row["flags"]) == (4_000_000_000, 1, LAST | 0x02)
    assert (row["book_state"], row["segment"]) == (GOOD, 0)
    for k in range(10):
        assert (row[f"bid_px_{k:02d}"], row[f"ask_px_{k:02d}"]) == (20_000 - k, 20_001 + k)
        assert (row[f"bid_sz_{k:02d}"], row[f"ask_sz_{k:02d}"]) == (5 + k, 5 + k)
        assert (row[f"bid_ct_{k:02d}"], row[f"ask_ct_{k:02d}"]) == (1 + k, 1 + k)


@pytest.mark.parametrize(
    ("tick", "bid", "ask", "mid", "level_10_bid"),
    [
        ("0.015625", 110_015_625_000, 110_031_250_000, "110.0234375", "109.875"),
        ("0.00390625", 110_003_906_250, 110_007_812_500, "110.005859375", None),
    ],
)
def test_price_scale_of_fractional_ticks(ingest, tick, bid, ask, mid, level_10_bid):
    spec = InstrumentSpec(symbols=("TEST",), tick_size=tick)
    message = Msg(bids=ladder(bid, -spec.tick_nanos), asks=ladder(ask, spec.tick_nanos))
    row = ingest([message], spec=spec).snapshots.row(0, named=True)
    assert row["ask_px_00"] - row["bid_px_00"] == 1
    assert (row["bid_px_00"] + row["ask_px_00"]) * Decimal(tick) / 2 == Decimal(mid)
    assert row["bid_px_00"] * Decimal(tick) * 10**9 == bid
    if level_10_bid is not None:
        assert row["bid_px_09"] * Decimal(tick) == Decimal(level_10_bid)


def test_price_sign_negative_and_zero_prices_are_kept(ingest):
    spec = InstrumentSpec(symbols=("TEST",), tick_size="0.01")
    step = spec.tick_nanos
    books = [(-37_630_000_000, -37_620_000_000), (-10_000_000, 10_000_000)]
    records = [
        Msg(ts=T0 + k, bids=ladder(bid, -step), asks=ladder(ask, step)) for k, (bid, ask) in enumerate(books)
    ]
    frame = ingest(records, spec=spec).snapshots
    assert frame["bid_px_00"].to_list() == [-3763, -1]
    assert frame["ask_px_00"].to_list() == [-3762, 1]
    assert frame["bid_px_09"].to_list() == [-3772, -10]
    assert frame["book_state"].to_list() == [GOOD, GOOD]


def test_undefined_price_levels_are_null_with_size_zero(ingest):
    row = ingest([Msg(bids=ladder(20_000 * TICK, -TICK, 4), asks=ladder(20_001 * TICK, TICK, 4))]).snapshots
    prices = row.select(pl.col("^(bid|ask)_px_.*$"))
    assert prices.null_count().row(0) == tuple([0] * 4 + [1] * 6) * 2
    assert row["book_state"].to_list() == [GOOD]
    values = [v for v in prices.row(0) if v is not None]
    assert min(values) == 19_997
    assert max(values) == 20_004
    assert row.select(pl.col("^(bid|ask)_sz_0[4-9]$")).row(0) == (0,) * 12


def test_undefined_event_price_is_null(ingest):
    assert ingest([Msg(action="M", side="N", price=UNDEF_PRICE)]).snapshots["price"].to_list() == [None]


def test_one_sided_book_is_flagged_and_leaves_its_neighbours_alone(ingest):
    normal = {"bids": ladder(20_000 * TICK, -TICK), "asks": ladder(20_001 * TICK, TICK)}
    records = [
        Msg(ts=T0, **normal),
        Msg(ts=T0 + 1, bids=[], asks=normal["asks"]),
        Msg(ts=T0 + 2, **normal),
        Msg(ts=T0 + 3, action="R", bids=[], asks=[]),
        Msg(ts=T0 + 4, **normal),
    ]
    day = ingest(records)
    assert day.snapshots["book_state"].to_list() == [GOOD, EMPTY_SIDE, GOOD, EMPTY_SIDE, GOOD]
    assert day.snapshots["bid_px_00"].to_list() == [20_000, None, 20_000, None, 20_000]
    assert day.snapshots["ask_px_00"].to_list() == [20_001, 20_001, 20_001, None, 20_001]
    assert day.report.one_sided == 2
    alone = ingest([records[2]]).snapshots.drop("segment", "sequence")
    assert day.snapshots.drop("segment", "sequence")[2:3].equals(alone)


def test_touch_without_size_is_an_empty_side(ingest):
    book = [(20_000 * TICK, 0, 0), *ladder(19_999 * TICK, -TICK, 9)]
    assert ingest([Msg(bids=book)]).snapshots["book_state"].to_list() == [EMPTY_SIDE]


def test_crossed_book_is_kept_flagged_and_counted(ingest):
    def book(bid: str, ask: str, ts: int) -> Msg:
        return Msg(ts=ts, bids=ladder(nanos(bid), -TICK), asks=ladder(nanos(ask), TICK))

    start = 1_746_764_400_490_292_531
    records = [
        book("5689.25", "5689.50", start),
        *(book("5690.75", "5689.50", start + 1 + k) for k in range(200)),
        book("5689.50", "5689.50", start + 300),
        book("5689.25", "5689.50", start + 400),
    ]
    day = ingest(records, head=header(day=date(2025, 5, 9)))
    assert day.snapshots["book_state"].to_list() == [GOOD] + [CROSSED] * 200 + [LOCKED, GOOD]
    assert (day.report.crossed, day.report.locked, day.report.snapshots) == (200, 1, 203)


def test_crossed_book_that_its_source_marks_as_wrong_is_suspect(ingest):
    """After a loss a book may look good and still be a fiction."""
    day = ingest([Msg(ts=T0 + k, flags=LAST | Flag.MAYBE_BAD_BOOK * (k == 1)) for k in range(3)])
    assert day.snapshots["book_state"].to_list() == [GOOD, SUSPECT, GOOD]
    assert (day.report.suspect, day.report.maybe_bad_book) == (1, 1)


def test_event_boundary_is_the_flag_and_not_the_time(ingest):
    """Cancel, trade, refill of one event give one row; two events of equal times give two, in file order."""
    refill = ladder(20_000 * TICK, -TICK, size=9)
    records = [
        Msg(ts=T0, action="C", side="B", flags=0, sequence=1),
        Msg(ts=T0, action="T", side="A", price=20_000 * TICK, size=3, flags=0, sequence=2),
        Msg(ts=T0, action="A", side="B", flags=LAST, sequence=3, bids=refill),
        Msg(ts=T0 + 1, sequence=4),
        Msg(ts=T0 + 1, sequence=5),
    ]
    day = ingest(records)
    assert day.snapshots["sequence"].to_list() == [3, 4, 5]
    assert day.snapshots["bid_sz_00"].to_list() == [9, 5, 5]
    assert day.trades["size"].to_list() == [3]
    assert day.trades["snapshot_row"].to_list() == [0]
    assert day.report.records_kept == 5


def test_trade_shows_the_touch_it_met_and_its_aggressor(ingest):
    records = [
        Msg(ts=T0, action="T", side=side, price=(20_000 + k) * TICK, size=1 + k, flags=0, sequence=k)
        for k, side in enumerate("BAN")
    ]
    after = Msg(ts=T0 + 1, bids=ladder(20_007 * TICK, -TICK), asks=ladder(20_008 * TICK, TICK), sequence=3)
    trades = ingest([*records, after]).trades
    assert trades["aggressor"].to_list() == [1, -1, 0]
    assert trades["price"].to_list() == [20_000, 20_001, 20_002]
    assert trades["size"].to_list() == [1, 2, 3]
    assert trades["bid_px"].to_list() == [20_000] * 3
    assert trades["ask_px"].to_list() == [20_001] * 3
    assert trades["snapshot_row"].to_list() == [0, 0, 0]


def test_trade_against_an_empty_side_has_a_null_touch(ingest):
    trade = Msg(action="T", side="A", price=20_000 * TICK, size=1, bids=[EMPTY_LEVEL])
    trades = ingest([trade]).trades
    assert trades["bid_px"].to_list() == [None]
    assert trades["ask_px"].to_list() == [20_001]


def test_trade_without_a_price_is_counted_and_not_in_the_tape(ingest):
    day = ingest([Msg(action="T", side="A", size=1)])
    assert (day.trades.height, day.report.trades_without_price, day.report.snapshots) == (0, 1, 1)


def test_fill_and_none_records_are_no_trades(ingest):
    """A fill repeats the trade's size from the resting side: counting it would double the volume."""
    records = [
        Msg(ts=T0, action="T", side="B", price=20_001 * TICK, size=3, flags=0),
        Msg(ts=T0, action="F", side="A", price=20_001 * TICK, size=3, flags=0),
        Msg(ts=T0, action="N", flags=0),
        Msg(ts=T0, action="M", flags=LAST),
    ]
    day = ingest(records)
    assert day.trades["size"].to_list() == [3]
    assert day.snapshots.height == 1


def test_unfinished_event_at_the_end_is_counted(ingest):
    tail = Msg(ts=T0 + 1, action="T", side="B", price=TICK, size=1, flags=0)
    day = ingest([Msg(), tail, tail])
    assert (day.snapshots.height, day.trades.height) == (1, 0)
    assert day.report.skipped == {"unfinished_event": 2}
    assert day.report.records_kept == 1


def test_events_longer_than_a_chunk_are_one_event(ingest):
    body = [Msg(ts=T0 + k, action="T", side="B", price=TICK, size=1, flags=0, sequence=k) for k in range(99)]
    day = ingest([*body, Msg(ts=T0 + 99, sequence=99)], config=IngestConfig(chunk_records=16))
    assert day.snapshots["sequence"].to_list() == [99]
    assert day.trades["snapshot_row"].to_list() == [0] * 99


def test_file_that_never_marks_event_ends_is_refused(ingest):
    with pytest.raises(InputError, match="event of more than 100 records without the end-of-event flag"):
        ingest([Msg(ts=T0 + k, flags=0) for k in range(200)], config=IngestConfig(max_event_records=100))


def test_off_tick_records_are_counted_and_skipped(ingest):
    crooked = [(20_000 * TICK, 5, 1), (19_999 * TICK + 1, 5, 1)]
    records = [
        Msg(ts=T0, sequence=0),
        Msg(ts=T0 + 1, sequence=1, bids=crooked),
        Msg(ts=T0 + 2, sequence=2, action="T", side="B", price=20_001 * TICK + 1, size=4, flags=0),
        Msg(ts=T0 + 3, sequence=3, action="T", side="B", price=20_001 * TICK, size=2, flags=0),
        Msg(ts=T0 + 4, sequence=4, price=TICK // 2),
        Msg(ts=T0 + 5, sequence=5),
    ]
    day = ingest(records)
    assert day.snapshots["sequence"].to_list() == [0, 5]
    assert day.trades.select("size", "snapshot_row").rows() == [(2, 1)]
    assert day.report.skipped == {"off_tick": 3}
    assert day.report.records_kept == 3


def test_off_tick_level_below_the_touch_of_a_trade_that_ends_its_event_is_skipped(ingest):
    """One record can be a trade and an event's end; it is off the grid when any price it shows is."""
    deep = [*ladder(20_000 * TICK, -TICK, 3), (19_000 * TICK + 1, 5, 1)]
    trade = Msg(ts=T0 + 1, action="T", side="B", price=20_001 * TICK, size=1, bids=deep, sequence=2)
    day = ingest([Msg(), trade])
    assert day.snapshots["sequence"].to_list() == [1]
    assert day.report.skipped["off_tick"] == 1
    assert not day.trades.height


def test_wrong_tick_size_is_an_error_and_no_empty_day(ingest, tmp_path):
    spec = InstrumentSpec(name="wrong", symbols=("TEST",), tick_size="0.3")
    with pytest.raises(InputError, match=r"tick 0\.3 of instrument wrong"):
        ingest([Msg(ts=T0 + k) for k in range(5)], spec=spec)
    assert not (tmp_path / "day").exists()


def test_nanosecond_timestamps_stay_exact(ingest):
    stamps = [1_748_908_801_024_200_193, 1_748_908_801_024_200_194]
    day = ingest([Msg(ts=ts, ts_event=ts - 1) for ts in stamps], head=header(day=date(2025, 6, 3)))
    assert day.snapshots["ts_recv"].dtype == pl.Datetime("ns", "UTC")
    assert day.snapshots["ts_recv"].to_physical().to_list() == stamps
    assert day.snapshots["ts_event"].to_physical().to_list() == [ts - 1 for ts in stamps]
    assert (day.report.first_ts_recv, day.report.last_ts_recv) == tuple(stamps)


def test_sequence_reset_keeps_rows_and_reports_no_wrapped_gap(ingest):
    duplicate = Msg(ts=T0 + 5, sequence=3)
    records = [
        *(Msg(ts=T0 + k, sequence=s) for k, s in enumerate([4_294_967_290, 4_294_967_295, 1, 2, 3])),
        duplicate,
        duplicate,
        Msg(ts=T0 + 6, sequence=0, flags=LAST | 0x20, size=1),
        Msg(ts=T0 + 6, sequence=0, flags=LAST | 0x20, size=2),
    ]
    day = ingest(records)
    assert day.snapshots["sequence"].to_list() == [4_294_967_290, 4_294_967_295, 1, 2, 3, 3, 3, 0, 0]
    assert day.report.largest_sequence_gap == 5
    assert day.report.sequence_gaps == 1
    assert day.report.sequence_resets == 2
    assert day.report.duplicates == 1
    assert day.report.snapshot_records == 2


def test_unknown_action_and_undefined_time_are_skipped_by_reason(ingest):
    strange = bytearray(bytes(Msg(ts=T0 + 1)))
    strange[28:29] = b"Z"
    timeless = Msg(ts=2**64 - 1, ts_event=T0)
    eventless = Msg(ts=T0 + 2, ts_event=2**64 - 1)
    day = ingest([Msg(), bytes(strange), timeless, eventless, Msg(ts=T0 + 3)])
    assert day.snapshots.height == 2
    assert day.report.skipped == {"undefined_timestamp": 2, "unknown_action": 1}
    assert day.report.records_of_instrument == 5


def test_bad_timestamp_and_bad_book_flags_are_counted(ingest):
    records = [Msg(ts=T0 + k, flags=LAST | extra) for k, extra in enumerate([0x08, 0x0C, 0x04, 0, 0x04])]
    day = ingest(records)
    assert (day.report.bad_ts_recv, day.report.maybe_bad_book) == (2, 3)
    # the first flagged record after good ones marks a loss, after which nothing connects with what was before
    assert day.snapshots["segment"].to_list() == [0, 1, 1, 1, 2]
    assert day.report.breaks == {"bad_book": 2}


def test_book_clear_starts_a_segment(ingest):
    records = [
        Msg(ts=T0, sequence=0),
        Msg(ts=T0 + 1, sequence=1, action="R", flags=0, bids=[], asks=[]),
        Msg(ts=T0 + 2, sequence=2, action="A"),
        Msg(ts=T0 + 3, sequence=3),
    ]
    day = ingest(records)
    assert day.snapshots["sequence"].to_list() == [0, 2, 3]
    assert day.snapshots["segment"].to_list() == [0, 1, 1]
    assert (day.report.segments, day.report.breaks) == (2, {"clear": 1})


def test_clear_at_the_very_start_begins_segment_zero(ingest):
    day = ingest([Msg(action="R", bids=[], asks=[]), Msg(ts=T0 + 1)])
    assert day.snapshots["segment"].to_list() == [0, 0]
    assert day.report.breaks == {}


def test_long_silence_starts_a_segment(ingest):
    config = IngestConfig(segment_gap_seconds=10.0)
    times = [0, 10 * SECOND, 20 * SECOND + 1, 21 * SECOND]
    day = ingest([Msg(ts=T0 + t) for t in times], config=config)
    assert day.snapshots["segment"].to_list() == [0, 0, 1, 1]
    assert day.report.breaks == {"gap": 1}
    assert (day.report.largest_gap_ns, day.report.largest_gap_at) == (10 * SECOND + 1, T0 + 10 * SECOND)


def test_trade_is_not_carried_over_a_break(ingest):
    """A trade whose event's end lies behind a clear belongs to no row of either segment."""
    records = [
        Msg(ts=T0),
        Msg(ts=T0 + 1, action="T", side="B", price=20_001 * TICK, size=1, flags=0),
        Msg(ts=T0 + 2, action="R", bids=[], asks=[]),
        Msg(ts=T0 + 3, action="T", side="B", price=20_001 * TICK, size=2, flags=0),
        Msg(ts=T0 + 4),
    ]
    day = ingest(records)
    assert day.trades.select("size", "snapshot_row").rows() == [(2, 2)]
    assert day.report.skipped == {"unfinished_event": 1}


@given(
    tick=st.one_of(st.integers(1, 2**40), st.sampled_from([1, 2, 2**62, 2**63 - 1, 250_000_000])),
    quotient=st.integers(-(2**63), 2**63 - 1),
    price=st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([UNDEF_PRICE - 1, -(2**63), 0])),
)
def test_ticks_are_exact_quotients_and_all_else_is_off_the_grid(tick, quotient, price):
    for nanos in (price, max(-(2**63), min(2**63 - 2, quotient * tick))):
        prices = np.zeros((1, 1), dtype=np.int64)
        on_grid = _put_ticks(nanos, prices, 0, 0, Grid.of(tick))
        assert on_grid == (nanos == UNDEF_PRICE or nanos % tick == 0)
        if on_grid:
            assert prices[0, 0] == (UNDEF_PRICE if nanos == UNDEF_PRICE else nanos // tick)
