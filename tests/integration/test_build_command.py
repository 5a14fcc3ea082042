"""`alpha build`: exactly the stale days, several at a time, and everybody agrees on what is stale."""

import json
import os
import subprocess
import sys

import dagster as dg
import pytest
import tiny_market
from tiny_market import DAY_STAGES, NAME, day, file_of

from alpha_pipeline.paths import PROJECT, Workspace
from alpha_pipeline.run import DAY_STAGES as STAGES
from alpha_pipeline.run import standings_of

DAYS = [day(index) for index in range(8)]
COMMAND = "from alpha_pipeline.cli import main\nif __name__ == '__main__':\n    main()\n"


def alpha(workspace: Workspace, *arguments: str) -> subprocess.CompletedProcess:
    """The command in a process of its own, as a person runs it."""
    script = workspace.root / "alpha_command.py"
    script.write_text(COMMAND)
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ALPHA_HOME": str(workspace.root), "PYTHONPATH": str(PROJECT)},
        timeout=240,
    )


def told(done: subprocess.CompletedProcess):
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def in_force(workspace: Workspace) -> dict[tuple[str, str], str]:
    store = tiny_market.scope(workspace).store
    return {(s, k): store.get(s, k).path.name for s in DAY_STAGES for k in store.partitions(s)}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Eight days built by four processes into one store and one Dagster instance."""
    workspace = tiny_market.make_workspace(tmp_path_factory.mktemp("build"), days=8)
    done = alpha(workspace, "build", "--instrument", NAME, "--processes", "4", "--json")
    return workspace, done


def test_days_are_built_side_by_side_without_a_lock_failing(built):
    _, done = built
    outcome = told(done)
    assert (done.returncode, outcome["failed"]) == (0, {})
    assert sorted(map(tuple, outcome["built"])) == sorted((s, k) for s in DAY_STAGES for k in DAYS)
    assert "locked" not in done.stderr


def test_the_page_knows_what_the_command_built(built):
    workspace, _ = built
    with dg.DagsterInstance.from_config(str(workspace.dagster_home)) as instance:
        for stage in DAY_STAGES:
            key = dg.AssetKey([NAME, stage])
            assert instance.get_materialized_partitions(key) == set(DAYS)
            event = instance.get_latest_materialization_event(key)
            stamps = {tiny_market.scope(workspace).store.get(stage, k).stamp.version for k in DAYS}
            assert event.asset_materialization.tags["alpha/stamp"] in stamps


def test_second_build_finds_nothing_to_do(built):
    workspace, _ = built
    before = in_force(workspace)
    done = alpha(workspace, "build", "--instrument", NAME, "--json")
    assert told(done)["built"] == []
    assert standings_of(NAME, workspace, raw=None, stages=STAGES).stale == []
    assert in_force(workspace) == before


@pytest.mark.slow
def test_one_changed_day_is_built_and_no_other_is_touched(built, tmp_path):
    workspace = tiny_market.copy_of(built[0], tmp_path / "copy")
    before = in_force(workspace)
    spare = tiny_market.write_days(tmp_path / "spare", 4, events=2000)
    file_of(workspace.raw(NAME), 3).write_bytes(spare[3].read_bytes())
    dry = told(alpha(workspace, "build", "--instrument", NAME, "--dry-run", "--json"))
    assert {entry["partition"] for entry in dry["stale"]} == {day(3)}
    assert in_force(workspace) == before, "a dry run builds nothing"
    outcome = told(alpha(workspace, "build", "--instrument", NAME, "--processes", "2", "--json"))
    assert sorted(map(tuple, outcome["built"])) == sorted((s, day(3)) for s in DAY_STAGES)
    after = in_force(workspace)
    assert {key for key in before if before[key] != after[key]} == {(s, day(3)) for s in DAY_STAGES}


@pytest.mark.slow
def test_failing_days_are_told_and_the_others_go_on(built, tmp_path):
    workspace = tiny_market.copy_of(built[0], tmp_path / "copy")
    for index in (1, 5):
        file_of(workspace.raw(NAME), index).write_bytes(b"no market data at all")
    file_of(workspace.raw(NAME), 6).write_bytes(
        tiny_market.write_days(tmp_path / "x", 7, events=2000)[6].read_bytes()
    )
    done = alpha(workspace, "build", "--instrument", NAME, "--processes", "3", "--json")
    outcome = told(done)
    assert done.returncode == 1
    assert set(outcome["failed"]) == {day(1), day(5)}
    assert all("is not a DBN file" in sentence for sentence in outcome["failed"].values())
    assert {partition for _, partition in outcome["built"]} == {day(6)}


@pytest.mark.slow
def test_two_builds_at_once_share_the_days_between_them(tmp_path):
    workspace = tiny_market.make_workspace(tmp_path, days=3)
    script = workspace.root / "alpha_command.py"
    script.write_text(COMMAND)
    environment = os.environ | {"ALPHA_HOME": str(workspace.root), "PYTHONPATH": str(PROJECT)}
    arguments = [sys.executable, str(script), "build", "--instrument", NAME, "--processes", "1", "--json"]
    both = [subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outcomes = [json.loads(process.communicate(timeout=240)[0]) for process in both]
    built = [tuple(entry) for outcome in outcomes for entry in outcome["built"]]
    assert sorted(built) == sorted((s, k) for s in DAY_STAGES for k in DAYS[:3]), "nothing was built twice"
    assert [outcome["failed"] for outcome in outcomes] == [{}, {}]


def test_wrong_arguments_are_one_sentence(built):
    workspace, _ = built
    for arguments, sentence in (
        (("--day", "2031-01-01"), "--day was 2031-01-01, must be one of the 8 days in"),
        (("--processes", "0"), "--processes was 0, must be at least 1"),
    ):
        done = alpha(workspace, "build", "--instrument", NAME, *arguments)
        assert done.returncode == 1
        assert sentence in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_only_the_chosen_day_is_built(tmp_path):
    workspace = tiny_market.make_workspace(tmp_path, days=3)
    done = alpha(workspace, "build", "--instrument", NAME, "--day", day(1), "--json")
    outcome = told(done)
    assert {partition for _, partition in outcome["built"]} == {day(1)}
    left = standings_of(NAME, workspace, raw=None, stages=STAGES).stale
    assert {entry.partition for entry in left} == {day(0), day(2)}
