"""Sessions and what they do to segments; halts and clock changes that calendars are known to get wrong."""

from datetime import UTC, date, datetime

import numpy as np
import pytest
from dbn_builder import Msg, header, write

from alpha_core.errors import ConfigError, DataError
from alpha_pipeline.ingest import IngestConfig, ingest_day
from alpha_pipeline.ingest.sessions import DAY_NS, sessions_around
from alpha_pipeline.instrument import InstrumentSpec

MINUTE = 60 * 10**9


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


def stretches(calendar: str, day: str) -> list[tuple[str, str]]:
    """Open stretches that touch a UTC day, as text, cut to the day."""
    first = ns(day)
    sessions = sessions_around(calendar, first, first + DAY_NS - 1)
    minutes = np.arange(first, first + DAY_NS, MINUTE)
    is_open = sessions.index(minutes) % 2 == 1
    edges = np.flatnonzero(np.diff(is_open, prepend=False, append=False))
    times = [f"{edge // 60:02d}:{edge % 60:02d}" for edge in edges.tolist()]
    return list(zip(times[0::2], times[1::2], strict=True))


@pytest.mark.parametrize(
    ("day", "expected"),
    [("2024-11-01", ("13:30", "20:00")), ("2024-11-04", ("14:30", "21:00"))],
)
def test_session_dst_regular_hours_follow_the_clock_change(day, expected):
    (found,) = stretches("XNYS", day)
    assert found == expected
    hours, minutes = (np.array([int(part) for part in text.split(":")]) for text in found)
    assert (minutes - hours) @ [60, 1] == 390


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2024-03-08", [("00:00", "22:00")]),  # Friday: closed from 16:00 Chicago on
        ("2024-03-07", [("00:00", "22:00"), ("23:00", "24:00")]),  # daily halt 16:00 to 17:00 Chicago
        ("2024-03-12", [("00:00", "21:00"), ("22:00", "24:00")]),  # the same in summer time
        ("2025-06-19", [("00:00", "17:00"), ("22:00", "24:00")]),  # Juneteenth: noon, unknown to the library
        ("2024-11-29", [("00:00", "18:00")]),  # day after Thanksgiving
        ("2024-07-04", [("00:00", "17:00"), ("22:00", "24:00")]),
        ("2025-07-03", [("00:00", "17:15"), ("22:00", "24:00")]),  # New York closes early, unknown to it too
        ("2023-12-25", [("23:00", "24:00")]),
        ("2024-03-09", []),
    ],
)
def test_calendar_gap_globex_halts_and_short_days(day, expected):
    assert stretches("CMES", day) == expected


def test_lunch_break_splits_a_session():
    assert stretches("XHKG", "2024-01-03") == [("01:30", "04:00"), ("05:00", "08:00")]


def test_session_date_is_not_the_utc_date():
    first = ns("2023-12-25T23:30:00")
    assert sessions_around("CMES", first, first + 1).dates_of(first, first + 1) == ["2023-12-26"]


def test_without_calendar_there_are_no_breaks():
    assert stretches("24/7", "2024-03-09") == []
    assert sessions_around("24/7", 0, 1).index(np.array([0, 2**62])).tolist() == [0, 0]


def test_unknown_calendar_is_a_configuration_error():
    with pytest.raises(ConfigError, match="calendar was 'NOPE'"):
        sessions_around("NOPE", ns("2024-01-01"), ns("2024-01-02"))


def test_times_beyond_the_calendar_are_a_clear_error():
    with pytest.raises(
        DataError, match="calendar XHKG does not cover the data from 2099-06-01 to 2099-06-02"
    ):
        sessions_around("XHKG", ns("2099-06-01"), ns("2099-06-02"))


def ingest_times(tmp_path, calendar: str, day: date, times: list[str], **more):
    records = [Msg(ts=ns(f"{day}T{time}"), sequence=k) for k, time in enumerate(times)]
    path = write(tmp_path / "x.dbn.zst", records, head=header(day=day))
    spec = InstrumentSpec(symbols=("TEST",), tick_size="0.25", calendar=calendar)
    config = IngestConfig(segment_gap_seconds=86400.0, **more)
    return ingest_day([path], spec, tmp_path / "day", config=config)


@pytest.mark.parametrize("chunk_records", [16, 8192])
def test_no_segment_crosses_the_daily_halt(tmp_path, chunk_records):
    """Rows in the halt are kept, in a stretch of their own."""
    times = [*["21:00:00"] * 15, "21:59:59", "22:00:00", "22:30:00", "22:59:59", "23:00:00", "23:10:00"]
    report = ingest_times(tmp_path, "CMES", date(2024, 3, 7), times, chunk_records=chunk_records)
    assert report.breaks == {"session": 2}
    assert report.segments == 3
    assert report.outside_session == 3
    assert report.session_dates == ("2024-03-07", "2024-03-08")
    assert (
        report.largest_gap_ns == 3599 * 10**9
    )  # 21:00:00 to 21:59:59; the silence of the halt does not count


def test_round_the_clock_market_has_one_segment(tmp_path):
    report = ingest_times(tmp_path, "24/7", date(2024, 3, 9), ["00:00:00", "12:00:00", "23:59:59"])
    assert (report.segments, report.breaks, report.session_dates) == (1, {}, ())
    assert report.utc_dates == ("2024-03-09",)
