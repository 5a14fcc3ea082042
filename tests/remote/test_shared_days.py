"""Cached days in a shared folder: one writer wins, nobody reads half a file, what comes is what was pushed."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "features"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tiny_market
from fx_tables import random_market, tables
from tiny_market import NAME, day

from alpha_core.errors import AlphaError, ConfigError, DataError, InputError
from alpha_pipeline.artifacts import ArtifactStore
from alpha_pipeline.bucket import Bucket, UnreachedError
from alpha_pipeline.exchange import pull_days, push_days
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.fxcache.build import build_day
from alpha_pipeline.fxcache.shared import PRESENT, PULLED, PUSHED, REFUSED, SharedDays
from alpha_pipeline.paths import Workspace
from alpha_pipeline.stages.fxcache import FILE

DAY = "2024-07-23"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two files of the same day, made from different sources."""
    folder, (snapshots, trades) = tmp_path_factory.mktemp("built"), tables(random_market(5, 400))

    def build(source):
        return build_day(
            snapshots,
            trades,
            day=DAY,
            instrument="demo",
            features=FeatureConfig(warmup_rows=20),
            source_digests={"day": source},
            out=folder / source / f"{DAY}.fxcache",
        ).path

    return build("a"), build("b")


@pytest.fixture(params=["s3", "file"])
def shared(request, tmp_path):
    place = request.getfixturevalue("url") if request.param == "s3" else str(tmp_path / "shared")
    return SharedDays(Bucket(place), "demo")


def test_pulled_day_is_the_pushed_one_mapped_and_verified(shared, built, tmp_path):
    assert shared.days() == []
    assert shared.push(built[0]).outcome == PUSHED
    assert shared.push(built[0]).outcome == PRESENT
    assert shared.days() == [DAY]
    pulled = shared.pull(DAY, tmp_path / "mine")
    assert (pulled.outcome, pulled.file) == (PULLED, tmp_path / "mine" / f"{DAY}.fxcache")
    assert pulled.file.read_bytes() == built[0].read_bytes()
    opened = open_day(pulled.file)
    start, size = opened.mapped_range
    assert start <= opened.features.__array_interface__["data"][0] < start + size
    assert shared.pull(DAY, tmp_path / "mine").outcome == PRESENT


def test_file_in_force_is_replaced_only_on_demand_and_readers_find_either_whole(shared, built, tmp_path):
    shared.push(built[0])
    refused = shared.push(built[1])
    assert (refused.outcome, refused.detail) == (
        REFUSED,
        f"another file of {DAY} is in force, of other sources: pull it, or push with --replace",
    )
    assert shared.pull(DAY, tmp_path).file.read_bytes() == built[0].read_bytes()
    assert shared.push(built[1], replace=True).outcome == PUSHED
    assert shared.pull(DAY, tmp_path).file.read_bytes() == built[1].read_bytes()


def test_of_two_writers_at_once_one_wins_and_the_other_is_told(shared, built, tmp_path):
    barrier, outcomes = threading.Barrier(2), {}

    def push(file):
        barrier.wait()
        outcomes[file] = shared.push(file).outcome

    threads = [threading.Thread(target=push, args=(file,)) for file in built]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = (file for file, outcome in outcomes.items() if outcome == PUSHED)
    assert sorted(outcomes.values()) == [PUSHED, REFUSED]
    assert shared.pull(DAY, tmp_path).file.read_bytes() == winner.read_bytes()


def test_pusher_that_ends_before_the_pointer_leaves_the_old_day_in_force(
    shared, built, tmp_path, monkeypatch
):
    shared.push(built[0])
    monkeypatch.setattr(Bucket, "put_if", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        shared.push(built[1], replace=True)
    assert shared.pull(DAY, tmp_path).file.read_bytes() == built[0].read_bytes()


def test_what_is_not_what_was_pushed_is_never_given_a_name(shared, built, tmp_path):
    shared.push(built[0])
    (stored,) = (one for one in shared._bucket.list() if one.name.endswith(".fxcache"))
    spoiled = bytearray(built[0].read_bytes())
    spoiled[len(spoiled) // 2] ^= 1
    (tmp_path / "spoiled").write_bytes(spoiled)
    shared._bucket.put_file(stored.name, tmp_path / "spoiled")
    with pytest.raises(DataError, match="does not have the digest in its name"):
        shared.pull(DAY, tmp_path / "mine")
    shared._bucket.put_if("demo/2024-07-24.json", b"{", None)
    with pytest.raises(DataError, match=r"demo/2024-07-24\.json is not readable"):
        shared.pull("2024-07-24", tmp_path / "mine")
    assert [p for p in (tmp_path / "mine").iterdir() if p.suffix in (".fxcache", ".tmp")] == []


def spoil(shared, name, tmp_path):
    """Flip a bit in the middle of a shared file."""
    bytes_ = bytearray(b"".join(shared._bucket.pieces(name)))
    bytes_[len(bytes_) // 2] ^= 1
    (tmp_path / "spoiled").write_bytes(bytes_)
    shared._bucket.put_file(name, tmp_path / "spoiled")


def test_push_tells_of_damaged_shared_bytes_and_replaces_them_on_demand(shared, built, tmp_path):
    """Their size and their name are those of the file that was pushed."""
    shared.push(built[0])
    (stored,) = (one for one in shared._bucket.list() if one.name.endswith(".fxcache"))
    spoil(shared, stored.name, tmp_path)
    told = shared.push(built[0])
    assert (told.outcome, "does not have the digest in its name" in told.detail) == (REFUSED, True)
    assert shared.push(built[0], replace=True).outcome == PUSHED
    assert shared.push(built[0]).outcome == PRESENT
    assert shared.pull(DAY, tmp_path / "mine").file.read_bytes() == built[0].read_bytes()


def test_one_bad_day_keeps_no_other_from_being_pushed_or_pulled(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    here, url = tiny_market.make_workspace(tmp_path / "here", days=3), str(tmp_path / "shared")
    for number in range(3):
        tiny_market.build_day(here, day(number))
    assert [one.outcome for one in push_days(NAME, here, url)] == [PUSHED] * 3
    shared = SharedDays(Bucket(url), NAME)
    (name,) = (s.name for s in shared._bucket.list() if day(0) in s.name and s.name.endswith(".fxcache"))
    spoil(shared, name, tmp_path)
    (tmp_path / "shared" / NAME / f"{day(1)}.json").write_text("{")
    (tmp_path / "shared" / NAME / "2024-99-99.json").write_text("{}")
    pulled = [(one.day, one.outcome) for one in pull_days(NAME, here, url)]
    assert pulled == [(day(0), REFUSED), (day(1), REFUSED), (day(2), PULLED), ("2024-99-99", REFUSED)]
    local = ArtifactStore(here.store(NAME)).get("fxcache", day(0)).path / FILE
    local.write_bytes(local.read_bytes()[:-100])
    assert [one.outcome for one in push_days(NAME, here, url)] == [REFUSED, REFUSED, PRESENT]
    assert [one.outcome for one in push_days(NAME, here, url, replace=True)] == [REFUSED, PUSHED, PUSHED]


def test_a_server_that_is_gone_is_asked_once_and_not_for_every_day(tmp_path, monkeypatch):
    here, url = tiny_market.make_workspace(tmp_path / "here", days=2), str(tmp_path / "shared")
    for number in range(2):
        tiny_market.build_day(here, day(number))
    list(push_days(NAME, here, url))

    def gone(self, name):
        raise UnreachedError(f"{name} was not reached")

    monkeypatch.setattr(Bucket, "read", gone)
    with pytest.raises(UnreachedError):
        next(pull_days(NAME, here, url))


def test_nothing_is_pulled_from_a_folder_that_is_not_there(tmp_path):
    there = Workspace(tmp_path / "there")
    tiny_market.configure(there, tiny_market.CONFIG)
    with pytest.raises(
        ConfigError, match="nowhere does not exist, must be a folder that days were pushed to"
    ):
        list(pull_days(NAME, there, str(tmp_path / "nowhere")))
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file is no folder"):
        list(pull_days(NAME, there, str(tmp_path / "file")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="has no days"):
        list(pull_days(NAME, there, str(tmp_path / "empty"), out=tmp_path / "file"))


def test_damaged_or_foreign_file_is_not_pushed(shared, built, tmp_path):
    (tmp_path / "damaged").write_bytes(built[0].read_bytes()[:-100])
    with pytest.raises(InputError):
        shared.push(tmp_path / "damaged")
    with pytest.raises(ConfigError, match="is of demo, must be of other"):
        SharedDays(shared._bucket, "other").push(built[0])
    with pytest.raises(ConfigError, match=r"day was 2024-07-25, must be one that"):
        shared.pull("2024-07-25", tmp_path)
    assert shared._bucket.list() == []


def test_workspace_pushes_its_days_and_another_pulls_them(url, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    here = tiny_market.make_workspace(tmp_path / "here", days=1)
    tiny_market.build_day(here, day(0))
    there = Workspace(tmp_path / "there")
    tiny_market.configure(there, tiny_market.CONFIG)
    assert [one.outcome for one in push_days(NAME, here, url)] == [PUSHED]
    (pulled,) = pull_days(NAME, there, url)
    assert (pulled.day, pulled.file.parent) == (day(0), there.pulled(NAME))
    assert open_day(pulled.file).rows > 0
    with pytest.raises(AlphaError, match=rf"day was x, must be in {url} for {NAME}: its 1 days run from"):
        list(pull_days(NAME, there, url, ["x"]))
    with pytest.raises(AlphaError, match="the cache of tiny has no days"):
        list(push_days(NAME, there, url))


def start_driver(url, start, *files):
    """A process that pushes, up and waiting for `start`."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, Path(__file__).with_name("push_driver.py"), url, start, *files]
    driver = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert driver.stdout.readline() == "ready\n"
    return driver


def test_of_two_processes_that_push_a_day_at_once_one_wins(url, built, tmp_path):
    drivers = [start_driver(url, tmp_path / "go", "--once", file) for file in built]
    (tmp_path / "go").touch()
    outcomes = [json.loads(driver.communicate(timeout=60)[0]) for driver in drivers]
    assert sorted(outcomes) == [PUSHED, REFUSED]
    pulled = SharedDays(Bucket(url), "demo").pull(DAY, tmp_path / "mine").file
    assert pulled.read_bytes() == built[outcomes.index(PUSHED)].read_bytes()


def _forget_what_is_not_in_force(bucket):
    """So that the next push uploads a file again."""
    import obstore

    pointer = bucket.read(f"demo/{DAY}.json")[0].decode()
    for stored in bucket.list():
        if stored.name.endswith(".fxcache") and Path(stored.name).stem not in pointer:
            obstore.delete(bucket._store, stored.name)


@pytest.mark.faults
def test_pushers_killed_at_random_instants_leave_a_whole_day_in_force(url, built, tmp_path):
    shared, rng = SharedDays(Bucket(url), "demo"), random.Random(5)
    shared.push(built[0])
    whole, pushes = {file.read_bytes() for file in built}, 0
    bucket = Bucket(url)
    (tmp_path / "go").touch()
    for _ in range(25):
        _forget_what_is_not_in_force(bucket)
        driver = start_driver(url, tmp_path / "go", *built)
        time.sleep(rng.uniform(0.0, 0.15))
        driver.kill()
        pushes += len(driver.communicate(timeout=60)[0].splitlines())
        assert shared.pull(DAY, tmp_path / "mine").file.read_bytes() in whole
    assert pushes >= 25, "they were killed at work"
