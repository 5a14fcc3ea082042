"""Where runs are kept: the MLflow client, its database and the experiment, made once under a lock."""

import contextlib
import hashlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from alpha_core.errors import AlphaError, ConfigError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

DEFAULT_UI = "http://127.0.0.1:5000"
_URI = re.compile(r"^(https?|sqlite|postgresql|mysql|mssql)[a-z0-9+]*://")
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # its own default waits minutes for a dead server
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


class TrackingError(AlphaError):
    """The tracking store refused or could not be reached."""


def default_uri(home: Path) -> str:
    """`MLFLOW_TRACKING_URI` where it is set, else a SQLite file in the Dagster home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home.resolve() / 'mlflow.db'}"


class Store:
    """One experiment in one tracking store.

    Args:
        uri: SQLAlchemy database URI or http(s) address of an MLflow server. MLflow's file store is refused:
            it has no transactions and grows slow.
        artifact_root: where runs put their files; ignored by a server, which has its own place.
        experiment: name under which runs are grouped; made on first use.

    Raises:
        ConfigError: the URI is neither a database nor an http(s) address.
    """

    def __init__(self, uri: str, artifact_root: Path | str, experiment: str) -> None:
        if not _URI.match(uri):
            raise ConfigError(
                f"tracking URI was {uri!r}, must start with sqlite:///, postgresql:// or http(s)://; "
                "unset MLFLOW_TRACKING_URI to use the default database"
            )
        self.uri = uri
        self.artifact_root = artifact_root
        self.experiment = experiment

    @property
    def database(self) -> Path | None:
        """The SQLite file, None for another kind of store."""
        return Path(self.uri.removeprefix("sqlite:///")) if self.uri.startswith("sqlite:///") else None

    @property
    def is_server(self) -> bool:
        return self.uri.startswith("http")

    def lock(self) -> FileLock:
        """Mutual exclusion between the processes of this machine that share the store."""
        if self.database is not None:
            self.database.parent.mkdir(parents=True, exist_ok=True)
            return FileLock(f"{self.database}.lock")
        name = hashlib.sha256(self.uri.encode()).hexdigest()[:16]
        return FileLock(Path(tempfile.gettempdir()) / f"alpha-tracking-{name}.lock")

    @contextlib.contextmanager
    def reporting(self, action: str) -> Iterator[None]:
        """Turn MLflow's and the network's errors into one sentence: the store "could not <action>"."""
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = _without_secrets((str(error).splitlines() or [type(error).__name__])[0])
            raise TrackingError(
                f"MLflow store {_without_secrets(self.uri)} could not {action}: {reason}; "
                "check MLFLOW_TRACKING_URI, disk space and permissions"
            ) from (None if "@" in self.uri else error)  # a cause would print the password

    @cached_property
    def client(self) -> "MlflowClient":
        """The MLflow client, made on first use, with telemetry off.

        The lock is the point: making one creates or migrates the database, and processes that do so at the
        same time break each other.
        """
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient

        with self.reporting("be opened"), self.lock():
            self._check_database()
            return MlflowClient(self.uri, registry_uri=self.uri)

    @cached_property
    def experiment_id(self) -> str:
        """Identity of the experiment, which is made if need be."""
        client = self.client
        with self.reporting("be opened"), self.lock():
            found = client.get_experiment_by_name(self.experiment)
            if found is None:
                return client.create_experiment(self.experiment, self._artifact_location())
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"MLflow experiment {self.experiment!r} was deleted: restore it with "
                f"`mlflow experiments restore -x {found.experiment_id}` or choose another name"
            )
        return found.experiment_id

    def _check_database(self) -> None:
        """Open the SQLite file once ourselves: MLflow retries a hopeless one for minutes."""
        if self.database is not None:
            with contextlib.closing(sqlite3.connect(self.database)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master")

    def _artifact_location(self) -> str | None:
        if self.is_server:
            return None
        if isinstance(self.artifact_root, str) and "://" in self.artifact_root:
            return f"{self.artifact_root}/{self.experiment}"
        folder = Path(self.artifact_root).resolve() / self.experiment
        folder.mkdir(parents=True, exist_ok=True)
        return folder.as_uri()

    def url_for(self, run_id: str) -> str:
        """Address of a run's page: on the tracking server, else on the MLflow page `alpha ui` serves."""
        base = self.uri if self.is_server else os.environ.get("ALPHA_MLFLOW_URL", DEFAULT_UI)
        return f"{base.rstrip('/')}/#/experiments/{self.experiment_id}/runs/{run_id}"


def _without_secrets(text: str) -> str:
    """Text with user name and password cut from the URIs in it."""
    return re.sub(r"//[^/@\s]*@", "//", text)
