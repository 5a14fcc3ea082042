"""What a person may get wrong, through the installed command: one sentence, exit code 1, nothing half-written."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import databento_dbn as dbn
import pytest
import tiny_market
import zstandard
from tiny_market import NAME, day, file_of

from alpha_pipeline.cli import main
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.paths import Workspace
from alpha_pipeline.simulator import simulate_days
from alpha_pipeline.simulator.config import SimulatorConfig

ALPHA = Path(sys.executable).with_name("alpha")
NOON = 1_704_196_800_000_000_000  # 2024-01-02 12:00 UTC


class Command:
    """The command `alpha` in one workspace."""

    def __init__(self, workspace, capture):
        self.workspace, self.capture = workspace, capture

    def __call__(self, *words):
        environment = {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}
        environment |= {"ALPHA_HOME": str(self.workspace.root), "COLUMNS": "80"}
        return subprocess.run(
            [ALPHA, *map(str, words)], capture_output=True, text=True, env=environment, check=False
        )

    def run(self, *words):
        return self("run", "--instrument", NAME, *words)

    def run_inside(self, *words):
        """The same without a process of its own, which costs seconds of imports."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ALPHA_HOME", str(self.workspace.root))
            patch.delenv("MLFLOW_TRACKING_URI", raising=False)
            self.capture.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(["run", "--instrument", NAME, *map(str, words)])
        told = self.capture.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=told.out, stderr=told.err)


@pytest.fixture
def alpha(tmp_path, capsys):
    """A workspace with an instrument and no raw files."""
    workspace = Workspace(tmp_path / "workspace")
    tiny_market.configure(workspace, tiny_market.CONFIG)
    return Command(workspace, capsys)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """One good raw file."""
    folder = tmp_path_factory.mktemp("good")
    tiny_market.write_days(folder, 1)
    return file_of(folder, 0).read_bytes()


@pytest.fixture
def folder(tmp_path):
    """A folder of raw files of one's own."""
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw"


def error_of(done, lead="error: "):
    """What is said of an outcome that must be exit code 1 and, at the end of stderr, one line that says why."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "dagster._core" not in done.stderr
    told = done.stderr.splitlines()
    (line,) = [line for line in told if line.startswith(lead)]
    assert line == told[-1]
    return line


def nothing_half_written(workspace):
    """Every attempt in the store is one that a pointer names, and no temporary file is left."""
    store = workspace.store(NAME)
    attempts = {path.parent for path in store.glob("*/*/attempt-*")}
    assert {path for path in attempts if not (path / "current.json").is_file()} == set()
    for partition in attempts:
        assert len(list(partition.glob("attempt-*"))) == 1
    assert [path for path in store.rglob("*") if path.suffix in (".tmp", ".part")] == []


def mbp1_file(path):
    """An MBP-1 file of our instrument, by the official encoder."""
    interval = SimpleNamespace(start_date=date(2024, 1, 2), end_date=date(2024, 1, 3), symbol="1")
    head = dbn.Metadata(
        dataset="XSIM.SIM",
        start=NOON,
        stype_in=dbn.SType.RAW_SYMBOL,
        stype_out=dbn.SType.INSTRUMENT_ID,
        schema=dbn.Schema.MBP_1,
        symbols=["TINY"],
        mappings=[SimpleNamespace(raw_symbol="TINY", intervals=[interval])],
        version=3,
    ).encode()
    records = [
        dbn.MBP1Msg(
            publisher_id=1,
            instrument_id=1,
            ts_event=NOON + k,
            price=5_000_000_000,
            size=1,
            action=dbn.Action.ADD,
            side=dbn.Side.BID,
            depth=0,
            ts_recv=NOON + k,
            flags=128,
            ts_in_delta=0,
            sequence=k,
            levels=dbn.BidAskPair(bid_px=5_000_000_000, ask_px=5_250_000_000, bid_sz=1, ask_sz=1),
        )
        for k in range(3)
    ]
    path.write_bytes(zstandard.ZstdCompressor().compress(head + b"".join(map(bytes, records))))


def test_folder_with_nothing_but_a_text_file(alpha, folder):
    file_of(folder, 0).write_text("date,price\n2024-01-02,1\n")
    done = alpha.run_inside("--raw", folder)
    line = error_of(done)
    assert f"{file_of(folder, 0)} is not a DBN file: byte 0 of the stream begins b'date,pri'" in line
    assert line.startswith(f"error: every day failed; {day(0)}: ")
    assert done.stdout == ""
    nothing_half_written(alpha.workspace)
    assert list(alpha.workspace.store(NAME).glob("*/*/current.json")) == []


def test_each_bad_file_fails_its_own_day_with_its_own_sentence(alpha, folder, good):
    """One good day among a text, two cut files, a wrong schema and a wrong instrument."""
    config = SimulatorConfig(symbol="ELSE", days=6, events_per_day=1000)
    stranger = InstrumentSpec(name="else", symbols=("ELSE",))
    (other,) = simulate_days(config, stranger, folder, [day(5)])
    other.rename(file_of(folder, 5))
    file_of(folder, 0).write_bytes(good)
    file_of(folder, 1).write_text("date,price\n2024-01-02,1\n")
    file_of(folder, 2).write_bytes(good[: len(good) // 2])
    file_of(folder, 3).write_bytes(good[:60])
    mbp1_file(file_of(folder, 4))
    done = alpha.run("--raw", folder)
    assert (
        "tiny has 1 usable days, must be more than walk_forward.oos_days = 1: add raw files or"
        in error_of(done)
    )
    failed = {
        line.split()[1].rstrip(":"): line.split("FAILED, ")[1]
        for line in done.stderr.splitlines()
        if "FAILED" in line
    }
    cut = (
        "rejected by data_quality: files that end inside a record or a compressed frame: 1, must be at most 0"
    )
    said = {
        day(1): "is not a DBN file: byte 0 of the stream begins b'date,pri' instead of b'DBN'",
        day(2): cut,
        day(3): "is cut inside its first compressed frame, fetch the file again",
        day(
            4
        ): "holds schema mbp-1 by its header (byte 0), must be mbp-10 or mbo: give a file of schema mbp-10 or mbo",
        day(5): "has the symbols ELSE, instrument tiny wants TINY: give its own file or mend `symbols`",
    }
    assert failed.keys() == said.keys()
    for key, words in said.items():
        assert words in failed[key]
    nothing_half_written(alpha.workspace)
    store = alpha.workspace.store(NAME)
    assert [path.parent.name for path in store.glob("fxcache/*/current.json")] == [day(0)]
    assert {path.parent.name for path in store.glob("data_quality/*/current.json")} == {day(0), day(2)}


def test_empty_folder(alpha, folder):
    assert f"{folder} is empty, must hold MBP-10 files of tiny (symbols TINY)" in error_of(
        alpha.run("--raw", folder)
    )
    assert not alpha.workspace.store(NAME).exists()


def test_folder_that_is_not_there(alpha, tmp_path):
    assert "none, must be an existing folder with MBP-10 files" in error_of(
        alpha.run("--raw", tmp_path / "none")
    )


def test_default_folder_that_is_not_there(alpha):
    assert "is not a folder: put raw files there or name another folder" in error_of(alpha.run_inside())


def test_mbp1_file_that_says_so_in_its_name(alpha, folder):
    mbp1_file(folder / f"TINY-{day(0)}.mbp-1.dbn.zst")
    assert f"holds no MBP-10 file of tiny (symbols TINY), only TINY-{day(0)}.mbp-1" in error_of(
        alpha.run_inside("--raw", folder)
    )


@pytest.mark.real_data
def test_real_mbp1_file(alpha, real_data):
    assert "holds no MBP-10 file of tiny (symbols TINY), only " in error_of(
        alpha.run_inside("--raw", real_data / "mbp1")
    )


def test_file_of_another_instrument(alpha, folder, good):
    """By its name, and where the name does not tell, by the symbols in its header."""
    (folder / f"OTHER-{day(0)}.mbp-10.dbn.zst").write_bytes(good)
    assert f"only OTHER-{day(0)}.mbp-10.dbn.zst: add files named like TINY-" in error_of(
        alpha.run_inside("--raw", folder)
    )
    config = tiny_market.CONFIG.replace('["TINY"]', '["ELSE"]')
    tiny_market.configure(alpha.workspace, config)
    (folder / f"OTHER-{day(0)}.mbp-10.dbn.zst").rename(folder / "xsim-sim-20240102.mbp-10.dbn.zst")
    assert "holds no MBP-10 file of tiny (symbols ELSE), only xsim-sim-2024" in error_of(
        alpha.run_inside("--raw", folder)
    )


def test_unknown_instrument(alpha):
    assert "no instrument named 'gold' in " in error_of(alpha("run", "--instrument", "gold"))


def test_unknown_stage(alpha, folder, good):
    file_of(folder, 0).write_bytes(good)
    line = error_of(alpha.run_inside("--raw", folder, "--until", "magic"))
    assert "--until was 'magic', must be one of mbp10_" in line
    assert line.endswith("oos_gate, report")


def test_misspelt_setting(alpha):
    tiny_market.configure(alpha.workspace, tiny_market.CONFIG.replace("horizon = 40", "horizn = 40"))
    assert "tiny.toml: unknown key 'market.horizn', remove it or mend its spelling" in error_of(
        alpha.run_inside()
    )


def test_traceback_is_shown_on_demand(alpha, folder):
    done = alpha("--debug", "run", "--instrument", NAME, "--raw", folder)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "is empty, must hold MBP-10 files of tiny" in done.stderr


def test_unforeseen_error_is_one_sentence_too(alpha, folder, good):
    file_of(folder, 0).write_bytes(good)
    alpha.workspace.dagster_home.write_text("a file where a folder must be")
    done = alpha.run_inside("--raw", folder, "--until", "fxcache")
    assert "unexpected FileExistsError" in error_of(done, lead="error: unexpected")
    assert done.stderr.rstrip().endswith("(alpha --debug shows where)")


def test_unknown_option_is_a_usage_error(alpha):
    done = alpha.run("--nope")
    assert done.returncode == 2
    assert "No such option: --nope" in done.stderr
