"""How this process commits to SQLite databases: write-ahead log, one flush per checkpoint and not per event.

Dagster's event log and MLflow commit after every event, and a flush to disk costs milliseconds. In this mode a power
failure can take the last events but never the database's integrity; artifacts are flushed by their own rules.
"""

from typing import Any


def use_cheap_commits() -> None:
    """Apply the mode to every SQLite connection that SQLAlchemy opens in this process from now on."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    if not event.contains(Engine, "connect", _on_connect):
        event.listen(Engine, "connect", _on_connect)


def _on_connect(connection: Any, _: Any) -> None:
    if type(connection).__module__ != "sqlite3":
        return
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
