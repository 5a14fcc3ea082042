"""How this process commits to SQLite databases: write-ahead log, one flush per checkpoint and not per event.

Dagster's event log and MLflow commit after every event, and a flush to disk costs milliseconds. In this mode a power
failure can take the last events but never the database's integrity; artifacts are flushed by their own rules.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alpha_core.errors import AlphaError

_REFUSAL = re.compile("disk is full|disk I/O error|unable to open database file|readonly database")


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


@contextmanager
def database_refusals_told(folder: Path) -> Iterator[None]:
    """Make one sentence of a database that cannot be written, as `artifacts.refusals_told` does of files.

    Raises:
        AlphaError: the disk of a database is full, or its folder may not be written.
    """
    try:
        yield
    except Exception as error:
        cause = getattr(error, "orig", error)  # SQLAlchemy keeps what the driver raised
        if not (isinstance(cause, sqlite3.OperationalError) and _REFUSAL.search(str(cause))):
            raise
        raise AlphaError(
            f"a database in {folder} cannot be written ({cause}): free space or mend the folder's rights, then run "
            "again"
        ) from error


def _set_up(connection: Any, kept: dict[str, sqlite3.Connection]) -> None:
    """Choose the mode, and hold the file open: closing a log's last connection copies and flushes the whole of it."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if path and path not in kept:
        kept[path] = sqlite3.connect(path, check_same_thread=False)
        kept[path].execute("SELECT count(*) FROM sqlite_master").fetchone()
