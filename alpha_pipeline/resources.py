"""Dagster resources: how assets reach the workspace and the tracking store. No logic."""

import logging
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from pydantic import Field

from alpha_pipeline.config import load
from alpha_pipeline.download import DayResult
from alpha_pipeline.fetch import fetch_market
from alpha_pipeline.paths import Workspace
from alpha_pipeline.stages.base import Scope, open_scope
from alpha_pipeline.tracking import Tracker


class Pipeline(dg.ConfigurableResource):
    """One workspace.

    Attributes:
        root: folder of the workspace.
        raw: folder or URL of raw files by instrument, where it is not the configured one.
    """

    root: str
    raw: dict[str, str] = Field(default_factory=dict)

    def scope(self, instrument: str, report: Callable[[str], None]) -> Scope:
        """What the stages of one instrument share; reads the configuration afresh."""
        workspace = Workspace(Path(self.root))
        return open_scope(load(instrument, workspace), workspace, raw=self.raw.get(instrument), report=report)

    def tracker(self) -> Tracker:
        workspace = Workspace(Path(self.root))
        return Tracker.default(workspace.dagster_home, workspace.root / "data")


class Downloads(dg.ConfigurableResource):
    """The vendor's historical API; its key is read from the environment by the process that asks, and stored nowhere.

    Attributes:
        root: folder of the workspace.
    """

    root: str

    def fetch(self, instrument: str, first: str, last: str, say: Callable[[str], None]) -> list[DayResult]:
        """Fetch an instrument's missing days between two dates into its raw folder."""
        return list(fetch_market(instrument, Workspace(Path(self.root)), first, last, say=say))


class _OnlyProgress(logging.Filter):
    """Keeps what stages report; the orchestrator's own events are in its event log already."""

    def filter(self, record: logging.LogRecord) -> bool:
        own = getattr(record, "dagster_meta", {}).get("dagster_event") is None
        return own and record.levelno == logging.INFO


@dg.logger(
    config_schema={}, description="Hands the lines that stages report to this process's `alpha.progress`."
)
def progress_logger(_: dg.InitLoggerContext) -> logging.Logger:
    """What `alpha run` shows while a stage works."""
    logger = logging.Logger("alpha.progress.run", level=logging.INFO)
    logger.parent = logging.getLogger("alpha.progress")
    logger.addFilter(_OnlyProgress())
    return logger
