"""What Dagster loads. Assembly only: which assets, jobs, schedules, sensors and resources exist."""

import warnings
from collections.abc import Mapping, Sequence

import dagster as dg

from alpha_pipeline.assets.factory import stage_asset
from alpha_pipeline.config import PipelineConfig, available, load
from alpha_pipeline.paths import Workspace
from alpha_pipeline.resources import Downloads, Pipeline, progress_logger
from alpha_pipeline.schedules import day_job, download_job, nightly_retrain, whole_job
from alpha_pipeline.sensors import new_files, stale_versions
from alpha_pipeline.stages import STAGES


def build_defs(
    workspace: Workspace | None = None,
    instruments: Sequence[str] | None = None,
    raw: Mapping[str, str] | None = None,
) -> dg.Definitions:
    """Assets, jobs, schedules and sensors of each instrument.

    Args:
        workspace: where everything lies; the located one by default.
        instruments: names to include; all that have a file by default.
        raw: folders or URLs of raw files, where they are not the configured ones.
    """
    # Partitioned checks are what keeps a bad day from stopping the others; Dagster marks them as a preview.
    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    workspace = workspace or Workspace.locate()
    parts = [_market(load(name, workspace)) for name in instruments or available(workspace)]
    shared = dg.Definitions(
        resources={
            "pipeline": Pipeline(root=str(workspace.root), raw=dict(raw or {})),
            "downloads": Downloads(root=str(workspace.root)),
        },
        loggers={"console": dg.colored_console_logger, "progress": progress_logger},
    )
    return dg.Definitions.merge(*parts, shared)


def _market(config: PipelineConfig) -> dg.Definitions:
    days, whole = day_job(config.name), whole_job(config.name)
    return dg.Definitions(
        assets=[stage_asset(stage, config) for stage in STAGES],
        jobs=[days, whole, *([download_job(config.name)] if config.download else [])],
        schedules=[nightly_retrain(config, whole)],
        sensors=[new_files(config.name, days), stale_versions(config.name, days)],
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The entry point that `alpha ui` names."""
    return build_defs()
