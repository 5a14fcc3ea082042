"""Damaged headers and mapping records are refused in one sentence, whatever the official library does on them."""

from datetime import date, timedelta

import pytest
from dbn_builder import DAY, Interval, Mapping, Msg, header, mapping_record, write

from alpha_core.errors import InputError
from alpha_pipeline.ingest.databento import DbnFile
from alpha_pipeline.ingest.symbology import Listing

DAY_NS = 86_400 * 10**9


def read(path):
    with DbnFile(path) as file:
        for _ in file.chunks(16):
            pass
    return file


@pytest.mark.parametrize("number", ["12a", "-1", "4294967296", "1 2"])
def test_instrument_id_that_is_no_number_is_refused(tmp_path, number):
    interval = Interval(DAY, DAY + timedelta(days=1), number)
    path = write(tmp_path / "x.dbn", [Msg()], head=header(mappings=[Mapping("TEST", [interval])]), plain=True)
    with pytest.raises(
        InputError, match=r"x\.dbn maps a symbol to the instrument id .*, must be a whole number"
    ):
        read(path)


def test_header_on_which_the_official_library_panics_is_refused(tmp_path):
    """Version 1 whose length field ends inside the fixed part: the library does not raise, it panics."""
    head = bytearray(header(version=1))
    head[4] = 100
    with pytest.raises(InputError, match=r"no readable DBN header in bytes 0 to 206 .*\(mid > len\)"):
        read(write(tmp_path / "x.dbn", head=bytes(head), plain=True))


def test_dates_before_1970_list_from_the_beginning_of_time(tmp_path):
    interval = Interval(date(1960, 1, 1), date(1970, 1, 2), "1")
    path = write(tmp_path / "x.dbn", [Msg()], head=header(mappings=[Mapping("TEST", [interval])]), plain=True)
    assert read(path).listings == [Listing(symbol="TEST", instrument_id=1, start_ns=0, end_ns=DAY_NS)]


def test_mapping_record_that_is_no_text_is_refused(tmp_path):
    raw = bytes(mapping_record()).replace(b"TEST", b"T\xffST")
    path = write(tmp_path / "x.dbn", [raw, Msg()], plain=True)
    with pytest.raises(InputError, match=r"symbol-mapping record that cannot be read \(UTF-8 error"):
        read(path)


def test_mapping_record_shorter_than_its_kind_is_refused(tmp_path):
    """The library panics on one without the send time that the header promises."""
    path = write(tmp_path / "x.dbn", [mapping_record(), Msg()], head=header(ts_out=True), plain=True)
    with pytest.raises(InputError, match=r"symbol-mapping record that cannot be read \(Malformed"):
        read(path)


def test_date_that_is_none_is_one_sentence(tmp_path):
    """The first of January of year 0, as a damaged word in a mapping's interval has it."""
    day = int(f"{DAY:%Y%m%d}").to_bytes(4, "little")
    head = header().replace(day, (101).to_bytes(4, "little"), 1)
    path = write(tmp_path / "x.dbn.zst", [Msg()], head=head)
    with pytest.raises(InputError, match="symbol mappings in its header that cannot be read"):
        DbnFile(path)
