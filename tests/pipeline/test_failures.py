"""Why a day failed stays told until it is mended, and no longer."""

import json

import pytest
import tiny_market
from tiny_market import CONFIG, NAME, day, file_of

from alpha_core.errors import InputError
from alpha_pipeline.artifacts import WHOLE
from alpha_pipeline.cli import main
from alpha_pipeline.failures import failure_kept, has_failed, kept_failure
from alpha_pipeline.provenance import Stamp
from alpha_pipeline.run import standings_of

STAMP = Stamp(code="1", config="a", inputs={"raw/0": "x"})


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Two days, of which the first could not be read."""
    made = tiny_market.make_workspace(tmp_path, days=2)
    monkeypatch.setenv("ALPHA_HOME", str(tmp_path))
    file_of(made.raw(NAME), 0).write_bytes(b"hello world")
    with pytest.raises(InputError):
        tiny_market.build_day(made, day(0))
    tiny_market.build_day(made, day(1))
    return made


def failed(workspace):
    return standings_of(NAME, workspace, raw=None).failed


def command(capsys, *words):
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*words, "--instrument", NAME])
    return capsys.readouterr().out


def test_status_and_quality_say_why_a_day_is_kept_out(workspace, capsys):
    told = failed(workspace)
    assert list(told) == [day(0)]
    assert told[day(0)].startswith("mbp10_snapshots failed: ")
    assert "is not a DBN file: byte 0" in told[day(0)]
    assert f"{day(0)}: {told[day(0)]}" in command(capsys, "status").splitlines()
    assert command(capsys, "quality").splitlines()[0] == f"{day(0)} not judged, {told[day(0)]}"
    (entry,) = [e for e in json.loads(command(capsys, "quality", "--json")) if e["day"] == day(0)]
    assert entry["rejected_by"] == told[day(0)]


def test_reason_is_not_told_of_a_file_that_was_replaced_since(workspace):
    file_of(workspace.raw(NAME), 0).write_bytes(b"another text")
    assert failed(workspace) == {}


def test_reason_is_not_told_under_a_configuration_that_the_stage_was_not_tried_with(workspace):
    tiny_market.configure(workspace, CONFIG.replace('tick_size = "0.25"', 'tick_size = "0.5"'))
    assert failed(workspace) == {}


def test_reason_goes_with_the_success_that_follows(workspace):
    tiny_market.write_days(workspace.raw(NAME), 1)
    tiny_market.build_day(workspace, day(0))
    assert failed(workspace) == {}
    assert list((workspace.store(NAME)).rglob("failure.json")) == []


def test_reason_of_a_stage_is_not_told_while_one_before_it_is_stale(workspace):
    store = tiny_market.scope(workspace).store
    stamp = store.get("fxcache", day(1)).stamp
    (store.root / "fxcache" / day(1) / "current.json").unlink()
    with pytest.raises(ValueError), failure_kept(store.root / "fxcache" / day(1), stamp):
        raise ValueError("of\ntwo lines")
    assert failed(workspace)[day(1)] == "fxcache failed: unexpected ValueError: of two lines"
    (store.root / "trades" / day(1) / "current.json").unlink()
    assert day(1) not in failed(workspace)


def test_undivided_stages_keep_their_reason_too(workspace):
    """It stands on days that are all usable."""
    tiny_market.write_days(workspace.raw(NAME), 2)
    tiny_market.build_day(workspace, day(0))
    scope = tiny_market.scope(workspace)
    from alpha_pipeline.stages import STAGES
    from alpha_pipeline.stages.base import required_stamp

    stage = next(s for s in STAGES if not s.per_day)
    with (
        pytest.raises(InputError),
        failure_kept(scope.store.root / stage.name / WHOLE, required_stamp(stage, scope, WHOLE)),
    ):
        raise InputError("too few")
    assert failed(workspace) == {WHOLE: f"{stage.name} failed: too few"}


def test_what_the_machine_refused_is_not_kept(tmp_path):
    with pytest.raises(OSError), failure_kept(tmp_path, STAMP):
        raise OSError(28, "No space left on device")
    assert not has_failed(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"stamp": 1, "reason": "x"}'])
def test_spoilt_record_tells_nothing(tmp_path, content):
    (tmp_path / "failure.json").write_text(content)
    assert kept_failure(tmp_path, STAMP) is None
    with failure_kept(tmp_path, STAMP):
        pass
    assert not has_failed(tmp_path)
