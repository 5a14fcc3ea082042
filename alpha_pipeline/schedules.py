"""Dagster jobs and schedules: what runs together, and when. No logic."""

from typing import Any

import dagster as dg

from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.stages import STAGES

AssetJob = Any  # Dagster exports no name for what `define_asset_job` returns


def day_job(instrument: str) -> AssetJob:
    """Raw files to cache, one run per day."""
    return dg.define_asset_job(f"{_name(instrument)}_days", selection=_selection(instrument, per_day=True))


def whole_job(instrument: str) -> AssetJob:
    """Cached days to verdict, one run."""
    return dg.define_asset_job(
        f"{_name(instrument)}_research", selection=_selection(instrument, per_day=False)
    )


def nightly_retrain(config: PipelineConfig, job: AssetJob) -> dg.ScheduleDefinition:
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


def _selection(instrument: str, *, per_day: bool) -> dg.AssetSelection:
    return dg.AssetSelection.assets(
        *(dg.AssetKey([instrument, s.name]) for s in STAGES if s.per_day == per_day)
    )


def _name(instrument: str) -> str:
    return instrument.replace("-", "_")
