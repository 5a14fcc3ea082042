"""kill -9 at random instants: whoever looks afterwards finds the old or the new content, whole."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_market
from tiny_market import DAY_STAGES, NAME, day

from alpha_pipeline.cached_days import collect_garbage, verify_cached
from alpha_pipeline.paths import PROJECT
from alpha_pipeline.provenance import digest_tree
from alpha_pipeline.run import DAY_STAGES as STAGES
from alpha_pipeline.run import standings_of

DRIVER = Path(__file__).with_name("kill_driver.py")
COMMAND = "from alpha_pipeline.cli import main\nif __name__ == '__main__':\n    main()\n"
DAYS = [day(index) for index in range(4)]


def drive(what: str, folder: Path, kills: int) -> dict:
    done = subprocess.run(
        [sys.executable, str(DRIVER), what, str(folder), str(kills), "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ | {"PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", ["stage", "cache"])
def test_atomic_write_a_killed_publication_is_old_or_new(tmp_path, what):
    kills = 120
    told = drive(what, tmp_path, kills)
    print(told)
    assert sum(told["seen"].values()) == kills
    assert told["seen"].get("killed, old", 0) > 0, "no kill struck before the publication"
    new = told["seen"].get("killed, new", 0) + told["seen"].get("finished, new", 0)
    assert new > 0, "no child came as far as the publication"
    assert told["leftovers"] == 0


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_fault_killed_training_ends_with_the_bits_of_an_undisturbed_run(tmp_path):
    """A state is saved after every second update, so that many kills strike while one is being written."""
    told = drive("training", tmp_path, 25)
    print(told)
    assert told["kills"] >= 10
    assert told["told"].keys() == {"training goes on"}, "a state was left aside or not saved"
    assert told["told"]["training goes on"] >= 10


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_killed_build_command_leaves_whole_days_and_a_rerun_heals(tmp_path):
    """The whole command with two workers: kill it 25 times, its workers must end with it."""
    workspace = tiny_market.make_workspace(tmp_path, days=len(DAYS))
    script = tmp_path / "alpha_command.py"
    script.write_text(COMMAND)
    environment = os.environ | {"ALPHA_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    arguments = [sys.executable, str(script), "build", "--instrument", NAME, "--processes", "2"]
    rng = random.Random(5)
    for _ in range(25):
        process = subprocess.Popen(
            arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(1.0, 14.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        store = tiny_market.scope(workspace).store
        for stage in DAY_STAGES:
            for key in store.partitions(stage):
                artifact = store.get(stage, key)
                assert digest_tree(artifact.path) == artifact.digest
        assert all(v.problem is None for v in verify_cached(tiny_market.scope(workspace), full=True))
        if rng.random() < 0.5:  # begin anew, so that later kills strike everywhere
            victim = rng.choice(DAYS)
            for stage in DAY_STAGES:
                (store.root / stage / victim / "current.json").unlink(missing_ok=True)
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert standings_of(NAME, workspace, raw=None, stages=STAGES).stale == []
    collect_garbage(tiny_market.scope(workspace), min_age_s=0.0)
    for stage in DAY_STAGES:
        for key in DAYS:
            assert len(list((tiny_market.scope(workspace).store.root / stage / key).glob("attempt-*"))) == 1


@pytest.mark.faults
def test_killed_worker_costs_its_own_day_and_a_rerun_heals(tmp_path):
    """One of two workers is killed at work: its day fails in a sentence, the others are built by what goes on."""
    workspace = tiny_market.make_workspace(tmp_path, days=len(DAYS))
    script = tmp_path / "alpha_command.py"
    script.write_text(COMMAND)
    environment = os.environ | {"ALPHA_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    arguments = [sys.executable, str(script), "build", "--instrument", NAME, "--processes", "2", "--json"]
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    store = tiny_market.scope(workspace).store
    while not list(store.root.glob("*/*/attempt-*")):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(max(_workers_of(process.pid)), signal.SIGKILL)
    outcome = json.loads(process.communicate(timeout=240)[0])
    assert process.returncode == 1
    assert len(outcome["failed"]) == 1
    (sentence,) = outcome["failed"].values()
    assert sentence.startswith("its process was killed, by hand or for want of memory: run again")
    assert {day for _, day in outcome["built"]} >= set(DAYS) - set(outcome["failed"])
    again = json.loads(subprocess.run(arguments, env=environment, capture_output=True, check=True).stdout)
    assert {day for _, day in again["built"]} == set(outcome["failed"])
    assert standings_of(NAME, workspace, raw=None, stages=STAGES).stale == []


def _workers_of(parent: int) -> list[int]:
    """Processes that the command spawned to work on days."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == parent and b"spawn_main" in command:
            found.append(int(status.parent.name))
    return found
