"""Where things lie. One root, everything below it; no other module spells a folder's name."""

import os
from dataclasses import dataclass
from pathlib import Path

from alpha_core.errors import ConfigError

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Workspace:
    """The folders of one installation.

    Attributes:
        root: holds `data/`, `dagster_home/` and, unless the project's own are used, `instruments/`.
    """

    root: Path

    @classmethod
    def locate(cls) -> "Workspace":
        """The workspace named by the environment variable ALPHA_HOME, else the project's own folder."""
        return cls(Path(os.environ.get("ALPHA_HOME", PROJECT)).resolve())

    @property
    def instruments(self) -> Path:
        own = self.root / "instruments"
        return own if own.is_dir() else PROJECT / "instruments"

    @property
    def dagster_home(self) -> Path:
        return self.root / "dagster_home"

    def prepared_dagster_home(self) -> Path:
        """The Dagster home; one away from the project starts with the project's settings."""
        settings = self.dagster_home / "dagster.yaml"
        if not settings.exists():
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text((PROJECT / "dagster_home" / "dagster.yaml").read_text())
        return self.dagster_home

    def raw(self, instrument: str) -> Path:
        return self.root / "data" / "raw" / instrument

    @property
    def spool(self) -> Path:
        """Local copies of files that are read by URL."""
        return self.root / "data" / "spool"

    def pulled(self, instrument: str) -> Path:
        """Cached days that came from a shared folder."""
        return self.root / "data" / "pulled" / instrument

    def store(self, instrument: str) -> Path:
        return self.root / "data" / "store" / instrument


def writable_folder(folder: Path) -> Path:
    """A folder to write into, made when absent. Raises ConfigError where something else is in its place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} is no folder ({error.strerror}): name one, or a path for a new one"
        ) from error
    return folder


def writable_file(file: Path) -> Path:
    """A file to write, its folder made when absent. Raises ConfigError where something else is in its place."""
    writable_folder(file.parent)
    if file.exists() and not file.is_file():
        raise ConfigError(f"{file} is no file: name one, or a path for a new one")
    return file
