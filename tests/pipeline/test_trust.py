"""What must not be believed: changed raw files, names that lie, settings of another market."""

from dataclasses import replace

import pytest

from alpha_core.errors import ConfigError
from alpha_pipeline.config import load
from alpha_pipeline.ingest.report import IngestReport
from alpha_pipeline.paths import Workspace
from alpha_pipeline.stages.data_quality import _day_check


def write(folder, name: str, data: bytes) -> Workspace:
    (folder / "instruments").mkdir(exist_ok=True)
    (folder / "instruments" / f"{name}.toml").write_bytes(data)
    return Workspace(folder)


def test_a_file_that_names_another_market_is_refused(tmp_path):
    text = b'[instrument]\nname = "es"\nsymbols = ["ES"]\ntick_size = "0.25"\ncalendar = "CMES"'
    with pytest.raises(ConfigError, match=r"instrument.name was 'es', must be 'mine', the name of its file"):
        load("mine", write(tmp_path, "mine", text))


@pytest.mark.parametrize("name", ["../mine", "/etc/passwd", "", "a b"])
def test_an_instrument_is_a_name_and_not_a_path(tmp_path, name):
    with pytest.raises(ConfigError, match="must be letters, digits, - and _"):
        load(name, write(tmp_path, "mine", b"[instrument]"))


def test_a_base_that_goes_in_circles_is_refused(tmp_path):
    write(tmp_path, "other", b'base = "mine"\n[instrument]')
    with pytest.raises(ConfigError, match="without going in circles"):
        load("mine", write(tmp_path, "mine", b'base = "other"\n[instrument]'))


def test_bytes_that_are_no_text_are_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"mine.toml: is not valid TOML"):
        load("mine", write(tmp_path, "mine", b"\xff\xfe[instrument]"))


def test_a_file_named_for_another_day_than_its_records_stops_the_day():
    report = IngestReport(
        instrument="x", status="ok", sources=(), snapshots=1, utc_dates=("2024-01-02", "2024-01-02")
    )
    check = _day_check(report, "2024-01-09")
    assert check.blocking
    assert not check.passed
    assert "name says 2024-01-09, its records are of 2024-01-02" in check.description
    assert _day_check(report, "2024-01-02").passed


def test_a_file_whose_records_are_all_of_days_outside_its_mapping_is_named_for_another_day():
    """None of them is used, so that the day looks empty: it is not."""
    outside = IngestReport(instrument="x", status="empty", sources=(), left_out_dates=("2024-01-02",))
    check = _day_check(outside, "2024-01-09")
    assert not check.passed
    assert "name says 2024-01-09, its records are of 2024-01-02" in check.description
    assert _day_check(outside, "2024-01-02").passed
    assert _day_check(replace(outside, left_out_dates=()), "2024-01-09").passed
