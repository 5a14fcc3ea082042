"""Books built from orders: hand-worked streams, and random ones against a dictionary of orders."""

from collections import Counter
from pathlib import Path

import databento_dbn as dbn
import numpy as np
import pytest
from dbn_builder import LAST, T0, TICK, Order, foreign, header, write
from dbn_strategies import SECOND, File, contained
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingested_day import Day, load
from mbo_oracle import Oracle

from alpha_core.errors import InputError
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.ingest.databento import DbnFile
from alpha_pipeline.ingest.mbo import MAX_EVENT_RECORDS, PIECE, BookBuilder
from alpha_pipeline.ingest.records import MBO_DTYPE, MBP10_DTYPE, UNDEF_PRICE, Flag

SNAPSHOT = int(Flag.SNAPSHOT | Flag.BAD_TS_RECV)
Rows = list[tuple[str, int, list[tuple[int, int, int]], list[tuple[int, int, int]]]]


def orders_header(**more: object) -> bytes:
    return header(**{"schema": dbn.Schema.MBO} | more)


@pytest.fixture
def built(tmp_path):
    """Reads records as a file: the MBP-10 records and what was counted (what is zero left out)."""

    def run(*records: object, **more: object) -> tuple[np.ndarray, dict[str, int]]:
        with DbnFile(write(tmp_path / "x.mbo.dbn.zst", records, head=orders_header(**more))) as file:
            rows = [chunk.copy() for chunk in file.chunks(16)]
        counts = {name: count for name, count in file.counts.items() if count}
        return np.concatenate([*rows, np.empty(0, MBP10_DTYPE)]), counts

    return run


def shown(rows: np.ndarray) -> Rows:
    """Action, flags, bids and asks (price in ticks, size, orders) of each row; levels that are there."""
    found: Rows = []
    for row in rows:
        sides = [
            [
                (int(level[f"{side}_px"]) // TICK, int(level[f"{side}_sz"]), int(level[f"{side}_ct"]))
                for level in row["levels"]
                if level[f"{side}_px"] != UNDEF_PRICE
            ]
            for side in ("bid", "ask")
        ]
        found.append((row["action"].decode(), int(row["flags"]), *sides))
    return found


def order(
    action: str, number: int, side: str, ticks: int, size: int, flags: int = LAST, **more: int
) -> Order:
    return Order(action=action, id=number, side=side, price=ticks * TICK, size=size, flags=flags, **more)


CLEAR = Order(action="R", id=0, side="N", flags=0)
BID, ASK = order("A", 1, "B", 100, 10, 0), order("A", 2, "A", 101, 5, 0)


def test_fill_and_none_records_change_no_book(tmp_path, built, spec):
    """MBO Fill/None records applied as book updates: phantom orders, crossed book, doubled volume."""
    records = [
        CLEAR,
        BID,
        ASK,
        order("T", 0, "B", 101, 3, 0),
        order("F", 2, "A", 101, 3, 0),
        order("M", 2, "A", 101, 2, 0),
        order("F", 999, "B", 99, 4, 0),
        Order(action="N", id=0, side="N"),
    ]
    rows, counts = built(*records)
    assert shown(rows) == [
        ("R", 0, [], []),
        ("T", 0, [(100, 10, 1)], [(101, 5, 1)]),
        ("N", LAST, [(100, 10, 1)], [(101, 2, 1)]),
    ]
    assert counts == {}
    path = write(tmp_path / "TEST-2024-03-06.mbo.dbn.zst", records, head=orders_header())
    day = load(tmp_path / "day", ingest_day([path], spec, tmp_path / "day"))
    assert day.trades.select("price", "size", "aggressor", "bid_px", "ask_px").rows() == [
        (101, 3, 1, 100, 101)
    ]
    assert (day.report.records_read, day.report.records_kept) == (8, 3)
    assert dict(day.report.skipped_by_type) == {"mbo-folded": 5}


def test_cancel_reduces_by_its_size_and_removes_at_zero(built):
    rows, counts = built(
        BID,
        order("C", 1, "B", 100, 4),
        order("C", 1, "B", 100, 6),
        order("C", 1, "B", 100, 1),
        order("A", 3, "B", 99, 2),
        order("C", 3, "B", 99, 9),
    )
    assert [row[2] for row in shown(rows)] == [[(100, 6, 1)], [], [(99, 2, 1)], []]
    assert counts == {
        "unknown_orders_cancelled": 1,
        "cancelled_beyond_size": 1,
        "events_without_visible_change": 1,
    }


def test_modify_moves_an_order_and_adds_an_unknown_one_as_the_vendor_says(built):
    rows, counts = built(
        BID,
        order("M", 1, "B", 99, 7),
        order("M", 8, "A", 103, 3),
        order("M", 1, "A", 102, 7),
        order("M", 8, "A", 102, 1),
    )
    assert [row[2:] for row in shown(rows)] == [
        ([(99, 7, 1)], []),
        ([(99, 7, 1)], [(103, 3, 1)]),
        ([], [(102, 7, 1), (103, 3, 1)]),
        ([], [(102, 8, 2)]),
    ]
    assert counts == {"unknown_orders_modified": 1}


def test_order_that_cannot_rest_is_counted_and_leaves_no_level(built):
    rows, counts = built(
        order("A", 1, "N", 100, 1),
        Order(id=2, price=UNDEF_PRICE, size=1),
        order("A", 3, "B", 100, 0),
        order("A", 4, "B", 98, 1),
        order("M", 4, "B", 98, 0),
        order("A", 5, "B", 97, 2, 0),
        order("A", 5, "B", 96, 3),
    )
    assert [row[2] for row in shown(rows)] == [[(98, 1, 1)], [], [(96, 3, 1)]]
    assert counts == {
        "orders_without_side": 1,
        "orders_without_price": 1,
        "orders_without_size": 2,
        "known_orders_added": 1,
        "events_without_visible_change": 3,
    }


def test_snapshot_shows_nothing_until_it_is_complete(built):
    records = [
        Order(action="R", id=0, side="N", price=UNDEF_PRICE, flags=SNAPSHOT),
        order("A", 1, "B", 100, 2, SNAPSHOT),
        order("A", 2, "A", 101, 3, SNAPSHOT | LAST),
    ]
    rows, counts = built(*records)
    assert shown(rows) == [
        ("R", SNAPSHOT, [], []),
        ("A", SNAPSHOT | LAST, [(100, 2, 1)], [(101, 3, 1)]),
    ]
    assert rows["price"].tolist() == [UNDEF_PRICE, 101 * TICK]
    assert counts == {}


def test_old_snapshot_without_end_is_complete_with_the_first_event(built):
    """Before 2024-02 the vendor's snapshots had neither a clear nor a last record."""
    rows, _ = built(
        order("A", 1, "B", 100, 2, SNAPSHOT), order("A", 2, "A", 101, 3, SNAPSHOT), CANCEL_UNKNOWN
    )
    assert shown(rows) == [("C", LAST, [(100, 2, 1)], [(101, 3, 1)])]


CANCEL_UNKNOWN = order("C", 77, "B", 100, 1)


def test_snapshot_alone_is_an_empty_day(tmp_path, spec):
    path = write(
        tmp_path / "TEST-2024-03-06.mbo.dbn.zst",
        [order("A", 1, "B", 100, 2, SNAPSHOT)],
        head=orders_header(),
    )
    report = ingest_day([path], spec, tmp_path / "day")
    assert (report.status, report.skipped, report.records_kept) == ("empty", {}, 0)
    assert report.sources[0].counts["unfinished_events"] == 0


def test_clear_forgets_every_order(built):
    rows, counts = built(
        BID,
        order("A", 2, "A", 101, 5),
        Order(action="R", id=0, side="N"),
        order("C", 1, "B", 100, 10),
        order("M", 2, "A", 102, 1),
        order("A", 1, "B", 99, 1),
    )
    assert [row[2:] for row in shown(rows)] == [
        ([(100, 10, 1)], [(101, 5, 1)]),
        ([], []),
        ([], [(102, 1, 1)]),
        ([(99, 1, 1)], [(102, 1, 1)]),
    ]
    assert counts == {
        "unknown_orders_cancelled": 1,
        "unknown_orders_modified": 1,
        "events_without_visible_change": 1,
    }


def test_top_of_book_record_is_the_whole_side(built):
    tob = LAST | Flag.TOB
    rows, counts = built(
        order("A", 0, "B", 100, 5, tob),
        order("A", 0, "A", 101, 6, tob),
        order("A", 0, "B", 99, 7, tob),
        Order(side="A", price=UNDEF_PRICE, flags=int(tob)),
        order("A", 9, "B", 98, 1),
    )
    assert [row[2:] for row in shown(rows)] == [
        ([(100, 5, 0)], []),
        ([(100, 5, 0)], [(101, 6, 0)]),
        ([(99, 7, 0)], [(101, 6, 0)]),
        ([(99, 7, 0)], []),
        ([(99, 7, 0), (98, 1, 1)], []),
    ]
    assert counts == {}


def test_trade_that_ends_its_event_keeps_the_flag_and_shows_the_book_before_it(built):
    rows, _ = built(BID, ASK, order("T", 0, "A", 100, 3), order("C", 1, "B", 100, 3))
    assert shown(rows)[0] == ("T", LAST, [(100, 10, 1)], [(101, 5, 1)])
    assert shown(rows)[1] == ("C", LAST, [(100, 7, 1)], [(101, 5, 1)])
    assert rows["side"].tolist() == [b"A", b"B"]


def test_event_beyond_ten_levels_gives_no_row_and_is_remembered(built):
    deep = [order("A", k, "B", 100 - k, 1) for k in range(11)]
    rows, counts = built(*deep, order("C", 0, "B", 100, 1))
    assert len(rows) == 11
    assert [price for price, *_ in shown(rows)[-1][2]] == list(range(99, 89, -1))
    assert rows["depth"].tolist() == [*range(10), 0]
    assert counts == {"events_without_visible_change": 1}


def test_record_of_a_possibly_bad_book_gives_a_row_that_says_so(built):
    bad = int(Flag.MAYBE_BAD_BOOK)
    rows, _ = built(
        BID,
        ASK,
        Order(action="N", id=0, side="N"),
        order("C", 77, "B", 100, 1, bad),
        Order(action="N", id=0, side="N"),
        Order(action="N", id=0, side="N", flags=LAST | bad),
        Order(action="N", id=0, side="N"),
        Order(action="N", id=0, side="N"),
    )
    assert [row[1] for row in shown(rows)] == [LAST, LAST | bad, LAST]


def test_sequence_reset_and_times_are_carried_as_they_are(built):
    records = [
        order("A", k, "B", 100 + k, 1, ts=T0 + k, ts_event=T0 - 5, sequence=sequence, ts_in_delta=-k)
        for k, sequence in enumerate([4294967290, 4294967295, 1, 2, 3, 0, 0])
    ]
    rows, _ = built(*records)
    given = np.frombuffer(b"".join(map(bytes, records)), MBO_DTYPE)
    for name in ("ts_event", "ts_recv", "sequence", "ts_in_delta", "flags", "publisher_id", "price", "size"):
        assert rows[name].tolist() == given[name].tolist()
    assert (rows["length"] == 92).all()
    assert (rows["rtype"] == 10).all()


def test_books_of_several_instruments_are_apart(built):
    rows, _ = built(BID, order("A", 1, "B", 50, 1, instrument_id=2), order("A", 2, "A", 101, 1))
    assert rows["instrument_id"].tolist() == [2, 1]
    assert [row[2] for row in shown(rows)] == [[(50, 1, 1)], [(100, 10, 1)]]


def test_two_publishers_of_one_instrument_are_refused(built):
    with pytest.raises(
        InputError, match="orders of instrument 1 from the publishers 1 and 2, must be of one"
    ):
        built(BID, order("A", 2, "B", 99, 1, publisher_id=2))


def test_file_that_marks_no_event_end_is_refused_or_counted(tmp_path, built, spec):
    with pytest.raises(InputError, match=r"event of more than 65536 records .*\(to sequence 65536\)"):
        built(*([order("A", 1, "B", 100, 1, 0, sequence=k) for k in range(MAX_EVENT_RECORDS + 1)]))
    path = write(tmp_path / "TEST-2024-03-06.mbo.dbn.zst", [BID, ASK], head=orders_header())
    report = ingest_day([path], spec, tmp_path / "day")
    assert (report.snapshots, dict(report.skipped)) == (0, {"unfinished_event": 1})
    assert report.sources[0].counts["unfinished_events"] == 1


def test_live_capture_of_orders_is_known_by_its_records(tmp_path):
    path = write(
        tmp_path / "x.dbn",
        [foreign()[0], BID, ASK, CANCEL_UNKNOWN],
        head=header(schema=None, mappings=[]),
        plain=True,
    )
    with DbnFile(path) as file:
        assert file.schema == "unknown"
        rows = np.concatenate(list(file.chunks(16)))
    assert (file.schema, len(rows), dict(file.skipped_by_type)) == ("mbo", 1, {"system": 1, "mbo-folded": 2})


def test_mbo_and_mbp10_files_of_one_day_are_never_both_read(tmp_path, spec):
    books = write(tmp_path / "TEST-2024-03-06.dbn.zst", head=header())
    made = write(tmp_path / "TEST-2024-03-06.mbo.dbn.zst", head=orders_header())
    with pytest.raises(InputError, match=r"\(mbo\) and .* \(mbp-10\) both tell the day of TEST: remove one"):
        ingest_day([books, made], spec, tmp_path / "day")


def test_many_levels_and_orders_stay_sorted_and_findable(tmp_path):
    """Tables grow past their first size; prices come in any order; half of the orders go again."""
    rng = np.random.default_rng(3)
    count = 6 * PIECE
    records = np.zeros(2 * count, MBO_DTYPE)
    records["side"], records["flags"], records["size"] = b"B", LAST, 1
    records["order_id"][:count] = rng.permutation(count).astype(np.uint64) << np.uint64(40)
    records["price"][:count] = rng.permutation(count) - count // 2
    gone = rng.permutation(count)[: count // 2]
    records["action"][:count], records["action"][count:] = b"A", b"C"
    records[count : count + len(gone)][["order_id", "price"]] = records[gone][["order_id", "price"]]
    builder = BookBuilder(tmp_path)
    rows = [part[-1].copy() for part in builder.push(records[: count + len(gone)])]
    left = np.delete(records["price"][:count], gone)
    assert rows[-1]["levels"]["bid_px"].tolist() == sorted(left.tolist(), reverse=True)[:10]
    assert not any(value for name, value in builder.counts.items() if name != "events_without_visible_change")
    size = builder.memory_bytes
    for _ in range(8):
        for _ in builder.push(records[: count + len(gone)][rng.permutation(count + len(gone))[:PIECE]]):
            pass
    assert builder.memory_bytes <= 2 * size


class Stream:
    """Draws MBO records: few ids and prices, so that orders meet; every odd thing now and then."""

    def __init__(self, seed: int, odd: float, ids: int) -> None:
        self.rng, self.odd, self.ids = np.random.default_rng(seed), odd, ids

    def records(self, count: int) -> list[object]:
        found: list[object] = []
        for k in range(count):
            if self.rng.random() < self.odd / 3:
                found.append(foreign()[int(self.rng.integers(3))])
            found.append(self.record(k))
        return found

    def record(self, k: int) -> Order:
        rng, odd = self.rng, self.rng.random() < self.odd
        return Order(
            ts=T0 + k * SECOND,
            ts_event=int(rng.integers(2**63)) if odd else T0,
            id=int(rng.integers(self.ids)) * (2**61 + 1) % 2**64,
            action="ACMTFNR"[int(rng.choice(7, p=[0.4, 0.25, 0.2, 0.05, 0.05, 0.04, 0.01]))],
            side="ABN"[int(rng.choice(3, p=[0.48, 0.48, 0.04] if odd else [0.5, 0.5, 0]))],
            price=int(rng.choice([UNDEF_PRICE, -(2**63), 2**62]))
            if odd
            else int(rng.integers(-20, 20)) * TICK,
            size=int(rng.choice([0, 2**32 - 1])) if odd else int(rng.integers(1, 6)),
            flags=int(rng.integers(256)) if odd else int(rng.choice([LAST, LAST, 0])),
            sequence=int(rng.integers(2**32)),
            instrument_id=int(rng.integers(1, 4)) if odd else 1,
            ts_in_delta=int(rng.integers(-(2**31), 2**31)),
        )


@st.composite
def order_files(draw: st.DrawFn) -> File:
    stream = Stream(
        draw(st.integers(0, 2**32)), draw(st.sampled_from([0, 0.02, 0.3])), draw(st.sampled_from([8, 200]))
    )
    return contained(
        draw,
        orders_header(version=draw(st.sampled_from([1, 2, 3]))),
        stream.records(draw(st.integers(0, 200))),
    )


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(file=order_files(), chunk_records=st.integers(16, 64))
def test_any_stream_gives_the_books_of_a_dictionary_of_orders(tmp_path: Path, file: File, chunk_records: int):
    """The official encoder writes, the official decoder reads, and plain Python keeps the books."""
    path = tmp_path / "x.dbn.zst"
    path.write_bytes(file.content)
    decoder = dbn.DBNDecoder(upgrade_policy=dbn.VersionUpgradePolicy.AS_IS)
    decoder.write(file.body)
    official = [record for record in decoder.decode() if not isinstance(record, dbn.Metadata)]
    orders = [bytes(record) for record in official if isinstance(record, dbn.MBOMsg)]
    oracle = Oracle()
    wanted = oracle.run(np.frombuffer(b"".join(orders), MBO_DTYPE))
    with DbnFile(path) as mine:
        found = b"".join(chunk.tobytes() for chunk in mine.chunks(chunk_records))
    assert found == wanted.tobytes()
    assert Counter({name: n for name, n in mine.counts.items() if n}) == +oracle.counts
    assert mine.records_read == len(official)
    assert mine.skipped_by_type.get("mbo-folded", 0) == len(orders) - len(wanted)


def days(tmp_path: Path, records: list[Order], spec: object) -> Day:
    path = write(tmp_path / "TEST-2024-03-06.mbo.dbn.zst", records, head=orders_header())
    return load(tmp_path / "day", ingest_day([path], spec, tmp_path / "day"))


def test_clear_in_the_middle_of_a_day_starts_a_segment(tmp_path, spec):
    day = days(tmp_path, [BID, ASK, CANCEL_UNKNOWN, CLEAR, BID, order("A", 2, "A", 101, 5)], spec)
    assert day.snapshots["segment"].to_list() == [0, 1]
    assert dict(day.report.breaks) == {"clear": 1}


@pytest.mark.parametrize("stride", [56, 64])
def test_records_with_the_server_send_time_are_read_alike(tmp_path, stride):
    records = [message.build() for message in (BID, ASK, CANCEL_UNKNOWN)]
    for message in records:
        if stride == 64:
            message.ts_out = T0
    assert {len(bytes(message)) for message in records} == {stride}
    path = write(tmp_path / "x.dbn.zst", records, head=orders_header(ts_out=stride == 64))
    with DbnFile(path) as file:
        (chunk,) = file.chunks(16)
    assert shown(chunk) == [("C", LAST, [(100, 10, 1)], [(101, 5, 1)])]
