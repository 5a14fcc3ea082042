"""The artifact store publishes all or nothing, and says where each thing came from."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from alpha_core.durable import write_atomic
from alpha_core.errors import DataError
from alpha_pipeline.artifacts import ArtifactStore
from alpha_pipeline.provenance import Stamp

STAMP = Stamp(code="1", config="c", inputs={"raw/0": "d"})


def publish(store: ArtifactStore, text: str, partition: str = "2024-01-02") -> str:
    with store.attempt("stage", partition) as out:
        (out / "data.txt").write_text(text)
        return store.publish(out, stamp=STAMP).digest


def test_published_artifact_is_found_with_its_stamp_and_digest(tmp_path):
    store = ArtifactStore(tmp_path)
    digest = publish(store, "one")
    found = store.get("stage", "2024-01-02")
    assert (found.path / "data.txt").read_text() == "one"
    assert found.stamp == STAMP
    assert found.digest == digest
    assert store.partitions("stage") == ["2024-01-02"]


def test_equal_content_has_equal_digest_whatever_the_attempt(tmp_path):
    store = ArtifactStore(tmp_path)
    assert publish(store, "one") == publish(store, "one")
    assert publish(store, "one") != publish(store, "two")


def test_failed_attempt_leaves_the_old_artifact_and_no_folder(tmp_path):
    store = ArtifactStore(tmp_path)
    publish(store, "old")
    with pytest.raises(RuntimeError), store.attempt("stage", "2024-01-02") as out:
        (out / "data.txt").write_text("half")
        raise RuntimeError("killed half-way")
    assert (store.get("stage", "2024-01-02").path / "data.txt").read_text() == "old"
    assert len(list((tmp_path / "stage" / "2024-01-02").glob("attempt-*"))) == 1


def test_superseded_attempt_stays_for_open_readers_until_the_next_publication(tmp_path):
    store = ArtifactStore(tmp_path)
    publish(store, "one")
    first = store.get("stage", "2024-01-02").path
    publish(store, "two")
    assert (first / "data.txt").read_text() == "one"
    publish(store, "three")
    assert not first.exists()


def test_missing_artifact_is_one_sentence_with_the_remedy(tmp_path):
    with pytest.raises(DataError, match="fxcache of 2024-01-02 was never published: materialize it first"):
        ArtifactStore(tmp_path).get("fxcache", "2024-01-02")


def test_torn_pointer_is_reported_by_name(tmp_path):
    pointer = tmp_path / "stage" / "all" / "current.json"
    pointer.parent.mkdir(parents=True)
    pointer.write_text('{"attempt": ')
    with pytest.raises(DataError, match=r"current\.json is not readable"):
        ArtifactStore(tmp_path).find("stage")


def _publish_for_ever(root: str) -> None:
    store, number = ArtifactStore(Path(root)), 0
    while True:
        publish(store, str(number) * 20_000)
        number += 1


def test_killed_publisher_leaves_a_whole_artifact(tmp_path):
    context = multiprocessing.get_context("fork")
    for delay in (0.02, 0.05, 0.08, 0.11):
        process = context.Process(target=_publish_for_ever, args=(str(tmp_path),))
        process.start()
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        found = ArtifactStore(tmp_path).find("stage", "2024-01-02")
        if found is not None:
            text = (found.path / "data.txt").read_text()
            assert len(text) % 20_000 == 0
            assert text


def test_atomic_write_works_when_the_temporary_folder_is_another_filesystem(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    write_atomic(tmp_path / "deep" / "file.json", b"{}")
    assert json.loads((tmp_path / "deep" / "file.json").read_text()) == {}
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "file.json"]
