"""Which files of a folder are an instrument's, and of which day."""

import os

import databento_dbn as dbn
import pytest
from dbn_builder import Msg, header, write

from alpha_core.errors import InputError
from alpha_pipeline.ingest.databento import DbnSource
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.raw import FileName
from alpha_pipeline.ingest.source import SOURCES, discover, open_raw
from alpha_pipeline.instrument import InstrumentSpec, safe_name


def spec(*symbols: str) -> InstrumentSpec:
    return InstrumentSpec(name="wanted", symbols=symbols)


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def found(raw, *symbols):
    days = discover(LocalFolder(raw), spec(*symbols))
    return {day: [path.relative_to(raw).as_posix() for path in paths] for day, paths in days.items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ESH4-2023-12-25.mbo.dbn.zst", ("2023-12-25", None, "ESH4", True, True)),
        ("glbx-mdp3-20231225.mbo.dbn.zst", ("2023-12-25", None, None, True, True)),
        ("glbx-mdp3-20231225.mbo.ESH4.dbn.zst", ("2023-12-25", None, "ESH4", True, True)),
        ("esh4-glbx-mdp3-20231225.mbo.dbn.zst", ("2023-12-25", None, None, True, True)),
        ("NEXOUSDT-2024-07-24.mbp-10.dbn.zst", ("2024-07-24", None, "NEXOUSDT", True)),
        ("ESM4-2024-04-02.MBP-10.DBN.ZST", ("2024-04-02", None, "ESM4", True)),
        ("glbx-mdp3-20231225.MBO.dbn.Zst", ("2023-12-25", None, None, True, True)),
        ("NEXOUSDT-20240724.dbn", ("2024-07-24", None, "NEXOUSDT", True)),
        ("ESH4-ESM4-2024-01-02.mbo.dbn.zst", ("2024-01-02", None, "ESH4-ESM4", True, True)),
        ("BRK.A-2024-01-02.mbp-10.dbn.zst", ("2024-01-02", None, "BRK.A", True)),
        ("ES%2Ec%2E0-2024-01-02.mbp-10.dbn.zst", ("2024-01-02", None, "ES.c.0", True)),
        ("glbx-mdp3-20231225.mbp-10.dbn.zst", ("2023-12-25", None, None, True)),
        ("glbx-mdp3-20231225.mbp-10.0002.dbn.zst", ("2023-12-25", None, None, True)),
        ("glbx-mdp3-20231225.mbp-1.dbn.zst", ("2023-12-25", None, None, False)),
        ("glbx-mdp3-20231225.mbp-10.ESH4.dbn.zst", ("2023-12-25", None, "ESH4", True)),
        ("glbx-mdp3-20231225.mbp-10.ES.c.0.dbn.zst", ("2023-12-25", None, "ES.c.0", True)),
        ("glbx-mdp3-20231225-20231231.mbp-10.dbn.zst", ("2023-12-25", "20231231", None, True)),
    ],
)
def test_names_are_understood(name, expected):
    day, until, symbol, usable, *orders = expected
    wanted = FileName(day=day, until=until, symbol=symbol, usable=usable, orders=orders == [True])
    assert DbnSource().parse(name) == wanted


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "x.dbn.zst",
        "x-2024-01-02.dbz",
        "x-2024-01-02.dbn.frag",
    ],
)
def test_other_names_are_no_files_of_a_day(name):
    assert DbnSource().parse(name) is None


def test_days_in_order_and_all_files_of_a_day(tmp_path):
    touch(
        tmp_path,
        "A-2024-01-03.mbp-10.dbn.zst",
        "A-2024-01-02.mbp-10.part2.dbn.zst",
        "A-2024-01-02.mbp-10.part1.dbn.zst",
        "job-7/A-2024-01-04.mbp-10.dbn",
        ".hidden/A-2024-01-05.mbp-10.dbn",
        "A-2024-01-06.mbp-10.dbn.zst.part",
        "A-2024-01-07.mbp-1.dbn.zst",
        "notes.txt",
    )
    days = found(tmp_path, "A")
    assert list(days) == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert days["2024-01-02"] == ["A-2024-01-02.mbp-10.part1.dbn.zst", "A-2024-01-02.mbp-10.part2.dbn.zst"]
    assert days["2024-01-04"] == ["job-7/A-2024-01-04.mbp-10.dbn"]


def test_symbol_in_path_is_matched_whole(tmp_path):
    """ES is missing when only MES is there; XYZ is not ABCXYZ; BRK.A is not BRK.B."""
    touch(tmp_path, "MESH4-2024-01-02.mbp-10.dbn.zst", "ABCXYZ-2024-01-02.mbp-10.dbn.zst")
    touch(tmp_path, "XYZ-2024-01-03.mbp-10.dbn.zst", "BRK.B-2024-01-02.mbp-10.dbn.zst")
    with pytest.raises(InputError, match="holds no MBP-10 file of wanted"):
        discover(LocalFolder(tmp_path), spec("ES"))
    with pytest.raises(InputError, match="holds no MBP-10 file of wanted"):
        discover(LocalFolder(tmp_path), spec("BRK.A"))
    assert list(found(tmp_path, "XYZ")) == ["2024-01-03"]
    assert list(found(tmp_path, "ABCXYZ")) == ["2024-01-02"]


@pytest.mark.parametrize("symbol", ["EUR/USD", "BRK.A", "ES.c.0", "../x", "a b"])
def test_symbol_in_path_is_found_under_its_safe_name(tmp_path, symbol):
    touch(tmp_path, f"{safe_name(symbol)}-2024-01-02.mbp-10.dbn.zst")
    assert list(found(tmp_path, symbol)) == ["2024-01-02"]


def test_roots_stand_for_their_contracts(tmp_path):
    touch(tmp_path, "ESH4-2024-01-02.mbp-10.dbn.zst", "ESM4-2024-01-02.mbp-10.dbn.zst")
    assert len(found(tmp_path, "ES")["2024-01-02"]) == 2


def test_mbo_files_are_used_where_the_day_has_no_books(tmp_path):
    """What an MBO file tells is not told twice; what only it tells is not left out."""
    touch(tmp_path, "ESH4-2024-01-02.mbo.dbn.zst", "ESH4-2024-01-02.mbp-10.dbn.zst")
    touch(tmp_path, "ESH4-2024-01-03.mbo.dbn.zst", "ESM4-2024-01-03.mbp-10.dbn.zst")
    touch(tmp_path, "ESH4-2024-01-04.mbo.dbn.zst", "ESM4-2024-01-04.mbo.dbn.zst")
    write(tmp_path / "glbx-mdp3-20240105.mbp-10.dbn.zst", head=header({"ESH4": 1}))
    touch(tmp_path, "ESH4-2024-01-05.mbo.dbn.zst", "ESH4-2024-01-06.mbp-10.dbn.zst")
    write(tmp_path / "esh4-glbx-mdp3-20240106.mbo.dbn.zst", head=header({"ESH4": 1}, schema=dbn.Schema.MBO))
    assert found(tmp_path, "ES") == {
        "2024-01-02": ["ESH4-2024-01-02.mbp-10.dbn.zst"],
        "2024-01-03": ["ESH4-2024-01-03.mbo.dbn.zst", "ESM4-2024-01-03.mbp-10.dbn.zst"],
        "2024-01-04": ["ESH4-2024-01-04.mbo.dbn.zst", "ESM4-2024-01-04.mbo.dbn.zst"],
        "2024-01-05": ["glbx-mdp3-20240105.mbp-10.dbn.zst"],
        "2024-01-06": ["ESH4-2024-01-06.mbp-10.dbn.zst"],
    }


def test_vendor_names_tell_their_symbols_inside(tmp_path):
    write(tmp_path / "glbx-mdp3-20240306.mbp-10.dbn.zst", [Msg()], head=header({"ESH4": 1, "NQH4": 2}))
    write(tmp_path / "glbx-mdp3-20240307.mbp-10.dbn.zst", [Msg()], head=header({"NQH4": 2}))
    assert list(found(tmp_path, "ES")) == ["2024-03-06"]
    assert list(found(tmp_path, "NQ")) == ["2024-03-06", "2024-03-07"]
    with pytest.raises(InputError, match="holds no MBP-10 file"):
        discover(LocalFolder(tmp_path), spec("CL"))


def test_vendor_file_that_asked_in_vain_belongs_to_its_day(tmp_path):
    write(tmp_path / "glbx-mdp3-20240306.mbp-10.dbn.zst", head=header({}, symbols=["ESH4"]))
    assert list(found(tmp_path, "ES")) == ["2024-03-06"]


def test_damaged_vendor_file_fails_its_day_and_does_not_vanish(tmp_path):
    (tmp_path / "glbx-mdp3-20240306.mbp-10.dbn.zst").write_bytes(b"damaged")
    assert list(found(tmp_path, "ES")) == ["2024-03-06"]


def test_vendor_file_of_another_schema_is_passed_over_by_its_name(tmp_path):
    write(tmp_path / "glbx-mdp3-20240306.mbp-1.dbn.zst", head=header({"ESH4": 1}, schema=dbn.Schema.MBP_1))
    with pytest.raises(InputError, match=r"only glbx-mdp3-20240306\.mbp-1\.dbn\.zst"):
        discover(LocalFolder(tmp_path), spec("ES"))


def test_file_of_several_days_is_refused(tmp_path):
    write(tmp_path / "glbx-mdp3-20240306-20240310.mbp-10.dbn.zst", head=header({"ESH4": 1}))
    with pytest.raises(InputError, match="spans the days 2024-03-06 to 20240310, must hold one UTC day"):
        discover(LocalFolder(tmp_path), spec("ES"))


def test_empty_and_absent_folder_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"is empty, must hold MBP-10 files of wanted \(symbols ES\)"):
        discover(LocalFolder(tmp_path), spec("ES"))
    with pytest.raises(InputError, match="is not a folder"):
        discover(LocalFolder(tmp_path / "none"), spec("ES"))


IMPOSSIBLE = ("ESM4-2024-02-30.mbp-10.dbn.zst", "ESM4-20241301.dbn", "ESM4_20240230.gz")


@pytest.mark.parametrize("name", [*IMPOSSIBLE, "ES_2024-02-30_1_2_message_2.csv"])
def test_a_day_that_no_calendar_has_is_told_and_not_passed_over(tmp_path, name):
    """A slip of the pen: the day that was meant would be missing. Other instruments' slips are theirs."""
    touch(tmp_path, "ESH4-2024-01-03.mbp-10.dbn.zst", name.replace("ES", "NQ"))
    assert list(found(tmp_path, "ES")) == ["2024-01-03"]
    touch(tmp_path, name)
    with pytest.raises(
        InputError, match=rf"{name} says the day .* in its name, must be a date of the calendar"
    ):
        found(tmp_path, "ES")


@pytest.mark.parametrize(
    "name", ["ESM4-2024-01-02.MBP-10.DBN.ZST", "ESM4_20240102.GZ", "ES_2024-01-02_1_2_message_2.CSV"]
)
def test_names_with_endings_in_capitals_are_read(tmp_path, name):
    touch(tmp_path, name)
    assert found(tmp_path, "ES") == {"2024-01-02": [name]}
    assert [source.recognises(name) for source in SOURCES].count(True) == 1


def test_long_lists_are_cut(tmp_path):
    touch(tmp_path, *(f"X{k}-2024-01-02.mbp-10.dbn.zst" for k in range(9)))
    with pytest.raises(InputError, match="and 6 more: add files named like ES-2024"):
        discover(LocalFolder(tmp_path), spec("ES"))


def test_files_are_opened_by_the_source_of_their_name(tmp_path):
    with open_raw(write(tmp_path / "A-2024-03-06.dbn.zst", [Msg()]), InstrumentSpec()) as opened:
        assert [len(chunk) for chunk in opened.chunks(16)] == [1]
    assert opened.listings[0].symbol == "TEST"
    with pytest.raises(InputError, match=r"a\.csv has a name that no source knows"):
        open_raw(tmp_path / "a.csv", InstrumentSpec())


@pytest.mark.parametrize("name", ["ESH4-2024-01-02.mbp-10.dbn.zst", "glbx-mdp3-20240102.mbp-10.dbn.zst"])
def test_a_folder_named_like_a_raw_file_is_told(tmp_path, name):
    """Half a copy, or an unpacked archive: its day would be missing and nobody would know."""
    touch(tmp_path, "ESH4-2024-01-03.mbp-10.dbn.zst")
    (tmp_path / name).mkdir()
    with pytest.raises(
        InputError, match=rf"{name} is a folder, must be a file as its name says: move what it"
    ):
        found(tmp_path, "ES")


def test_a_broken_link_and_a_pipe_named_like_raw_files_are_told(tmp_path):
    """Their days would be missing and nobody would know; those of other instruments are theirs."""
    touch(tmp_path, "ESH4-2024-01-03.mbp-10.dbn.zst")
    (tmp_path / "NQH4-2024-01-02.mbp-10.dbn.zst").symlink_to(tmp_path / "none")
    assert list(found(tmp_path, "ES")) == ["2024-01-03"]
    link = tmp_path / "ESH4-2024-01-02.mbp-10.dbn.zst"
    link.symlink_to(tmp_path / "none")
    with pytest.raises(
        InputError, match=r"ESH4-2024-01-02\S* is a broken link, must be a file .*: mend what it"
    ):
        found(tmp_path, "ES")
    link.unlink()
    link.symlink_to(link.name)
    with pytest.raises(InputError, match="is a broken link"):
        found(tmp_path, "ES")
    link.unlink()
    os.mkfifo(link)
    with pytest.raises(InputError, match=r"is a pipe, socket or device, must be a file .*: remove it, or"):
        found(tmp_path, "ES")


def test_links_to_folders_are_followed_and_each_folder_is_searched_once(tmp_path):
    raw, archive = tmp_path / "raw", tmp_path / "archive"
    touch(raw, "2024/ESH4-2024-01-02.mbp-10.dbn.zst")
    touch(archive, "deep/ESH4-2024-01-03.mbp-10.dbn.zst", "ESH4-2024-01-04.mbp-10.dbn.zst")
    (raw / "00-latest").symlink_to(raw / "2024")
    (raw / "old").symlink_to(archive)
    (raw / "older").symlink_to(archive)
    (archive / "deep" / "circle").symlink_to(raw)
    (archive / "ESH4-2024-01-05.mbp-10.dbn.zst").symlink_to(raw / "2024" / "ESH4-2024-01-02.mbp-10.dbn.zst")
    assert found(raw, "ES") == {
        "2024-01-02": ["2024/ESH4-2024-01-02.mbp-10.dbn.zst"],
        "2024-01-03": ["old/deep/ESH4-2024-01-03.mbp-10.dbn.zst"],
        "2024-01-04": ["old/ESH4-2024-01-04.mbp-10.dbn.zst"],
        "2024-01-05": ["old/ESH4-2024-01-05.mbp-10.dbn.zst"],
    }


def test_folders_of_other_names_and_of_other_instruments_are_searched(tmp_path):
    touch(tmp_path, "GLBX-20240102-ABC/ESH4-2024-01-02.mbp-10.dbn.zst")
    (tmp_path / "NQH4-2024-01-02.mbp-10.dbn.zst").mkdir()
    (tmp_path / ".ESH4-2024-01-02.mbp-10.dbn.zst").mkdir()
    assert list(found(tmp_path, "ES")) == ["2024-01-02"]
