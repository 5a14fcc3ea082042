"""Shared folders by URL, on a real S3-compatible server and mounted: whole objects, conditions, plain errors."""

import threading
from pathlib import Path

import pytest

from alpha_core.errors import AlphaError, ConfigError, DataError, InputError
from alpha_pipeline.bucket import Bucket, Stored, is_url, local_path


@pytest.fixture(params=["s3", "file"])
def place(request, tmp_path):
    return request.getfixturevalue("url") if request.param == "s3" else f"file://{tmp_path}/shared"


def test_what_is_written_is_listed_found_and_fetched(place, tmp_path):
    bucket = Bucket(place)
    assert bucket.list() == []
    data = bytes(range(256)) * 100_000  # more than one part
    (tmp_path / "big").write_bytes(data)
    bucket.put_file("a/big file%2E.bin", tmp_path / "big")
    (one,) = bucket.list()
    assert (one.name, one.size) == ("a/big file%2E.bin", len(data))
    assert bucket.find(one.name) == one
    assert bucket.find("a/none") is None
    assert bucket.read("a/none") is None
    assert bucket.read(one.name, first=5) == (data[:5], one.version)
    bucket.fetch(one, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data


def test_of_many_writers_exactly_one_creates_and_one_replaces(place):
    bucket = Bucket(place)

    def race(version, word):
        results = []
        barrier = threading.Barrier(8)

        def write(number):
            mine = Bucket(place)
            barrier.wait()
            if mine.put_if("pointer", f"{word} {number}".encode(), version):
                results.append(number)

        threads = [threading.Thread(target=write, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    # no two write the same: an e-tag is the digest of the content, and would not tell them apart
    (winner,) = race(None, "first")
    content, version = bucket.read("pointer")
    assert content == f"first {winner}".encode()
    (next_winner,) = race(version, "second")
    assert bucket.read("pointer")[0] == f"second {next_winner}".encode()
    assert not bucket.put_if("pointer", b"late", version)


def test_object_that_changed_or_vanished_since_it_was_listed_is_not_fetched(place, tmp_path):
    bucket = Bucket(place)
    bucket.put_if("one", b"first", None)
    (listed,) = bucket.list()
    bucket.put_if("one", b"other", listed.version)
    with pytest.raises(DataError, match=r"/one changed after it was listed: run again"):
        bucket.fetch(listed, tmp_path / "one")
    with pytest.raises(DataError, match=r"/gone vanished after it was listed"):
        bucket.fetch(Stored(name="gone", size=1, version="x"), tmp_path / "gone")


def sentence(action):
    with pytest.raises(AlphaError) as error:
        action()
    assert len(str(error.value).splitlines()) == 1
    assert error.value.__suppress_context__ or error.value.__cause__ is None
    return error.value


def test_missing_bucket_is_named(url):
    absent = Bucket("s3://no-such-bucket/x")
    for action in (absent.list, lambda: absent.read("a"), lambda: absent.put_if("a", b"", None)):
        error = sentence(action)
        assert isinstance(error, InputError)
        assert str(error) == (
            "s3://no-such-bucket/x names a bucket that does not exist: make it or mend the name"
        )


def test_absent_credentials_are_told_before_anything_is_asked(url, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    error = sentence(lambda: Bucket(url))
    assert isinstance(error, ConfigError)
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true" in str(error)


def test_wrong_credentials_are_told_without_them(url, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    error = sentence(Bucket(url).list)
    assert "may not be used (SignatureDoesNotMatch): mend AWS_ACCESS_KEY_ID" in str(error)
    assert "wrong-secret" not in str(error)


def test_refused_connection_names_the_address(url, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    error = sentence(Bucket(url).list)
    assert "was not reached at http://127.0.0.1:9: mend AWS_ENDPOINT_URL or start the server" in str(error)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("gs://bucket/x", "has the scheme 'gs', must be s3:// or file://"),
        ("https://host/x", "has the scheme 'https'"),
        ("s3:///x", "names no bucket"),
        ("s3://key:hidden@bucket/x", "was given with credentials in it"),
        ("s3://bucket/x?region=y", "must be a folder alone"),
        ("file://elsewhere/x", "names the host 'elsewhere'"),
    ],
)
def test_other_urls_are_refused_in_one_sentence_that_repeats_no_secret(location, told):
    with pytest.raises(ConfigError, match=told.replace("'", ".")) as error:
        Bucket(location)
    assert "hidden" not in str(error.value)


def test_paths_and_urls_are_told_apart():
    assert local_path("/a/b") == Path("/a/b")
    assert local_path("file:///a/b%20c") == Path("/a/b c")
    assert not is_url("C3/x") and not is_url("/a://b") and is_url("s3://b")
