"""Dagster jobs and schedules: what runs together, and when. No logic."""

from typing import Any

import dagster as dg

from alpha_core.errors import AlphaError
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.download.days import FAILED
from alpha_pipeline.resources import Downloads
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


class Span(dg.Config):
    """Dates 'YYYY-MM-DD', both included."""

    first: str
    last: str


def download_job(instrument: str) -> dg.JobDefinition:
    """Missing days of a span from the vendor, launched by a person; the new-file sensor takes it from there."""

    @dg.op(
        name=f"{_name(instrument)}_fetch", description="Fetch missing days from the vendor, one file each."
    )
    def fetch(context: dg.OpExecutionContext, config: Span, downloads: Downloads) -> dict[str, str]:
        try:
            results = downloads.fetch(instrument, config.first, config.last, say=context.log.info)
        except AlphaError as error:
            raise dg.Failure(description=str(error), allow_retries=False) from error
        failed = [f"{one.day}: {one.detail}" for one in results if one.outcome == FAILED]
        if failed:
            raise dg.Failure(description="; ".join(failed))
        return {one.day: one.outcome for one in results}

    @dg.job(name=f"{_name(instrument)}_download", description="Fetch the missing days of a span.")
    def job() -> None:
        fetch()

    return job


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
