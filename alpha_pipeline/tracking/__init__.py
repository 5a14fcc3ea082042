"""Runs, parameters, metrics, plots and models in MLflow: the only package that imports it.

Belongs here: where the store is, how a run is opened, filled and closed. Does not belong here: what a stage
computes, and Dagster. One parent run stands for one pipeline run, one child for each stage of it. Importing
MLflow costs seconds, so that happens on first use. The database is written directly (no server in between) in
batches, because one call a metric locks SQLite and costs milliseconds.
"""

from alpha_pipeline.tracking.run import RunHandle
from alpha_pipeline.tracking.store import TrackingError, default_uri
from alpha_pipeline.tracking.tracker import StageTags, Tracker

__all__ = ["RunHandle", "StageTags", "Tracker", "TrackingError", "default_uri"]
