"""Dagster resources: how assets reach the workspace and the tracking store. No logic."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg

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
    raw: dict[str, str] = {}

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
