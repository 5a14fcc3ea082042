"""Real MBO files: the stated book, and row by row what a plain order map made of the same file elsewhere."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from ingested_day import load
from mbo_oracle import Oracle

from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.ingest.databento import DbnFile
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.records import MBP10_DTYPE, UNDEF_PRICE, Flag
from alpha_pipeline.ingest.source import discover
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.schemas import validate

pytestmark = pytest.mark.real_data

ESH4 = InstrumentSpec(name="es", symbols=("ESH4",), tick_size="0.25", calendar="CMES")
ESM4 = InstrumentSpec(name="es", symbols=("ESM4",), tick_size="0.25", calendar="CMES")
CHRISTMAS = "mbo/esh4-glbx-mdp3-20231225.mbo.dbn.zst"
DERIVED = "mbp10-derived/ESH4-2023-12-25.mbp-10.dbn.zst"
SNAPSHOT_DAY = "mbo/esm4-snapshot-20240508.mbo.dbn.zst"

SAME = tuple(name for name in MBP10_DTYPE.names if name not in ("flags", "ts_in_delta", "depth"))
"""Fields that must be equal. The derived file adds the flag MBP to the order's flags, gives as `ts_in_delta` the
receive time minus the event time instead of the venue's own, and as `depth` 0 where the price is not among the
ten levels; `depth` is compared where it is."""


SIDES = {b"B": "bid_px", b"A": "ask_px"}


def rows_of(path: Path, chunk_records: int = 16384) -> tuple[np.ndarray, DbnFile]:
    with DbnFile(path) as file:
        return np.concatenate([chunk.copy() for chunk in file.chunks(chunk_records)]), file


def ends(rows: np.ndarray) -> np.ndarray:
    return (rows["flags"] & Flag.LAST) != 0


@pytest.fixture(scope="module")
def christmas(real_data) -> tuple[np.ndarray, DbnFile]:
    return rows_of(real_data / CHRISTMAS)


@pytest.fixture(scope="module")
def derived(real_data) -> np.ndarray:
    return rows_of(real_data / DERIVED)[0]


@pytest.fixture(scope="module")
def replayed(real_data) -> Oracle:
    """The book at the end of the file, by a dictionary of orders."""
    oracle = Oracle()
    with DbnFile(real_data / CHRISTMAS) as file:
        for records in file.records(16384):
            for record in records.copy():
                oracle.apply(oracle.books.setdefault(17077, oracle.new_book()), record)
    return oracle


def test_christmas_replays_to_the_stated_book(christmas, replayed):
    rows, file = christmas
    book = replayed.books[17077]
    bids, asks = replayed.side(book, b"B"), replayed.side(book, b"A")
    assert (len(bids), len(asks)) == (922, 565)
    assert (bids[0][0], asks[0][0]) == (4_810_000_000_000, 4_810_250_000_000)
    last = rows["levels"][-1]
    assert [tuple(level) for level in last[["bid_px", "bid_sz", "bid_ct"]].tolist()] == bids[:10]
    assert [tuple(level) for level in last[["ask_px", "ask_sz", "ask_ct"]].tolist()] == asks[:10]
    counts = dict(file.counts)
    assert counts.pop("events_without_visible_change") == 9908
    assert set(counts.values()) == {0}
    assert file.records_read == 68_792 == len(rows) + file.skipped_by_type["mbo-folded"]


def test_christmas_equals_the_derived_rows_or_differs_for_a_stated_reason(christmas, derived):
    """Each row of the derived file is found, in order, except those inside events, which are folded here.

    The other way round, 63 rows are only here: an event with a trade whose last record no longer changes the
    ten levels. The derived file has a row a change and so leaves that event without an end; here every event
    that has shown a trade is ended by a row with LAST, whose levels are those of the last row before it.
    """
    rows, _ = christmas
    folded = ~ends(derived) & (derived["action"] != b"T")
    assert Counter(derived["action"][folded].tolist()) == {b"C": 3616, b"A": 52, b"M": 25}
    at, only_here = 0, 0
    for row in rows:
        wanted = derived[at] if at < len(derived) and not folded[at] else None
        if wanted is not None and all(row[name].tobytes() == wanted[name].tobytes() for name in SAME):
            assert int(row["flags"]) | Flag.MBP == wanted["flags"]
            assert row["depth"] == wanted["depth"] or row["price"] not in row["levels"][SIDES[row["side"]]]
            at += 1
            while at < len(derived) and folded[at]:
                at += 1
            continue
        assert row["flags"] & Flag.LAST
        assert row["levels"].tobytes() == derived[at - 1]["levels"].tobytes()
        only_here += 1
    assert (at, only_here) == (len(derived), 63)
    assert (ends(rows).sum(), (rows["action"] == b"T").sum()) == (37_051 + 63, 2973)


def test_christmas_reads_as_the_same_day_from_orders_and_from_books(real_data, tmp_path):
    built = load(tmp_path / "a", ingest_day([real_data / CHRISTMAS], ESH4, tmp_path / "a"))
    given = load(tmp_path / "b", ingest_day([real_data / DERIVED], ESH4, tmp_path / "b"))
    assert built.trades.drop("snapshot_row").equals(given.trades.drop("snapshot_row"))
    assert built.snapshots.height == given.snapshots.height + 63
    told = given.snapshots.join(
        built.snapshots, on=[c for c in given.snapshots.columns if c != "flags"], how="semi", nulls_equal=True
    )
    assert told.height == given.snapshots.height
    assert built.report.breaks == given.report.breaks
    assert built.report.session_dates == given.report.session_dates
    assert not any(
        c for c in validate("snapshots", built.snapshots) + validate("trades", built.trades) if not c.passed
    )
    assert (built.report.records_read, built.report.records_kept) == (68_792, 40_087)
    assert built.report.sources[0].counts["unknown_orders_cancelled"] == 0


@pytest.mark.parametrize("chunk_records", [16, 997])
def test_rows_do_not_depend_on_the_chunks(real_data, christmas, chunk_records):
    assert rows_of(real_data / CHRISTMAS, chunk_records)[0].tobytes() == christmas[0].tobytes()


def test_snapshot_with_a_clear_and_an_end(real_data, tmp_path):
    rows, file = rows_of(real_data / SNAPSHOT_DAY)
    clear, complete = rows[:2]
    assert (clear["action"], clear["price"], clear["flags"]) == (b"R", UNDEF_PRICE, 40)
    assert set(clear["levels"]["bid_px"].tolist()) == {UNDEF_PRICE}
    assert (complete["flags"], complete["ts_recv"], complete["sequence"]) == (
        168,
        1_715_126_400_000_000_000,
        11_051_052,
    )
    assert complete["levels"][0].tolist() == (5_214_000_000_000, 5_214_250_000_000, 26, 24, 19, 13)
    assert {count for name, count in file.counts.items() if name != "events_without_visible_change"} == {0}
    day = load(tmp_path, ingest_day([real_data / SNAPSHOT_DAY], ESM4, tmp_path))
    assert (day.report.records_read, day.trades.height, day.report.crossed) == (13_796, 5, 0)


def test_folders_of_the_vendor_are_searched_by_content(real_data):
    assert [path.name for path in discover(LocalFolder(real_data / "mbo"), ESH4)["2023-12-25"]] == [
        Path(CHRISTMAS).name
    ]
    both = discover(LocalFolder(real_data), ESH4)["2023-12-25"]
    assert [path.name for path in both] == [Path(DERIVED).name]
