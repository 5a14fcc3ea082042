"""One S3-compatible server for all tests of this folder, and a fresh prefix of its bucket for each."""

import sys
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from s3_server import BUCKET, s3_server

_numbers = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with s3_server(tmp_path_factory.mktemp("s3")) as environment:
        yield environment


@pytest.fixture
def url(server, monkeypatch):
    """A shared folder that nothing lies in."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/test-{next(_numbers)}"
