"""Filling and closing one run."""

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from alpha_core.errors import DataError
from alpha_pipeline.results import StageResult
from alpha_pipeline.tracking.store import Store, TrackingError

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl
    from mlflow.entities import Run

PIPELINE_TAG = "alpha.pipeline_run"
STAGE_TAG = "alpha.stage"
CLOSED_BY_TAG = "alpha.closed_by"
PARENT_TAG = "mlflow.parentRunId"
NAN_TAG = "nan_metrics"
MODEL_SUFFIXES = frozenset({".safetensors", ".json", ".txt", ".md", ".toml", ".csv"})

Status = Literal["FINISHED", "FAILED", "KILLED"]
Entry = TypeVar("Entry")

_METRIC_BATCH = 1000  # MLflow's limit for one call
_TAG_BATCH = 100  # likewise, for parameters and for tags
_PARAM_LENGTH = 500  # longer values are unreadable in its table; params.json holds them whole
_DIGEST_LENGTH = 36  # MLflow's limit for a data set's digest


class RunHandle:
    """One open run. As a context manager it ends FINISHED, FAILED on an exception, KILLED on Ctrl-C.

    Attributes:
        run_id: MLflow's identity of the run.
        parent_id: run of the pipeline it belongs to, None for a pipeline's own.
        pipeline_id: identity of the pipeline run, None for a stage's.
    """

    def __init__(self, store: Store, run: "Run", *, resumed: bool = False) -> None:
        self.run_id: str = run.info.run_id
        self.parent_id: str | None = run.data.tags.get(PARENT_TAG)
        self.pipeline_id: str | None = run.data.tags.get(PIPELINE_TAG)
        self._store = store
        self._resumed = resumed
        self._steps: dict[str, set[int]] = {}
        self._nan = set(filter(None, run.data.tags.get(NAN_TAG, "").split(",")))

    @property
    def url(self) -> str:
        """Address of the run's page."""
        return self._store.url_for(self.run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
            return
        try:
            self.set_tags({"error": _cut(f"{type(error).__name__}: {error}")})
            self.finish("FAILED" if isinstance(error, Exception) else "KILLED")
        except TrackingError as second:
            error.add_note(str(second))  # the stage's own error is the one to see

    def finish(self, status: Status = "FINISHED") -> None:
        """Close the run, and its parent too where that has no owner. A parent that failed stays failed."""
        client = self._store.client
        with self._store.reporting("close the run"):
            client.set_terminated(self.run_id, status)
            parent = client.get_run(self.parent_id) if self.parent_id else None
            if parent and parent.data.tags.get(CLOSED_BY_TAG) == "stages":
                failed = parent.info.status in ("FAILED", "KILLED")
                client.set_terminated(parent.info.run_id, parent.info.status if failed else status)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Write or overwrite labels."""
        from mlflow.entities import RunTag

        entries = [RunTag(key, str(value)) for key, value in tags.items()]
        with self._store.reporting("write tags"):
            for part in _parts(entries, _TAG_BATCH):
                self._store.client.log_batch(self.run_id, tags=part)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Write settings. Values too long for MLflow's table are cut there and stand whole in params.json."""
        from mlflow.entities import Param

        texts = {key: str(value) for key, value in params.items()}
        if any(len(text) > _PARAM_LENGTH for text in texts.values()):
            self.log_dict("params.json", texts)
        entries = [Param(key, _cut(text)) for key, text in texts.items()]
        with self._store.reporting("write parameters"):
            for part in _parts(entries, _TAG_BATCH):
                self._store.client.log_batch(self.run_id, params=part)

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Write one value of each metric. NaN is left out and named in the tag `nan_metrics`.

        A step this run already has a value for keeps that value, so a resumed stage may repeat steps.

        Raises:
            DataError: a metric is infinite (the finite ones are written all the same).
        """
        self._log_points([(name, float(value), step) for name, value in metrics.items()])

    def log_history(self, history: Mapping[str, Sequence[float]], first_step: int = 0) -> None:
        """Write values of consecutive steps, by metric, by the rules of `log_metrics`.

        Raises:
            DataError: a value is infinite (the finite ones are written all the same).
        """
        self._log_points(
            [
                (name, float(value), step)
                for name, values in history.items()
                for step, value in enumerate(values, first_step)
            ]
        )

    def _log_points(self, points: Sequence[tuple[str, float, int]]) -> None:
        from mlflow.entities import Metric

        now, entries = int(time.time() * 1000), list[Metric]()
        with self._store.reporting("write metrics"):
            for name, value, step in points:
                if math.isfinite(value) and step not in self._logged_steps(name):
                    self._steps[name].add(step)
                    entries.append(Metric(name, value, now, step))
            for part in _parts(entries, _METRIC_BATCH):
                self._store.client.log_batch(self.run_id, metrics=part)
        self._report_nan({name for name, value, _ in points if math.isnan(value)})
        wrong = [f"{name} was {value} at step {step}" for name, value, step in points if math.isinf(value)]
        if wrong:
            raise DataError(
                f"metrics must be finite: {', '.join(wrong[:5])}; find where the figure overflows"
            )

    def _logged_steps(self, name: str) -> set[int]:
        if name not in self._steps:
            old = self._store.client.get_metric_history(self.run_id, name) if self._resumed else []
            self._steps[name] = {metric.step for metric in old}
        return self._steps[name]

    def _report_nan(self, names: set[str]) -> None:
        if not names <= self._nan:
            self._nan |= names
            self.set_tags({NAN_TAG: ",".join(sorted(self._nan))})

    def log_inputs(self, digests: Mapping[str, str]) -> None:
        """Record the data the run reads (name -> content digest), so that its page lists them."""
        from mlflow.entities import Dataset, DatasetInput

        inputs = [
            DatasetInput(Dataset(name, digest[:_DIGEST_LENGTH], "content", json.dumps({"digest": digest})))
            for name, digest in digests.items()
        ]
        if inputs:
            with self._store.reporting("write inputs"):
                self._store.client.log_inputs(self.run_id, inputs)

    def log_dict(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON artifact."""
        self._log_text(name, json.dumps(value, indent=1, default=str))

    def log_html(self, name: str, html: str) -> None:
        """Write a page as `name` (which ends in .html)."""
        self._log_text(name, html)

    def log_table(self, name: str, table: "pl.DataFrame") -> None:
        """Write a small table as tables/<name>.csv, which the page shows as a grid."""
        self._log_text(f"tables/{_file_name(name)}.csv", table.write_csv())

    def log_figures(self, figures: Mapping[str, "go.Figure"], *, page: bool = True) -> None:
        """Write each figure as JSON and, with `page`, all of them as one page that needs no network.

        The page carries plotly.js (about 5 MB): leave it out for stages that run once for each day of data.
        """
        for name, figure in figures.items():
            self._log_text(f"figures/{_file_name(name)}.json", str(figure.to_json()))
        if page and figures:
            parts = [
                str(figure.to_html(full_html=False, include_plotlyjs=index == 0))
                for index, figure in enumerate(figures.values())
            ]
            self.log_html("figures.html", f"<!doctype html><meta charset='utf-8'>{''.join(parts)}")

    def log_file(self, path: Path, folder: str | None = None) -> None:
        """Copy one file."""
        with self._store.reporting(f"store {path.name}"):
            self._store.client.log_artifact(self.run_id, str(path), folder)

    def log_model(self, directory: Path, name: str) -> None:
        """Copy a model's directory (safetensors and JSON) to models/<name>.

        Raises:
            DataError: a file could hold code (pickle and its kin), which is never stored.
        """
        files = [path for path in directory.rglob("*") if path.is_file()]
        wrong = sorted(path.name for path in files if path.suffix not in MODEL_SUFFIXES)
        if wrong or not files:
            raise DataError(
                f"model directory {directory} holds {', '.join(wrong) or 'nothing'}, "
                f"must hold only {', '.join(sorted(MODEL_SUFFIXES))} files; save it as safetensors and JSON"
            )
        with self._store.reporting(f"store the model {name}"):
            self._store.client.log_artifacts(self.run_id, str(directory), f"models/{name}")

    def download(self, path: str, into: Path) -> Path:
        """Copy an artifact of this run, e.g. models/<name>, into a folder and return where it lies."""
        into.mkdir(parents=True, exist_ok=True)
        with self._store.reporting(f"read {path}"):
            return Path(self._store.client.download_artifacts(self.run_id, path, str(into)))

    def log_result(self, result: StageResult, *, page: bool = True) -> None:
        """Write all a stage shows. Metrics come last: should one be infinite, the rest is safe by then."""
        self.log_params(result.params)
        for name, table in result.tables.items():
            self.log_table(name, table)
        self.log_figures(result.figures, page=page)
        if result.checks:
            self.log_dict("checks.json", {check.name: vars(check) for check in result.checks})
            self.set_tags({"checks_failed": ",".join(check.name for check in result.failed)})
        self.log_history(result.history)
        self.log_metrics(result.metrics)

    def _log_text(self, name: str, text: str) -> None:
        with self._store.reporting(f"store {name}"):
            self._store.client.log_text(self.run_id, text, name)


def _parts(entries: Sequence[Entry], size: int) -> Iterator[Sequence[Entry]]:
    for start in range(0, len(entries), size):
        yield entries[start : start + size]


def _cut(text: str) -> str:
    return text if len(text) <= _PARAM_LENGTH else f"{text[: _PARAM_LENGTH - 1]}…"


def _file_name(title: str) -> str:
    """A title as a safe file name: a figure called `../x` stays inside the run's folder."""
    return re.sub(r"[^A-Za-z0-9]+", "_", title).strip("_") or "unnamed"
