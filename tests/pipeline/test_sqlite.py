"""Cheap commits: what is committed stays, and nothing outlives the block."""

import sqlite3

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from alpha_pipeline.sqlite import cheap_commits


@pytest.fixture
def engine(tmp_path):
    return create_engine(f"sqlite:///{tmp_path / 'events.db'}", poolclass=NullPool)


def write(engine, number):
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS events (number INTEGER)"))
        connection.execute(text(f"INSERT INTO events VALUES ({number})"))


def stored(path):
    connection = sqlite3.connect(path)
    rows = [row[0] for row in connection.execute("SELECT number FROM events ORDER BY number")]
    connection.close()
    return rows


def test_log_stays_between_connections_and_is_folded_in_at_the_end(engine, tmp_path):
    with cheap_commits():
        for number in range(3):
            write(engine, number)
            assert (tmp_path / "events.db-wal").stat().st_size > 0
        assert stored(tmp_path / "events.db") == [0, 1, 2]
    assert stored(tmp_path / "events.db") == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.db"]


def test_committed_events_survive_an_error(engine, tmp_path):
    with pytest.raises(RuntimeError), cheap_commits():
        write(engine, 7)
        raise RuntimeError("stop")
    assert stored(tmp_path / "events.db") == [7]


def test_connections_outside_the_block_are_left_as_they_are(engine, tmp_path):
    with cheap_commits():
        pass
    write(engine, 1)
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "delete"


def test_databases_in_memory_are_not_kept():
    engine = create_engine("sqlite://")
    with cheap_commits(), engine.begin() as connection:
        connection.execute(text("CREATE TABLE events (number INTEGER)"))
        assert connection.execute(text("SELECT count(*) FROM events")).scalar() == 0
