"""How this process commits to SQLite databases: write-ahead log, one flush per checkpoint and not per event.

Dagster's event log and MLflow commit after every event, and a flush to disk costs milliseconds. In this mode a power
failure can take the last events but never the database's integrity; artifacts are flushed by their own rules.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def cheap_commits() -> Iterator[None]:
    """Apply the mode to every SQLite connection that SQLAlchemy opens in this process inside the block."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    kept: dict[str, sqlite3.Connection] = {}

    def on_connect(connection: Any, _: Any) -> None:
        if type(connection).__module__ == "sqlite3":
            _set_up(connection, kept)

    event.listen(Engine, "connect", on_connect)
    try:
        yield
    finally:
        event.remove(Engine, "connect", on_connect)
        for connection in kept.values():
            connection.close()


def _set_up(connection: Any, kept: dict[str, sqlite3.Connection]) -> None:
    """Choose the mode, and hold the file open: closing a log's last connection copies and flushes the whole of it."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if path and path not in kept:
        kept[path] = sqlite3.connect(path, check_same_thread=False)
        kept[path].execute("SELECT count(*) FROM sqlite_master").fetchone()
