"""Nothing spans a break or a roll: raw records to cached rows and tensors, across each kind of boundary.

Each case writes one file of a UTC day with a stretch before a boundary and a stretch after it, and holds the
rows after it, bit for bit, against a day that never had the stretch before.
"""

import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ingest"))

from dbn_builder import LAST, TICK, Interval, Mapping, Msg, header, ladder, write

from alpha_core.market.data import TAPE_OFFSETS, TAPE_SIDE
from alpha_core.shapes import HORIZONS, UNDEFINED_TICKS
from alpha_pipeline.features.config import FeatureConfig, ImbalanceConfig, SamplerConfig
from alpha_pipeline.fxcache import market_data, open_day, sequence_data
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.ingest import SNAPSHOTS, TRADES, IngestConfig, ingest_day
from alpha_pipeline.instrument import InstrumentSpec

EVENTS = 90
"""On either side: more than the shortest two horizons reach, so that labels exist and would cross."""

SPACING = 100_000_000
MAYBE_BAD_BOOK = 0x04
CONFIG = FeatureConfig(warmup_rows=5)


@dataclass(frozen=True)
class Boundary:
    """Where one stretch ends and the next begins.

    Attributes:
        calendar: of the instrument.
        day: UTC date of the file.
        before: time of the last event before it, or of the last one in a closed market.
        after: time of the first event behind it.
        rolls: whether the second stretch is another contract.
        first: changes of the first record behind it.
        closed: whether the stretch before lies outside of any session, and so makes no rows.
    """

    calendar: str
    day: str
    before: str
    after: str
    rolls: bool = False
    first: tuple[tuple[str, object], ...] = ()
    closed: bool = False


BOUNDARIES = {
    "daily halt, winter time": Boundary("CMES", "2024-03-07", "21:59:59", "23:00:00"),
    "daily halt, summer time": Boundary("CMES", "2024-03-12", "20:59:59", "22:00:00"),
    "half day": Boundary("CMES", "2024-07-04", "16:59:59", "22:00:00"),
    "Sunday open, the clock went forward": Boundary(
        "CMES", "2024-03-10", "21:59:59", "22:00:00", closed=True
    ),
    "Sunday open, the clock went back": Boundary("CMES", "2024-11-03", "22:59:59", "23:00:00", closed=True),
    "open after a holiday": Boundary("CMES", "2023-12-25", "22:59:59", "23:00:00", closed=True),
    "regular open, summer time": Boundary("XNYS", "2024-11-01", "13:29:59", "13:30:00", closed=True),
    "regular open, winter time": Boundary("XNYS", "2024-11-04", "14:29:59", "14:30:00", closed=True),
    "lunch break": Boundary("XHKG", "2024-01-03", "03:59:59", "05:00:00"),
    "silence": Boundary("24/7", "2024-03-09", "10:00:00", "10:10:01"),
    "contract roll": Boundary("24/7", "2022-12-13", "11:59:59", "12:00:00", rolls=True),
    "cleared book": Boundary(
        "24/7", "2024-03-09", "10:00:00", "10:00:01", first=(("action", "R"), ("bids", ()), ("asks", ()))
    ),
    "unrecoverable loss": Boundary(
        "24/7", "2024-03-09", "10:00:00", "10:00:01", first=(("flags", LAST | MAYBE_BAD_BOOK),)
    ),
}


def ns(day: str, time: str) -> int:
    return int(datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC).timestamp()) * 10**9


def stretch(start: int, price: int, number: int, seed: int) -> list[Msg]:
    """Events of a random walk that begins at `price`, with a trade ahead of every third change of the book."""
    rng = np.random.default_rng(seed)
    records = []
    for k in range(EVENTS):
        best = price + int(rng.integers(-2, 3))
        ts = start + k * SPACING
        if k % 3 == 1:
            records.append(
                Msg(
                    ts=ts,
                    action="T",
                    side="B",
                    price=(best + 1) * TICK,
                    size=2,
                    flags=0,
                    instrument_id=number,
                )
            )
        bids, asks = ladder(best * TICK, -TICK), ladder((best + 1) * TICK, TICK)
        records.append(Msg(ts=ts, sequence=k, instrument_id=number, bids=bids, asks=asks))
    return records


def stretches(case: Boundary) -> tuple[list[Msg], list[Msg]]:
    """Records before the boundary and behind it; the price jumps by 33 points in between."""
    end, begin = ns(case.day, case.before), ns(case.day, case.after)
    before = stretch(end - (EVENTS - 1) * SPACING, 16_121, 1, seed=1)
    behind = stretch(begin, 16_253, 2 if case.rolls else 1, seed=2)
    return before, [Msg(**vars(behind[0]) | dict(case.first)), *behind[1:]]


def heading(case: Boundary) -> bytes:
    """One contract all day, or a continuous symbol whose contract changes at noon."""
    day = date.fromisoformat(case.day)
    if not case.rolls:
        return header({"ESH4": 1}, day=day)
    after = day + timedelta(days=1)
    return header(
        mappings=[
            Mapping("ES.c.0", [Interval(day, after, "1"), Interval(after, after + timedelta(days=1), "2")])
        ],
        symbols=["ES.c.0"],
        day=day,
    )


def cached(folder: Path, case: Boundary, records: list[Msg], config: FeatureConfig = CONFIG):
    """The day's cache file, opened, and its ingest report."""
    if case.rolls:  # mappings change at midnight: the whole day moves on by half
        records = [Msg(**vars(r) | {"ts": r.ts + 43_200 * 10**9}) for r in records]
    path = write(folder / f"ESH4-{case.day}.mbp-10.dbn.zst", records, head=heading(case))
    spec = InstrumentSpec(name="es", symbols=("ES",), tick_size="0.25", calendar=case.calendar)
    report = ingest_day([path], spec, folder / "day", config=IngestConfig())
    info = build_day(
        folder / "day" / SNAPSHOTS,
        folder / "day" / TRADES,
        day=case.day,
        instrument="es",
        features=config,
        source_digests={},
        out=folder / "day.fxcache",
    )
    return open_day(info.path, verify="full"), report


@pytest.fixture(params=BOUNDARIES, ids=lambda name: name.replace(" ", "-"))
def case(request):
    return BOUNDARIES[request.param]


def test_rows_behind_a_boundary_know_nothing_of_what_was_before(tmp_path, case):
    before, behind = stretches(case)
    whole, report = cached(tmp_path / "whole", case, before + behind)
    alone, _ = cached(tmp_path / "alone", case, behind)
    split = whole.rows - alone.rows
    assert split == (0 if case.closed else EVENTS)
    assert alone.rows >= EVENTS - 1
    assert report.segments == 2
    assert whole.features[split:].tobytes() == alone.features.tobytes()
    for name in ("mid2", "mid_open", "duration_ns", "tape", "book", "labels", "label_valid"):
        np.testing.assert_array_equal(getattr(whole, name)[split:], getattr(alone, name), err_msg=name)
    for values, expected in ((whole.raw_open, alone.raw_open), (whole.last_trade, alone.last_trade)):
        np.testing.assert_array_equal(values[1][split:], expected[1])


def test_labels_and_tape_end_with_their_stretch(tmp_path, case):
    before, behind = stretches(case)
    day, _ = cached(tmp_path, case, before + behind)
    first = np.flatnonzero(day.first)
    assert len(first) == (1 if case.closed else 2)
    reach = np.append(first[1:], day.rows)[np.searchsorted(first, np.arange(day.rows), side="right") - 1]
    for k, horizon in enumerate(HORIZONS):
        np.testing.assert_array_equal(day.label_valid[:, k], np.arange(day.rows) + horizon < reach)
    assert np.abs(day.labels).max() <= 8, "a jump of 33 points is no label"
    last = reach[first] - 1
    assert not day.tape[last][:, :TAPE_OFFSETS].any() and not day.tape[last][:, TAPE_OFFSETS + 1].any()
    assert (day.tape[last][:, [TAPE_OFFSETS, TAPE_SIDE + TAPE_OFFSETS]] == UNDEFINED_TICKS).all()


def test_the_market_and_the_sequences_are_cut_there(tmp_path, case):
    before, behind = stretches(case)
    day, _ = cached(tmp_path, case, before + behind)
    market, sequences = market_data([day]), sequence_data([day])
    np.testing.assert_array_equal(market.segment.numpy(), np.cumsum(day.first) - 1)
    np.testing.assert_array_equal(sequences.segment.numpy(), market.segment.numpy())
    last = np.append(np.flatnonzero(day.first)[1:], day.rows) - 1
    assert not market.seconds.numpy()[last].any(), "no time passes from one stretch to the next"
    assert sequences.seconds_since_previous.numpy()[day.first].max() == 0


@pytest.mark.parametrize(
    "sampler",
    [
        SamplerConfig(n=7),
        SamplerConfig(kind="time", milliseconds=700),
        SamplerConfig(kind="tick", trades=4),
        SamplerConfig(kind="volume", lots=7),
        SamplerConfig(kind="dollar", tick_lots=100_000),
        SamplerConfig(kind="imbalance", imbalance=ImbalanceConfig(expected_trades=6, min_trades=2)),
    ],
    ids=lambda s: s.kind,
)
def test_every_sampler_begins_anew(tmp_path, sampler):
    case = BOUNDARIES["daily halt, winter time"]
    before, behind = stretches(case)
    config = FeatureConfig(warmup_rows=5, sampler=sampler)
    whole, _ = cached(tmp_path / "whole", case, before + behind, config)
    alone, _ = cached(tmp_path / "alone", case, behind, config)
    assert alone.rows > 4
    assert whole.features[whole.rows - alone.rows :].tobytes() == alone.features.tobytes()


def test_records_of_a_closed_market_are_kept_and_are_no_decision_points(tmp_path):
    """The stray books of a halt, and of a pre-open session, look good and cannot be traded."""
    case = BOUNDARIES["daily halt, winter time"]
    before, behind = stretches(case)
    stray = stretch(ns(case.day, "22:30:00"), 16_121, 1, seed=3)
    day, report = cached(tmp_path, case, before + stray + behind)
    assert report.snapshots == 3 * EVENTS
    assert report.outside_session == len(stray)
    assert day.rows == 2 * EVENTS
    halt = (day.ts >= ns(case.day, "22:00:00")) & (day.ts < ns(case.day, "23:00:00"))
    assert not halt.any()
