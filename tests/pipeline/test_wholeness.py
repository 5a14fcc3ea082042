"""A published file that is changed, cut or lost is never read as if nothing had happened, and its stage heals it."""

import os
import shutil

import pytest
import tiny_market
from tiny_market import NAME, day
from typer.testing import CliRunner

from alpha_core.errors import DataError
from alpha_pipeline import wholeness
from alpha_pipeline.artifacts import DAMAGED
from alpha_pipeline.cli import app
from alpha_pipeline.plan import stale_day, stale_whole
from alpha_pipeline.run import standings_of
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import execute

FIRST, SECOND, THIRD = (day(index) for index in range(3))
TABLE = "snapshots.arrow"


def artifact(market, stage, partition=SECOND):
    return tiny_market.scope(market).store.find(stage, partition)


def stale(market):
    return [(e.stage, e.partition) for e in standings_of(NAME, market, raw=None).stale]


def change(path):
    """One bit in the middle, length and modification time as they were."""
    found, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def lose(path):
    path.unlink()


def add(path):
    path.with_name("more.arrow").write_bytes(b"more")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (change, f"{TABLE} changed"),
        (cut, f"{TABLE} changed"),
        (lose, f"{TABLE} gone"),
        (add, "more.arrow not part of it"),
    ],
)
def test_damaged_table_makes_its_stage_stale_and_is_not_read(market, spoil, told):
    """The cache would be made of wrong numbers, and stamped as if of the right ones."""
    before = {name: artifact(market, name).digest for name in tiny_market.DAY_STAGES}
    spoil(artifact(market, "mbp10_snapshots").path / TABLE)
    reasons = stale_day(STAGES, tiny_market.scope(market), SECOND)[0].reasons
    assert told in reasons[0]
    assert stale(market)[0] == ("mbp10_snapshots", SECOND)
    assert {partition for _, partition in stale(market)} <= {SECOND, "all"}
    cache = next(stage for stage in STAGES if stage.name == "fxcache")
    with pytest.raises(DataError, match=r"is not what was published: .* build mbp10_snapshots again"):
        execute(cache, tiny_market.scope(market), SECOND, {})
    tiny_market.build_day(market, SECOND)
    assert {name: artifact(market, name).digest for name in tiny_market.DAY_STAGES} == before
    assert stale(market) == []


def test_spoiled_summary_of_a_day_is_told_and_stops_no_page(market, monkeypatch):
    monkeypatch.setenv("ALPHA_HOME", str(market.root))
    (artifact(market, "data_quality").path / "result.json").write_text("{")
    page = CliRunner().invoke(app, ["quality", "--instrument", NAME])
    assert page.exception is None or isinstance(page.exception, SystemExit), page.output
    (line,) = [line for line in page.output.splitlines() if SECOND in line]
    assert DAMAGED in line
    assert "result.json changed" in page.output
    assert FIRST in page.output and THIRD in page.output
    assert tiny_market.scope(market).usable_days() == [FIRST, THIRD]
    tiny_market.build_day(market, SECOND)
    assert stale(market) == []


def test_damaged_result_of_an_undivided_stage_is_told(market):
    cut(artifact(market, "perception_model", "all").path / "result.json")
    found = stale_whole(STAGES, tiny_market.scope(market))
    assert found[0].stage == "perception_model"
    assert "result.json changed" in found[0].reasons[0]


def test_store_that_was_copied_or_touched_is_read_once_and_not_rebuilt(market, monkeypatch):
    read = []
    digest = wholeness.digest_tree
    monkeypatch.setattr(wholeness, "digest_tree", lambda folder: read.append(folder) or digest(folder))
    assert stale(market) == []
    assert len(read) == 3 * len(tiny_market.DAY_STAGES) + len(tiny_market.WHOLE_STAGES), "it is a copy"
    read.clear()
    assert stale(market) == []
    assert read == []
    touched = artifact(market, "trades").path
    for path in touched.rglob("*"):
        path.touch()
    assert stale(market) == []
    assert read == [touched]


def test_store_that_may_only_be_read_is_read_once_in_a_process(market, monkeypatch):
    read = []
    digest = wholeness.digest_tree
    monkeypatch.setattr(wholeness, "digest_tree", lambda folder: read.append(folder) or digest(folder))
    monkeypatch.setattr(wholeness, "write_atomic", refused)
    for _ in range(2):
        assert stale(market) == []
    assert len(read) == len(set(read)) > 0


def refused(path, data):
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"attempt": 1}', '{"files": {}}'])
def test_spoiled_record_costs_a_reading_and_nothing_else(market, content):
    found = artifact(market, "fxcache")
    record = found.path.parent / wholeness.RECORD
    record.write_text(content)
    wholeness._read_here.clear()
    assert stale(market) == []
    assert found.path.name in record.read_text()
    cut(found.path / "result.json")
    record.write_text(content)
    wholeness._read_here.clear()
    assert "its content has another digest" in artifact(market, "fxcache").damage


def test_unreadable_file_is_damage(market):
    path = artifact(market, "trades").path / "trades.arrow"
    path.unlink()
    path.symlink_to(path.name)
    assert artifact(market, "trades").damage
    shutil.rmtree(artifact(market, "trades").path)
    assert tiny_market.scope(market).store.status("trades", SECOND) == DAMAGED
