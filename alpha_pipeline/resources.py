"""Dagster resources: how assets reach the workspace and the tracking store. No logic."""

import logging
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from pydantic import Field

from alpha_pipeline.artifacts import ArtifactStore
from alpha_pipeline.config import load
from alpha_pipeline.paths import Workspace
from alpha_pipeline.stages.base import Scope
from alpha_pipeline.tracking import Tracker


class Pipeline(dg.ConfigurableResource):
    """One workspace.

    Attributes:
        root: folder of the workspace.
        raw: folder of raw files by instrument, where it is not the default `data/raw/<instrument>`.
    """

    root: str
    raw: dict[str, str] = Field(default_factory=dict)

    def scope(self, instrument: str, report: Callable[[str], None]) -> Scope:
        """What the stages of one instrument share; reads the configuration afresh."""
        workspace = Workspace(Path(self.root))
        return Scope(
            config=load(instrument, workspace),
            store=ArtifactStore(workspace.store(instrument)),
            raw=Path(self.raw.get(instrument, workspace.raw(instrument))),
            report=report,
        )

    def tracker(self) -> Tracker:
        workspace = Workspace(Path(self.root))
        return Tracker.default(workspace.dagster_home, workspace.root / "data")


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
