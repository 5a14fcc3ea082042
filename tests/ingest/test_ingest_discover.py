"""Which files of a folder are an instrument's, and of which day."""

import databento_dbn as dbn
import pytest
from dbn_builder import Msg, header, write

from alpha_core.errors import InputError
from alpha_pipeline.ingest.databento import DbnSource
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.raw import FileName
from alpha_pipeline.ingest.source import discover, open_raw
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
        "x-2024-13-01.dbn",
        "x-2024-02-30.dbn.zst",
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


def test_folders_of_other_names_and_of_other_instruments_are_searched(tmp_path):
    touch(tmp_path, "GLBX-20240102-ABC/ESH4-2024-01-02.mbp-10.dbn.zst")
    (tmp_path / "NQH4-2024-01-02.mbp-10.dbn.zst").mkdir()
    (tmp_path / ".ESH4-2024-01-02.mbp-10.dbn.zst").mkdir()
    assert list(found(tmp_path, "ES")) == ["2024-01-02"]
