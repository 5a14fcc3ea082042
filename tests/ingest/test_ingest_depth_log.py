"""Recordings of depth and trade streams: joined to their snapshot, exact, and equal to the derived real days."""

import gzip
import json

import databento
import numpy as np
import pytest
import zstandard

from alpha_core.errors import ConfigError, InputError
from alpha_pipeline.config import load
from alpha_pipeline.ingest import SNAPSHOTS, ingest_day
from alpha_pipeline.ingest.depth_message import nano
from alpha_pipeline.ingest.events import GOOD, SUSPECT
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.source import discover, open_raw
from alpha_pipeline.ingest.tables import read_slices
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.paths import Workspace

SPEC = InstrumentSpec(name="x", symbols=("XYZ",), tick_size="0.01", lot_size="0.001")
T0 = 1_709_733_600_000_000  # microseconds, 2024-03-06 14:00 UTC


def snapshot(last_id, bids, asks):
    return {"lastUpdateId": last_id, "bids": bids, "asks": asks}


def depth(first, last, bids=(), asks=(), ms=1_709_733_600_000):
    data = {"e": "depthUpdate", "E": ms, "s": "XYZ", "U": first, "u": last, "b": list(bids), "a": list(asks)}
    return {"stream": "xyz@depth@100ms", "data": data}


def trade(price, quantity, maker_buys=False):
    data = {
        "e": "trade",
        "E": 1_709_733_600_002,
        "T": 1_709_733_600_001,
        "s": "XYZ",
        "p": price,
        "q": quantity,
        "m": maker_buys,
    }
    return {"stream": "xyz@trade", "data": data}


START = snapshot(100, [["100.00", "1.000"], ["99.99", "5.000"]], [["100.01", "2.000"], ["100.02", "3.000"]])


def text(messages):
    return "".join(f"{T0 + k} {json.dumps(m)}\n" for k, m in enumerate(messages)).encode()


def json_line(message):
    return f"{T0} {json.dumps(message)}".encode()


def write(folder, messages, name="xyz_20240306.gz"):
    path = folder / name
    path.write_bytes(gzip.compress(text(messages)))
    return path


def read(path, spec=SPEC, chunk_records=100, leads=()):
    with open_raw(path, spec, [*leads, path]) as file:
        parts = list(file.chunks(chunk_records))
    return (np.concatenate(parts) if parts else np.empty(0, [("flags", "u1")])), file


def touch(row):
    best = row["levels"][0]
    return (int(best["bid_px"]), int(best["bid_sz"]), int(best["ask_px"]), int(best["ask_sz"]))


def test_book_sync_differences_are_joined_to_the_snapshot_by_their_ids(tmp_path):
    """The recipe: known ones dropped, repeats harmless, quantities absolute, a hole distrusted until a snapshot."""
    messages = [
        START,
        depth(95, 99, [["100.00", "9.000"]]),
        depth(98, 103, [["100.00", "0.852"]]),
        depth(104, 110, [["100.00", "0.912"]]),
        depth(104, 110, [["100.00", "0.912"]]),
        depth(112, 115, [], [["100.01", "0.500"]]),
        depth(116, 117, [], [["100.01", "0.600"]]),
        snapshot(130, [["100.00", "4.000"]], [["100.01", "4.000"]]),
        depth(131, 131, [["100.00", "3.000"]]),
    ]
    rows, file = read(write(tmp_path, messages))
    assert [touch(row)[1] for row in rows] == [852, 912, 912, 912, 3000]
    assert [touch(row)[3] for row in rows] == [2000, 2000, 500, 600, 4000]
    assert [bool(row["flags"] & 4) for row in rows] == [False, False, True, True, False]
    assert file.counts == {"updates_known_already": 4, "holes_in_the_ids": 1}, "two behind the hole wait"
    report = ingest_day([file.path], SPEC, tmp_path / "day")
    (table,) = read_slices(tmp_path / "day" / SNAPSHOTS)
    assert table["book_state"].to_list() == [GOOD, GOOD, SUSPECT, SUSPECT, GOOD]
    assert (report.suspect, report.sources[0].counts["holes_in_the_ids"]) == (2, 1)


def test_book_sync_a_level_left_behind_is_removed_when_the_other_side_passes_it(tmp_path):
    """Bid 100.00 was never zeroed, the ask arrives at 99.98: no crossed book remains."""
    rows, file = read(write(tmp_path, [START, depth(101, 101, [], [["99.98", "2.000"]])]))
    assert touch(rows[-1]) == (2**63 - 1, 0, 99_980_000_000, 2000), "both bids lay at or above the new ask"
    assert file.counts["stale_levels_removed"] == 2


def test_book_sync_differences_before_the_answer_wait_for_it(tmp_path):
    early = [depth(96, 100, [["100.00", "7.000"]]), depth(101, 104, [["100.00", "8.000"]])]
    rows, file = read(write(tmp_path, [*early, START, depth(105, 105, [["99.99", "6.000"]])]))
    assert [touch(row)[1] for row in rows] == [8000]
    assert file.counts == {"updates_before_a_snapshot": 2, "updates_known_already": 1}


def test_trade_shows_the_book_before_it_and_its_aggressor(tmp_path):
    messages = [
        START,
        trade("100.01", "0.500"),
        depth(101, 101, [], [["100.01", "1.500"]]),
        trade("100.00", "0.1", True),
    ]
    rows, _ = read(write(tmp_path, messages))
    assert rows["action"].tolist() == [b"T", b"M", b"T"]
    assert rows["side"].tolist() == [b"B", b"N", b"A"]
    assert rows["price"].tolist()[::2] == [100_010_000_000, 100_000_000_000]
    assert rows["size"].tolist() == [500, 0, 100]
    assert [touch(row)[3] for row in rows] == [2000, 1500, 1500]
    assert rows["ts_event"][0] == 1_709_733_600_001 * 10**6


def test_differences_below_the_ten_levels_give_no_row(tmp_path):
    deep = [[f"{99 - k}.00", "1.000"] for k in range(12)]
    messages = [
        snapshot(1, deep, [["100.00", "1.000"]]),
        depth(2, 2, [["88.00", "5.000"]]),
        depth(3, 3, [["87.00", "5.000"]]),
    ]
    rows, file = read(write(tmp_path, messages))
    assert len(rows) == 1, "the first difference shows the book for the first time"
    assert file.counts == {"updates_below_the_levels_shown": 1}


def test_log_without_snapshot_goes_on_from_those_before(tmp_path):
    """The earlier logs are files of the day: a change of them makes it stale, and they give no records of their own."""
    first = write(tmp_path, [START, depth(101, 105, [["100.00", "2.000"]])], "xyz_20240305.gz")
    second = write(tmp_path, [depth(106, 107, [["100.00", "3.000"]])])
    third = write(tmp_path, [depth(108, 108, [["99.99", "6.000"]]), trade("100.00", "1")], "xyz_20240307.gz")
    write(tmp_path, [START, depth(101, 101, [["99.99", "1.000"]])], "xyz_20240308.gz")
    days = discover(LocalFolder(tmp_path), SPEC)
    assert [len(days[f"2024-03-0{day}"]) for day in (5, 6, 7, 8)] == [1, 2, 3, 1]
    assert days["2024-03-07"] == [first, second, third]
    report = ingest_day(days["2024-03-07"], SPEC, tmp_path / "day")
    (table,) = read_slices(tmp_path / "day" / SNAPSHOTS)
    assert (table["bid_sz_00"].to_list(), table["bid_sz_01"].to_list()) == ([3000, 3000], [6000, 6000])
    assert table["book_state"].to_list() == [GOOD, GOOD]
    assert [source.records for source in report.sources] == [0, 0, 2]
    assert report.sources[2].counts["continued_from_earlier_logs"] == 2


def test_log_that_does_not_connect_to_the_one_before_is_out_of_sync(tmp_path):
    lead = write(tmp_path, [START], "xyz_20240305.gz")
    rows, file = read(write(tmp_path, [depth(109, 110, [["100.00", "3.000"]])]), leads=[lead])
    assert [bool(flags & 4) for flags in rows["flags"]] == [True]
    assert file.counts["holes_in_the_ids"] == 1


def test_log_without_any_snapshot_tells_its_trades_and_no_book_to_believe(tmp_path):
    late = [["100.00", "3.000"]], [["100.01", "4.000"]]
    messages = [depth(109, 110, *late), trade("100.00", "1"), snapshot(110, *late), depth(111, 111, *late)]
    with_filler = [*messages[:2], *[depth(109, 110)] * 1000, *messages[2:]]
    rows, file = read(write(tmp_path, with_filler))
    assert [(row["action"], bool(row["flags"] & 4)) for row in rows] == [
        (b"M", True),
        (b"T", True),
        (b"M", False),
    ]
    assert file.counts == {"updates_known_already": 1001}, "and the one that the snapshot repeats"
    day = ingest_day([file.path], SPEC, tmp_path / "day")
    assert (day.trades, day.suspect) == (1, 2)


def test_book_sync_a_snapshot_older_than_a_synced_book_changes_nothing(tmp_path):
    """A recorder that asks for a snapshot every hour: its answer is older than the differences that overtook it."""
    messages = [
        START,
        depth(101, 110, [["100.00", "0.852"]]),
        snapshot(105, [["99.00", "1.000"]], [["100.01", "2.000"]]),
        depth(111, 112, [["100.00", "0.912"]]),
    ]
    rows, file = read(write(tmp_path, messages))
    assert [touch(row)[1] for row in rows] == [852, 912]
    assert not (rows["flags"] & 4).any()
    assert file.counts == {"snapshots_known_already": 1}


def test_book_sync_differences_behind_a_hole_come_after_the_snapshot_that_mends_it(tmp_path):
    messages = [
        START,
        depth(105, 106, [["100.00", "6.000"]]),
        depth(107, 108, [["99.99", "7.000"]]),
        snapshot(106, [["100.00", "5.000"], ["99.99", "5.000"]], [["100.01", "1.000"]]),
        depth(109, 109, [["99.98", "9.000"]]),
    ]
    rows, file = read(write(tmp_path, messages))
    assert [bool(row["flags"] & 4) for row in rows] == [True, True, False]
    assert rows[-1]["levels"]["bid_sz"][:3].tolist() == [5000, 7000, 9000]
    assert file.counts == {"holes_in_the_ids": 1, "updates_known_already": 1}


def test_other_symbols_other_days_and_trades_of_nothing_are_counted(tmp_path):
    stranger = depth(101, 101, [["1.00", "1.000"]])
    stranger["stream"] = "abc@depth"
    tickers = [{"stream": f"xyz@kind{k}", "data": {}} for k in range(40)]
    messages = [START, stranger, trade("100.00", "0"), *tickers, trade("100.00", "1")]
    rows, file = read(write(tmp_path, messages, "xyz_20240305.gz"))
    assert len(rows) == 1
    assert file.counts == {"trades_without_size": 1, "rows_of_other_days": 1}
    assert len(file.skipped_by_type) <= 33 and file.skipped_by_type.total() == len(messages) - 1
    assert (file.skipped_by_type["other_symbol"], file.skipped_by_type["other"]) == (1, 11)


@pytest.mark.parametrize("chunk_records", [1, 2, 7])
def test_chunks_change_nothing(tmp_path, chunk_records):
    messages = [START, *(depth(101 + k, 101 + k, [["100.00", f"{k + 1}.000"]]) for k in range(20))]
    path = write(tmp_path, messages)
    assert read(path, chunk_records=chunk_records)[0].tobytes() == read(path)[0].tobytes()


def test_precision_times_in_micro_and_nanoseconds_are_exact(tmp_path):
    path = tmp_path / "xyz_20240306.log"
    lines = [
        f"{T0} {json.dumps(START)}",
        f"1709733600123456789 {json.dumps(depth(101, 101, [['100.00', '2.000']]))}",
    ]
    path.write_text("\n".join(lines) + "\n")
    assert read(path)[0]["ts_recv"].tolist() == [1_709_733_600_123_456_789]


@pytest.mark.parametrize(
    ("decimal", "expected"),
    [("1.21400000", 1_214_000_000), ("0.000000001", 1), ("-3.5", -3_500_000_000), ("7", 7 * 10**9)],
)
def test_price_scale_decimals_become_integers_exactly(decimal, expected):
    assert nano(decimal) == expected


@pytest.mark.parametrize(
    "decimal", ["", ".", "1e5", "nan", "1.0000000001", "1.2.3", "0x1", "１.5", 1.5, None, "--1"]
)
def test_price_scale_other_texts_are_no_prices(decimal):
    with pytest.raises(ValueError):
        nano(decimal)


def test_line_that_is_no_message_is_named_also_when_the_log_of_the_day_before_is_there(tmp_path):
    lead = write(tmp_path, [START], name="xyz_20240305.gz")
    path = tmp_path / "xyz_20240306.json"
    path.write_bytes(b'1709733600000000 {"stream": "xyz@depth", "data": {}}\n')
    with pytest.raises(
        InputError, match=r"has in line 1 no message of a depth or trade stream \(no field 'U'\)"
    ):
        read(path, leads=[lead])


def test_sizes_between_lots_are_rounded_never_to_nothing_and_counted(tmp_path):
    rows, file = read(
        write(tmp_path, [START, depth(101, 101, [["100.00", "0.0001"]], [["100.01", "1.2346"]])])
    )
    assert (touch(rows[0])[1], touch(rows[0])[3]) == (1, 1235)
    assert file.counts["sizes_between_lots"] == 2
    with pytest.raises(InputError, match=r"line 2 .*\(size 99999999 is not in \[0, 4294967295\] lots"):
        read(write(tmp_path, [START, depth(101, 101, [["100.00", "99999999"]])]))


@pytest.mark.parametrize(
    "line",
    [
        b"no time {}",
        b"1709733600000000",
        b'1709733600000000 {"stream": 3}',
        b"1709733600000000 [1]",
        b"\xff\xfe {}",
        b"1709733600000 {}",
        b"1_709_733_600_000_000 {}",
        b"1709733600000000 " + b"[" * 100_000,
        b'1709733600000000 {"stream": "xyz@depth", "data": {"U": 1e999, "u": 101, "E": 1, "b": [], "a": []}}',
        json_line(depth(101, 101, [[100.0, "1.000"]])),
        json_line(depth(101, 101, [["-1.00", "1.000"]])),
        json_line(depth(101, 101, [["100.00", "-0.0001"]])),
        json_line(depth(103, 101)),
        json_line(depth(101.5, 103)),
        json_line(trade("100.00", "1", "yes")),
    ],
    ids=range(15),
)
def test_line_that_is_no_message_is_named(tmp_path, line):
    path = tmp_path / "xyz_20240306.json"
    path.write_bytes(text([START]) + line + b"\n" + text([START]))
    with pytest.raises(InputError, match="has in line 2 no message of a depth or trade stream"):
        read(path)


def test_cut_logs_give_their_whole_lines(tmp_path):
    messages = [START, *(depth(101 + k, 101 + k, [["100.00", f"{k + 1}.000"]]) for k in range(300))]
    whole = text(messages)
    plain = tmp_path / "xyz_20240306.log"
    plain.write_bytes(whole[:-7])
    rows, file = read(plain)
    assert (len(rows), file.truncated) == (299, True)
    assert file.trailing_bytes == len(whole.splitlines()[-1]) + 1 - 7
    for name, packed in (
        ("xyz_20240306.gz", gzip.compress(whole)),
        ("xyz_20240306.zst", zstandard.compress(whole)),
    ):
        path = tmp_path / name
        path.write_bytes(packed[: len(packed) * 3 // 4])
        rows, file = read(path)
        assert 0 <= len(rows) < 300 and file.truncated
    damaged = bytearray(gzip.compress(whole))
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "xyz_20240306.gz").write_bytes(damaged)
    with pytest.raises(InputError):
        read(tmp_path / "xyz_20240306.gz")


def test_names(tmp_path):
    for name in (
        "xyz_20240306.gz",
        "abcxyz_20240306.gz",
        "xyz_20240307.dat.gz",
        "notes_20240306",
    ):
        (tmp_path / name).write_bytes(gzip.compress(text([START])))
    found = discover(LocalFolder(tmp_path), SPEC)
    assert {day: [p.name for p in paths] for day, paths in found.items()} == {
        "2024-03-06": ["xyz_20240306.gz"],
        "2024-03-07": ["xyz_20240307.dat.gz"],
    }


def test_lot_size_is_checked():
    with pytest.raises(ConfigError, match="lot_size was '0', must be a positive decimal"):
        InstrumentSpec(lot_size="0")


REAL = {
    ("btcusdt", "btcusdt_20240808.gz"): ("BTCUSDT-2024-08-08", 12_905, 12_905),
    ("btcusdt", "btcusdt_20240809.gz"): ("BTCUSDT-2024-08-09", 13_100, 13_100),
    ("nexousdt", "nexousdt_20240723.dat.gz"): ("NEXOUSDT-2024-07-23", 994, 22_288),
}


@pytest.mark.real_data
@pytest.mark.parametrize("key", REAL, ids=lambda key: key[1])
def test_real_logs_give_the_derived_days(real_data, key):
    """Record by record; of the NEXO day only the first twenty minutes of the log are there.

    Equal are times, actions, sides, prices, sizes, flags and all ten levels. The derived files number their records;
    here `sequence` is the id of the last change applied. Their publisher and instrument ids are their own.
    """
    instrument, log = key
    derived, rows_here, rows_there = REAL[key]
    leads = [real_data / "depth-logs" / "btcusdt_20240808.gz"] if log == "btcusdt_20240809.gz" else []
    rows, file = read(
        real_data / "depth-logs" / log, load(instrument, Workspace.locate()).instrument, leads=leads
    )
    official = databento.DBNStore.from_file(
        real_data / "mbp10-derived" / f"{derived}.mbp-10.dbn.zst"
    ).to_ndarray()
    assert (len(rows), len(official)) == (rows_here, rows_there)
    official = official[: len(rows)]
    for name in ("ts_recv", "ts_event", "action", "side", "price", "size", "flags", "ts_in_delta", "depth"):
        np.testing.assert_array_equal(rows[name], official[name], err_msg=name)
    for k in range(10):
        for name in ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct"):
            np.testing.assert_array_equal(
                rows["levels"][name][:, k], official[f"{name}_{k:02d}"], err_msg=name
            )
    assert file.counts.get("holes_in_the_ids", 0) == 0


def derived_rows(real_data, *days):
    folder = real_data / "mbp10-derived"
    stores = (databento.DBNStore.from_file(folder / f"NEXOUSDT-{day}.mbp-10.dbn.zst") for day in days)
    return np.concatenate([store.to_ndarray() for store in stores])


def books(rows, column):
    """[n, 60] int64: ten levels of each row."""
    names = ("bid_px", "ask_px", "bid_sz", "ask_sz", "bid_ct", "ask_ct")
    return np.stack([column(rows, name, k).astype(np.int64) for k in range(10) for name in names], axis=1)


@pytest.mark.real_data
def test_real_log_without_its_predecessor_reaches_the_derived_days_record_by_record(real_data):
    """The log is named by its recorder's local date, eight hours ahead of UTC, and goes on from one that is absent.

    So it holds the last eight hours of the derived 24th and all of the derived 25th. Its book begins empty, and is
    marked as not to be believed. The differences from the derived rows, all explained:
        * flags: the mark, in every row;
        * fourteen more rows within the first minutes: a level that is among the ten only while better ones are unknown;
        * books of the first 1500 rows, until each level among the ten has been told once; none later.
    """
    rows, file = read(
        real_data / "depth-logs" / "nexousdt_20240725.dat.gz", load("nexousdt", Workspace.locate()).instrument
    )
    official = derived_rows(real_data, "2024-07-24", "2024-07-25")
    official = official[official["ts_recv"] >= rows["ts_recv"][0]]
    assert (len(rows), len(official)) == (29_212, 29_198)
    assert (file.counts["rows_of_other_days"], file.counts.get("holes_in_the_ids", 0)) == (21_336, 0)
    np.testing.assert_array_equal(rows["flags"], 0x80 | 0x10 | 0x04)
    # a row is known by its time, action and number of trades so far
    keys = [
        list(zip(part["ts_recv"], part["action"], np.cumsum(part["action"] == b"T"), strict=True))
        for part in (rows, official)
    ]
    known = set(keys[1])
    assert len(known) == len(official)
    kept = np.array([key in known for key in keys[0]])
    assert np.flatnonzero(~kept).max() < 1500
    rows = rows[kept]
    for name in ("ts_recv", "ts_event", "action", "side", "price", "size", "ts_in_delta", "depth"):
        np.testing.assert_array_equal(rows[name], official[name], err_msg=name)
    mine = books(rows, lambda part, name, k: part["levels"][name][:, k])
    theirs = books(official, lambda part, name, k: part[f"{name}_{k:02d}"])
    np.testing.assert_array_equal(mine[1500:], theirs[1500:])
    midnight = 1_721_865_600 * 10**9
    assert np.count_nonzero(rows["ts_recv"] >= midnight) == 7876, "the derived 25th, equal in every row"
