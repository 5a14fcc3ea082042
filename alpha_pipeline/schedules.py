"""Dagster jobs and schedules: what runs together, and when. No logic."""

import dagster as dg

from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.stages import STAGES


def day_job(instrument: str) -> dg.UnresolvedAssetJobDefinition:
    """Raw files to cache, one run per day."""
    selection = [dg.AssetKey([instrument, s.name]) for s in STAGES if s.per_day]
    return dg.define_asset_job(f"{_name(instrument)}_days", selection=selection)


def whole_job(instrument: str) -> dg.UnresolvedAssetJobDefinition:
    """Cached days to verdict, one run."""
    selection = [dg.AssetKey([instrument, s.name]) for s in STAGES if not s.per_day]
    return dg.define_asset_job(f"{_name(instrument)}_research", selection=selection)


def nightly_retrain(config: PipelineConfig, job: dg.UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Retrain and judge again after the close, each weekday at 18:30 Chicago time.

    CME Globex closes at 16:00 there; the two and a half hours leave time for late files. Stopped until a person
    turns it on, since a night costs compute.
    """
    return dg.ScheduleDefinition(
        name=f"{_name(config.name)}_nightly_retrain",
        job=job,
        cron_schedule="30 18 * * 1-5",
        execution_timezone="America/Chicago",
    )


def _name(instrument: str) -> str:
    return instrument.replace("-", "_")
