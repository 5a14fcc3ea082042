"""LOBSTER's pairs: genuine lines by hand; halts and dummy levels never become prices or trades."""

import gzip
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
import zstandard
from ingested_day import load
from lobster_oracle import message_pairs, records, told

from alpha_core.errors import InputError
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.ingest.events import EMPTY_SIDE, GOOD, SUSPECT
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.lobster import LobsterSource
from alpha_pipeline.ingest.records import UNDEF_PRICE
from alpha_pipeline.ingest.source import discover, open_raw
from alpha_pipeline.instrument import InstrumentSpec

SPEC = InstrumentSpec(name="aapl", symbols=("AAPL",), tick_size="0.01", calendar="XNYS")
NAME = "AAPL_2012-06-21_34200000_57600000_{}_2.csv"
BOOK = "5859400,200,5853300,18,9999999999,0,-9999999999,0"
AFTER = "5859400,150,5853300,18,9999999999,0,-9999999999,0"


def write(folder, rows, name=NAME, packed=lambda data: data):
    """Rows are (message, book) lines."""
    for kind, part in (("message", 0), ("orderbook", 1)):
        text = "".join(f"{row[part]}\n" for row in rows if row[part] is not None)
        (folder / name.format(kind)).write_bytes(packed(text.encode()))
    return folder / name.format("message")


def read(path, chunk_records=100):
    with open_raw(path, SPEC) as file:
        return np.concatenate(list(file.chunks(chunk_records))), file


def test_time_is_that_of_new_york_with_its_clock_changes(tmp_path):
    rows, _ = read(write(tmp_path, [("34200.004241176,1,16113575,18,5853300,1", BOOK)]))
    moment = datetime(2012, 6, 21, 13, 30, tzinfo=UTC)
    assert int(rows["ts_recv"][0]) == int(moment.timestamp()) * 10**9 + 4_241_176
    winter = "AAPL_2012-12-21_34200000_57600000_{}_2.csv"
    rows, _ = read(write(tmp_path, [("34200,1,1,18,5853300,1", BOOK)], winter))
    assert int(rows["ts_recv"][0]) == int(datetime(2012, 12, 21, 14, 30, tzinfo=UTC).timestamp()) * 10**9


def test_dummy_levels_are_absent_and_prices_exact(tmp_path):
    rows, _ = read(write(tmp_path, [("34200.1,1,1,18,5853300,1", BOOK)]))
    levels = rows["levels"][0]
    assert levels["bid_px"].tolist() == [585_330_000_000] + [UNDEF_PRICE] * 9
    assert levels["ask_px"].tolist() == [585_940_000_000] + [UNDEF_PRICE] * 9
    assert (levels["bid_sz"][0], levels["ask_sz"][0], levels["ask_sz"][1:].sum()) == (18, 200, 0)
    assert (rows["action"][0], rows["side"][0], rows["price"][0]) == (b"A", b"B", 585_330_000_000)


def test_execution_is_a_trade_with_the_book_before_and_then_the_change(tmp_path):
    """Type 4, direction -1: a resting sell order was hit by a buyer."""
    path = write(tmp_path, [("34200.1,1,1,18,5853300,1", BOOK), ("34200.2,4,2,50,5859400,-1", AFTER)])
    rows, _ = read(path)
    assert rows["action"].tolist() == [b"A", b"T", b"M"]
    assert rows["side"].tolist()[1:] == [b"B", b"A"]
    assert [int(r["levels"][0]["ask_sz"]) for r in rows] == [200, 200, 150]
    assert (rows["flags"] & 0x80).tolist() == [0x80, 0, 0x80]
    day = load(tmp_path / "day", ingest_day([path], SPEC, tmp_path / "day"))
    assert day.snapshots["book_state"].to_list() == [GOOD, GOOD]
    assert day.trades.select("price", "size", "aggressor", "ask_px").row(0) == (58_594, 50, 1, 58_594)


def test_hidden_and_cross_trades_change_no_book(tmp_path):
    messages = [
        ("34200.1,1,1,18,5853300,1", BOOK),
        ("34200.2,5,0,7,5855000,1", BOOK),
        ("34200.3,6,0,9,5856000,1", BOOK),
    ]
    path = write(tmp_path, messages)
    day = load(tmp_path / "day", ingest_day([path], SPEC, tmp_path / "day"))
    assert day.trades["size"].to_list() == [7, 9]
    assert day.trades["aggressor"].to_list() == [-1, 0]
    assert day.snapshots["action"].to_list() == ["A", "T", "T"]


def test_halt_masks_its_interval_and_breaks_the_day(tmp_path):
    """Price -1, 0 and 1 are no prices, and the book rows repeated meanwhile are no books to trade in."""
    rows = [
        ("34200.1,1,1,18,5853300,1", BOOK),
        ("34201,7,0,0,-1,-1", BOOK),
        ("34202,1,3,5,5853300,1", BOOK),
        ("34203,7,0,0,0,-1", BOOK),
        ("34204,1,4,5,5853300,1", BOOK),
        ("34205,7,0,0,1,-1", BOOK),
        ("34206,1,5,5,5853300,1", BOOK),
    ]
    path = write(tmp_path, rows)
    day = load(tmp_path / "day", ingest_day([path], SPEC, tmp_path / "day"))
    states = day.snapshots["book_state"].to_list()
    assert states[0] == GOOD and states[-2:] == [GOOD, GOOD]
    assert set(states[1:5]) <= {SUSPECT, EMPTY_SIDE}
    good = day.snapshots.filter(pl.col("book_state") == GOOD)["segment"].to_list()
    assert good[0] < good[1]
    assert day.trades.is_empty()
    assert day.snapshots["price"].drop_nulls().min() == 58_533
    assert day.report.sources[0].counts == {"halt messages -1": 1, "halt messages 0": 1, "halt messages 1": 1}


@pytest.mark.parametrize("packed", [lambda data: data, gzip.compress], ids=["plain", "gzip"])
def test_pairs_of_unequal_length_give_what_both_have(tmp_path, packed):
    rows = [("34200.1,1,1,18,5853300,1", BOOK), ("34200.2,1,1,18,5853300,1", None)]
    name = NAME + (".gz" if packed is gzip.compress else "")
    found, file = read(write(tmp_path, rows, name, packed))
    assert (len(found), file.truncated) == (1, True)
    found, file = read(write(tmp_path, [*rows[:1], (None, BOOK)], name, packed))
    assert (len(found), file.truncated) == (1, True)


@pytest.mark.parametrize("chunk_records", [1, 2, 5])
def test_chunks_change_nothing(tmp_path, chunk_records):
    rows = [(f"3420{k}.5,{1 + k % 4},1,{k + 1},5853300,1", BOOK) for k in range(9)]
    path = write(tmp_path, rows)
    assert read(path, chunk_records)[0].tobytes() == read(path)[0].tobytes()


@pytest.mark.parametrize(
    ("message", "book"),
    [
        ("34200.1,9,1,18,5853300,1", BOOK),
        ("x,1,1,18,5853300,1", BOOK),
        ("34200.1,1,1", BOOK),
        ("34200.1,1,1,18,5853300,1", "1,2,3"),
        ("34200.1,1,1,18,5853300,1", "5859400,0,5853300,18,9999999999,0,-9999999999,0"),
        ("34200.1,1,1,18,5853300,1", "5859400,1,-5853300,18,9999999999,0,-9999999999,0"),
        ("34200.1,1,1,18,9999999999999999,1", BOOK),
        ("34200.1,1,1,18,-1,1", BOOK),
        ("34200.1,7,0,0,2,-1", BOOK),
        ("34200.1,4,1,18,5853300,0", BOOK),
        ("34200.1,1,1,4294967296,5853300,1", BOOK),
        ("34200.1,1,1,-1,5853300,1", BOOK),
        ("34200.1,1,1,0x12,5853300,1", BOOK),
        ("34200.1,1,1, 18,5853300,1", BOOK),
        ("34200.1,1,1,18,5853300,1,null,null", BOOK),
        ("34200.1,1,1,18,5853300,1\r34200.1,1,1,18,5853300,1", BOOK),
        ("", ""),
        *(
            (f"{time},1,1,18,5853300,1", BOOK)
            for time in ("", "-1", "1.0000000001", "1e3", "34200.x", "172800")
        ),
    ],
)
def test_line_that_is_none_is_named(tmp_path, message, book):
    good = ("34200.1,1,1,18,5853300,1", BOOK)
    with pytest.raises(InputError, match="have in line 2 no message and book"):
        read(write(tmp_path, [good, (message, book), good]))


def test_message_file_without_its_book_is_one_sentence(tmp_path):
    path = write(tmp_path, [("34200.1,1,1,18,5853300,1", BOOK)])
    (tmp_path / NAME.format("orderbook")).unlink()
    with pytest.raises(
        InputError, match=r"has no AAPL_2012-06-21_34200000_57600000_orderbook_2\.csv beside it"
    ):
        read(path)


def test_pair_is_one_day_of_its_ticker(tmp_path):
    path = write(tmp_path, [("34200.1,1,1,18,5853300,1", BOOK)])
    book = tmp_path / NAME.format("orderbook")
    found = discover(LocalFolder(tmp_path), SPEC)
    assert found == {"2012-06-21": [path, book]}, "a change of either makes the day stale"
    report = ingest_day(found["2012-06-21"], SPEC, tmp_path / "day")
    assert (report.snapshots, [source.records for source in report.sources]) == (1, [1, 0])


@pytest.mark.parametrize(
    ("seed", "levels", "count"), [(0, 1, 300), (1, 2, 300), (2, 10, 300), (3, 12, 300), (4, 3, 40_000)]
)
def test_bulk_reading_equals_the_plain_one(tmp_path, seed, levels, count):
    """Random pairs with halts, dummies, hidden and cross trades; the last is longer than a batch."""
    pairs = message_pairs(np.random.default_rng(seed), levels, count)
    rows, file = read(write(tmp_path, pairs, f"AAPL_2012-06-21_34200000_57600000_{{}}_{levels}.csv"))
    midnight = int(datetime(2012, 6, 21, 4, tzinfo=UTC).timestamp()) * 10**9
    assert told(rows) == records(pairs, midnight)
    assert (file.records_read, file.truncated) == (len(rows), False)
    assert set(rows["action"].tolist()) == {b"A", b"C", b"M", b"N", b"R", b"T"}


def test_halt_that_begins_with_quoting_is_one(tmp_path):
    """An opening auction after news: only the resumption of quoting is told, then that of trading."""
    messages = ["34200.1,1,1,18,5853300,1", "34201,7,0,0,0,-1", "34202,7,0,0,-1,-1", "34203,7,0,0,1,-1"]
    rows, _ = read(write(tmp_path, [(message, BOOK) for message in messages]))
    assert rows["action"].tolist() == [b"A", b"R", b"N", b"N"]
    assert (rows["flags"] & 4).tolist() == [0, 4, 4, 0]
    assert rows["price"].tolist()[1:] == [UNDEF_PRICE] * 3


def test_message_with_attribution_and_windows_line_ends_is_read(tmp_path):
    rows, _ = read(write(tmp_path, [("34200.1,1,1,18,5853300,1,null\r", BOOK + "\r")] * 2))
    assert rows["size"].tolist() == [18, 18]


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
def test_cut_pairs_give_their_whole_lines(tmp_path, packed):
    pairs = message_pairs(np.random.default_rng(5), 2, 12_000)
    name = f"{NAME}.{'gz' if packed is gzip.compress else 'zst'}"
    whole, _ = read(write(tmp_path, pairs, name, packed))
    path = write(tmp_path, pairs, name, lambda data: packed(data)[: len(packed(data)) // 2])
    rows, file = read(path)
    assert 0 < len(rows) < len(whole) and file.truncated
    assert rows.tobytes() == whole[: len(rows)].tobytes()


def test_files_of_two_depths_are_one_day_told_twice(tmp_path):
    for levels in (1, 2):
        name = f"AAPL_2012-06-21_34200000_57600000_{{}}_{levels}.csv"
        write(tmp_path, message_pairs(np.random.default_rng(6), levels, 20), name)
    found = discover(LocalFolder(tmp_path), SPEC)
    with pytest.raises(InputError, match="both tell the day of AAPL: remove one of them"):
        ingest_day(found["2012-06-21"], SPEC, tmp_path / "day")


@pytest.mark.parametrize(
    "name",
    [
        "aapl_2012-06-21_1_2_message_2.csv",
        "AAPL_2012-06-21_1_2_trades_2.csv",
        "AAPL_２012-06-21_1_2_message_2.csv",
        "AAPL_2012-06-21_1_2_message_2.csv.bz2",
        "x_AAPL_2012-06-21_1_2.csv",
    ],
)
def test_other_names_are_none_of_a_pair(name):
    assert LobsterSource().parse(name) is None
