"""Raw files read by URL: found by name, fetched once, read again exactly when they were written anew."""

import multiprocessing
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ingest"))

import tiny_market
from dbn_builder import Msg, header, write
from tiny_market import NAME, SYMBOL, day, file_of

from alpha_core.errors import DataError, InputError
from alpha_pipeline.artifacts import ArtifactStore
from alpha_pipeline.bucket import Bucket
from alpha_pipeline.definitions import build_defs
from alpha_pipeline.digests import DigestIndex
from alpha_pipeline.ingest.folder import LocalFolder, open_folder
from alpha_pipeline.ingest.source import discover
from alpha_pipeline.ingest.spool import Spool
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.paths import Workspace
from alpha_pipeline.plan import stale_day
from alpha_pipeline.resources import Pipeline
from alpha_pipeline.run import run_market, scope_of
from alpha_pipeline.sqlite import cheap_commits
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import execute, required_stamp

FIRST = STAGES[0]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tiny_market.write_days(tmp_path_factory.mktemp("days"), 3)


@pytest.fixture
def shared(url, files, tmp_path, monkeypatch):
    """A workspace whose instrument's file names a shared folder of three days, and that folder."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    bucket = Bucket(url)
    for path in files:
        bucket.put_file(f"year/{path.name}", path)
    workspace = Workspace(tmp_path / "workspace")
    tiny_market.configure(workspace, tiny_market.CONFIG + f'\n[source]\nraw = "{url}"\n')
    return workspace, bucket


def spooled(workspace):
    return sorted(path.name for path in workspace.spool.rglob("[!.]*.zst"))


def stale(workspace):
    scope = tiny_market.scope(workspace)
    return [key for key in sorted(scope.raw_files) if stale_day([FIRST], scope, key)]


def build(workspace):
    return run_market(NAME, workspace, raw=None, until=FIRST.name, say=lambda _: None)


def test_day_read_by_url_is_the_day_read_here(shared, files, tmp_path):
    workspace, bucket = shared
    scope = tiny_market.scope(workspace)
    assert str(scope.raw) == bucket.url
    assert sorted(scope.raw_files) == [day(0), day(1), day(2)]
    assert spooled(workspace) == [], "a listing fetches nothing"
    there = execute(FIRST, scope, day(0), {})[1]
    assert spooled(workspace) == [files[0].name]
    here = replace(scope, raw=LocalFolder(files[0].parent), store=ArtifactStore(tmp_path / "store"))
    assert execute(FIRST, here, day(0), {})[1].digest == there.digest
    assert there.stamp == required_stamp(FIRST, here, day(0)), "days stay fresh when their folder moves"


def test_file_is_fetched_again_only_when_it_was_written_anew_and_its_content_decides(shared, files, tmp_path):
    workspace, bucket = shared
    assert len(build(workspace).launched.built) == 3
    assert stale(workspace) == []
    assert build(workspace).launched.built == []
    other = tmp_path / "other"
    tiny_market.write_days(other, 2, events=2500)
    bucket.put_file(f"year/{files[1].name}", file_of(other, 1))
    assert stale(workspace) == [day(1)], "known from the listing alone"
    assert build(workspace).launched.built == [(FIRST.name, day(1))]
    assert stale(workspace) == []
    _write_same_bytes_with_another_e_tag(bucket, files[2])
    assert stale(workspace) == [day(2)], "an unread version"
    assert build(workspace).launched.built == [], "the bytes are the same"
    assert stale(workspace) == []


def _write_same_bytes_with_another_e_tag(bucket, path):
    import obstore

    before = bucket.find(f"year/{path.name}").version
    obstore.put(bucket._store, f"year/{path.name}", iter([path.read_bytes()]), use_multipart=True)
    assert bucket.find(f"year/{path.name}").version != before


@pytest.mark.slow
def test_processes_side_by_side_share_one_copy(shared):
    workspace, _ = shared
    outcome = run_market(NAME, workspace, raw=None, until=FIRST.name, say=lambda _: None, processes=2)
    assert sorted(outcome.launched.built) == [(FIRST.name, day(k)) for k in range(3)]
    assert len(spooled(workspace)) == 3
    assert stale(workspace) == []


def test_folder_may_be_named_on_the_command_line_too(url, files, tmp_path):
    Bucket(url).put_file(files[0].name, files[0])
    workspace = Workspace(tmp_path)
    tiny_market.configure(workspace, tiny_market.CONFIG)
    assert sorted(scope_of(NAME, workspace, raw=url).raw_files) == [day(0)]
    with pytest.raises(InputError, match=rf"{url}/none is empty, must hold"):
        _ = scope_of(NAME, workspace, raw=f"{url}/none").raw_files


def test_mounted_folder_by_url_is_a_folder(files, tmp_path):
    workspace = Workspace(tmp_path)
    tiny_market.configure(workspace, tiny_market.CONFIG)
    scope = scope_of(NAME, workspace, raw=files[0].parent.as_uri())
    assert scope.raw_files[day(0)] == [files[0]]


def test_sensor_sees_a_shared_folder_and_fetches_nothing(shared, monkeypatch):
    workspace, _ = shared
    defs = build_defs(workspace, [NAME])
    with warnings.catch_warnings(), cheap_commits(), dg.instance_for_test() as instance:
        warnings.simplefilter("ignore")
        with dg.build_sensor_context(
            instance=instance,
            instance_ref=instance.get_ref(),
            definitions=defs,
            resources={"pipeline": Pipeline(root=str(workspace.root))},
        ) as context:
            sensor = defs.resolve_sensor_def(f"{NAME}_new_files")
            tick = sensor.evaluate_tick(context)
            assert sorted(r.partition_key for r in tick.run_requests) == [day(0), day(1), day(2)]
            assert spooled(workspace) == []
            monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            assert "was not reached at http://127.0.0.1:9" in sensor.evaluate_tick(context).skip_message


def vendor_file(folder, key, symbol):
    path = folder / f"glbx-mdp3-{key.replace('-', '')}.mbp-10.dbn.zst"
    return write(path, [Msg(sequence=k) for k in range(20)], head=header({symbol: 1}))


def test_names_that_tell_no_symbol_are_settled_by_the_beginning_of_the_file_once(url, tmp_path, monkeypatch):
    bucket = Bucket(url)
    for key, symbol in (("2024-03-06", "ESH4"), ("2024-03-07", "NQH4")):
        path = vendor_file(tmp_path, key, symbol)
        bucket.put_file(path.name, path)
    spec = InstrumentSpec(name="es", symbols=("ES",))

    def found():
        folder = open_folder(
            url, spool=Spool(tmp_path / "spool", 2**30), index=DigestIndex(tmp_path / "index.json")
        )
        return list(discover(folder, spec))

    assert found() == ["2024-03-06"]
    monkeypatch.setattr(Bucket, "read", None)
    assert found() == ["2024-03-06"], "remembered"


def test_listing_of_five_hundred_objects_is_complete(url, tmp_path):
    bucket = Bucket(url)
    keys = [f"20{20 + k // 336:02d}-{k % 336 // 28 + 1:02d}-{k % 28 + 1:02d}" for k in range(500)]
    for key in keys:
        bucket.put_if(f"{SYMBOL}-{key}.mbp-10.dbn.zst", b"", None)
    folder = open_folder(url, spool=Spool(tmp_path, 2**30), index=DigestIndex(tmp_path / "index.json"))
    assert list(discover(folder, InstrumentSpec(name=NAME, symbols=(SYMBOL,)))) == sorted(keys)


def test_object_whose_name_would_lead_out_of_the_spool_is_passed_over(url, tmp_path):
    mounted = Bucket((tmp_path / "x").as_uri())
    mounted.put_if(".hidden/a.dbn", b"x", None)
    mounted.put_if("seen.dbn", b"x", None)
    from alpha_pipeline.ingest.folder import SharedFolder

    folder = SharedFolder(mounted, Spool(tmp_path / "spool", 2**30), DigestIndex(tmp_path / "index.json"))
    assert [path.name for path in folder.files()] == ["seen.dbn"]


class TestSpool:
    """Local copies within a bound."""

    @pytest.fixture
    def spool(self, tmp_path):
        return Spool(tmp_path, limit_bytes=250)

    def keep(self, spool, name, version="1", size=100):
        fetched = []

        def fetch(target):
            fetched.append(name)
            target.write_bytes(version.encode() * size)

        with spool.held(name, version, size, fetch) as path:
            assert path.read_bytes() == version.encode() * size
        return fetched

    def names(self, spool):
        return sorted(path.name for path in spool.root.rglob("[!.]*"))

    def test_version_is_fetched_once_and_a_new_one_replaces_it(self, spool):
        assert self.keep(spool, "a") == ["a"]
        assert self.keep(spool, "a") == []
        assert self.keep(spool, "a", version="2") == ["a"]
        assert self.names(spool) == ["a"]

    def test_copies_used_longest_ago_make_room_and_those_in_use_stay(self, spool):
        self.keep(spool, "a")
        self.keep(spool, "b")
        self.keep(spool, "a")
        self.keep(spool, "c")
        assert self.names(spool) == ["a", "c"]
        with spool.held("a", "1", 100, lambda _: None):
            self.keep(spool, "d", size=200)
            assert self.names(spool) == ["a", "d"]

    def test_copy_is_not_replaced_while_it_is_read(self, spool):
        self.keep(spool, "a")
        with spool.held("a", "1", 100, lambda _: None) as path:
            other = threading.Thread(target=self.keep, args=(spool, "a", "2"))
            other.start()
            other.join(0.2)
            assert other.is_alive()
            assert path.read_bytes() == b"1" * 100
        other.join(10)
        assert path.read_bytes() == b"2" * 100

    def test_failed_fetch_leaves_nothing(self, spool):
        def fetch(target):
            target.write_bytes(b"half")
            raise DataError("broken")

        with pytest.raises(DataError, match="broken"), spool.held("a", "1", 100, fetch):
            pass
        assert self.names(spool) == []
        assert [p for p in spool.root.iterdir() if p.name.endswith(".partial")] == []

    def test_two_processes_fetch_a_file_once(self, spool, tmp_path):
        log = tmp_path / "log"
        context = multiprocessing.get_context("fork")
        readers = [context.Process(target=_read_copy, args=(str(spool.root), str(log))) for _ in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
        assert [reader.exitcode for reader in readers] == [0, 0]
        assert log.read_text() == "fetched\n"


def _read_copy(root, log):
    import time

    def fetch(target):
        with Path(log).open("a") as file:
            file.write("fetched\n")
        time.sleep(0.5)
        target.write_bytes(b"1" * 100)

    with Spool(Path(root) / "copies", 250).held("a", "1", 100, fetch) as path:
        assert path.read_bytes() == b"1" * 100
        time.sleep(1.0)
