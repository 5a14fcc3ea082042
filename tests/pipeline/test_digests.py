"""Remembered digests: files are read again exactly when they may have changed."""

import os
import shutil
import time

import pytest

from alpha_pipeline import digests
from alpha_pipeline.digests import DigestIndex, is_settled
from alpha_pipeline.provenance import digest_file


@pytest.fixture
def reads(monkeypatch):
    """Paths whose bytes were read, in order."""
    seen = []

    def counted(path):
        seen.append(path.name)
        return digest_file(path)

    monkeypatch.setattr(digests, "digest_file", counted)
    monkeypatch.setattr(digests, "SETTLED_NS", 0)
    return seen


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "day.dbn.zst"
    path.write_bytes(b"first")
    time.sleep(0.01)
    return path


def index(tmp_path):
    return DigestIndex(tmp_path / "store" / "digests.json")


def test_unchanged_file_is_read_once_even_by_another_process(tmp_path, file, reads):
    assert index(tmp_path).digest(file) == index(tmp_path).digest(file) == digest_file(file)
    assert reads == [file.name]


def replaced_with_old_time(path):
    """Other bytes of the same length, and the time of before: `cp -p`, or `touch -d`."""
    was = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def renamed_over(path):
    other = path.with_name("other")
    other.write_bytes(b"other")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def one_byte_in_place(path):
    was = path.stat()
    with path.open("r+b") as stream:
        stream.write(b"g")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def through_a_hard_link(path):
    os.link(path, path.with_name("link"))
    path.with_name("link").write_bytes(b"other")


def mapped(path):
    import mmap

    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as view:
        view[0:1] = b"g"
        view.flush()


CHANGES = [replaced_with_old_time, renamed_over, one_byte_in_place, through_a_hard_link, mapped]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_stale_cache_any_change_of_bytes_is_seen(tmp_path, file, reads, change):
    before = index(tmp_path).digest(file)
    time.sleep(0.01)
    change(file)
    after = index(tmp_path).digest(file)
    assert after == digest_file(file) != before
    assert file.stat().st_size == len(b"first")


def test_stale_cache_touch_reads_again_and_gives_the_same(tmp_path, file, reads):
    before = index(tmp_path).digest(file)
    time.sleep(0.01)
    file.touch()
    assert index(tmp_path).digest(file) == before
    assert reads == [file.name] * 2


def test_moved_folder_is_read_anew_and_never_mistaken(tmp_path, file, reads):
    known = index(tmp_path)
    before = known.digest(file)
    copy = shutil.copy2(file, tmp_path / "copy.dbn.zst")
    assert known.digest(tmp_path / "copy.dbn.zst") == before
    assert len(reads) == 2 and copy is not None


def test_young_file_is_not_remembered(tmp_path, file, reads, monkeypatch):
    """Inside one tick of the clock a second write would leave no trace."""
    monkeypatch.setattr(digests, "SETTLED_NS", 10**9)
    file.write_bytes(b"young")
    assert index(tmp_path).digest(file) == digest_file(file)
    file.write_bytes(b"newer")
    assert index(tmp_path).digest(file) == digest_file(file)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"a": 3}', b'{"a": []}', b"\xff\xfe"])
def test_spoiled_index_costs_a_reading_and_no_more(tmp_path, file, reads, content):
    index(tmp_path).digest(file)
    (tmp_path / "store" / "digests.json").write_bytes(content)
    assert index(tmp_path).digest(file) == digest_file(file)
    assert index(tmp_path).digest(file) == digest_file(file)
    assert reads == [file.name] * 2


def test_index_forgets_files_that_are_gone_and_keeps_what_others_wrote(tmp_path, file, reads):
    one, two = index(tmp_path), index(tmp_path)
    other = tmp_path / "other.dbn.zst"
    other.write_bytes(b"more")
    time.sleep(0.01)
    one.digest(file)
    two.digest(other)
    third = index(tmp_path)
    third.digest(file), third.digest(other)
    assert reads == [file.name, other.name]
    other.unlink()
    fresh = tmp_path / "fresh.dbn.zst"
    fresh.write_bytes(b"x")
    time.sleep(0.01)
    third.digest(fresh)
    assert other.name not in (tmp_path / "store" / "digests.json").read_text()


def test_settled_is_judged_by_the_last_write_not_by_the_time_it_claims(file):
    os.utime(file, (0, 0))
    assert not is_settled(file, 5.0)
    assert is_settled(file, 0.0)
