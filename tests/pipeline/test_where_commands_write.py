"""Each command that writes where it is told says in one sentence that it cannot, before it works for long."""

import shutil
import subprocess
import sys

import pytest
import tiny_market
from tiny_market import NAME

from alpha_pipeline.cli import main
from alpha_pipeline.paths import PROJECT


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """What a command that fails says."""
    tiny_market.make_workspace(tmp_path, days=1)
    monkeypatch.setenv("ALPHA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "400")
    shutil.copy(PROJECT / "instruments" / "demo.toml", tmp_path / "instruments")
    (tmp_path / "file").touch()

    def run(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        said = capsys.readouterr().err
        assert ended.value.code == 1, said
        return said

    return run


def test_folder_to_write_into_that_is_a_file(told, tmp_path):
    (raw,) = (tmp_path / "data" / "raw" / NAME).glob("*.dbn.zst")
    for words in (
        ("split", raw, tmp_path / "file"),
        ("split", raw, tmp_path / "file" / "below"),
        ("simulate", tmp_path / "file", "--instrument", "demo"),
        ("quality", "--instrument", NAME, "--html", tmp_path / "file" / "page.html"),
        ("facts", "--html", tmp_path / "file" / "page.html"),
    ):
        assert "is no folder (" in told(*words), words


def test_file_to_write_that_is_a_folder(told, tmp_path):
    for words in (("quality", "--instrument", NAME), ("facts",)):
        assert f"error: {tmp_path} is no file: name one" in told(*words, "--html", tmp_path)


def test_page_goes_into_a_folder_that_is_made(told, tmp_path):
    main_ends = pytest.raises(SystemExit)
    with main_ends as ended:
        main(["quality", "--instrument", NAME, "--html", str(tmp_path / "new" / "page.html")])
    assert (ended.value.code, (tmp_path / "new" / "page.html").is_file()) == (0, True)


@pytest.mark.parametrize("module", ["alpha_pipeline", "alpha_pipeline.cli"])
def test_modules_are_commands_too(module):
    asked = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True
    )
    assert "quality" in asked.stdout
