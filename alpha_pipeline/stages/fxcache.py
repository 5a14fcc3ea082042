"""Snapshots and trades of one day to its feature cache."""

from collections.abc import Iterator

import polars as pl

from alpha_core.errors import DataError
from alpha_core.shapes import HORIZONS
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.features.columns import LABELS
from alpha_pipeline.fxcache import FXCACHE_VERSION, CachedDay, builder_digest, open_day
from alpha_pipeline.ingest.tables import SLICE_ROWS, SNAPSHOTS, TRADES
from alpha_pipeline.results import StageResult
from alpha_pipeline.schemas import validate_slices
from alpha_pipeline.stages.base import Stage, StageContext, Upstream

FILE = "fxcache.arrow"


def run(context: StageContext) -> StageResult:
    """Compute the 40 features, the labels and the replay blocks of every decision point.

    Raises:
        DataError: the day was rejected by its quality checks.
    """
    from alpha_pipeline.fxcache.build import build_day

    day = context.partition
    if context.store.get("data_quality", day).status == "rejected":
        raise DataError(f"{day} was rejected by its data-quality checks: mend the file or the thresholds")
    sources = {s: context.store.get(s, day) for s in ("mbp10_snapshots", "trades")}
    build_day(
        sources["mbp10_snapshots"].path / SNAPSHOTS,
        sources["trades"].path / TRADES,
        day=day,
        instrument=context.config.name,
        features=context.config.features,
        source_digests={name: artifact.digest for name, artifact in sources.items()},
        out=context.out / FILE,
    )
    return summary(open_day(context.out / FILE, verify="none"))


def summary(cached: CachedDay) -> StageResult:
    """What people see of a day, and the check of its table; memory does not grow with the day."""
    import plotly.graph_objects as go

    header = cached.info.header
    labels = [cached.rows - header.null_labels[name] for name in LABELS]
    ties = [header.ties[name] for name in LABELS]
    table = pl.DataFrame({"horizon": HORIZONS, "labels": labels, "ties": ties})
    step = max(1, cached.rows // 500)
    when = [str(t)[11:19] for t in cached.ts[::step].astype("datetime64[ns]")]
    figure = go.Figure(go.Scatter(x=when, y=cached.mid2[::step] / 2.0, mode="lines"))
    figure.update_layout(title=f"Mid, {cached.day}", xaxis_title="UTC", yaxis_title="ticks")
    return StageResult(
        metrics={"rows": float(cached.rows), "segments": float(header.counts["segments"])}
        | {f"ties_{h}": float(n) for h, n in zip(HORIZONS, ties, strict=True)},
        params={"version": FXCACHE_VERSION, "degraded": cached.degraded},
        tables={"labels": table},
        figures={"mid": figure} if cached.rows else {},
        checks=validate_slices("fxcache", _slices(cached)),
        status=cached.info.status,
    )


def _slices(cached: CachedDay) -> Iterator[pl.DataFrame]:
    """The numeric columns as tables of some rows, for the schema check."""
    for low in range(0, cached.rows, SLICE_ROWS):
        rows = slice(low, low + SLICE_ROWS)
        features = {name: cached.features[rows, i] for i, name in enumerate(cached.feature_names)}
        keys = {"ts": cached.ts[rows], "segment": cached.segment[rows], "mid2": cached.mid2[rows]}
        yield pl.DataFrame(keys | features)
        cached.release()


def version(config: PipelineConfig) -> str:
    """Format version and the digest of the code that computes rows: a changed feature changes it."""
    return f"{FXCACHE_VERSION}-{builder_digest(config.features)[:12]}"


STAGE = Stage(
    name="fxcache",
    description="The versioned feature cache: 40 causal features, labels at five horizons, book and tape to replay.",
    group="market_data",
    kinds=frozenset({"arrow", "numba"}),
    per_day=True,
    upstream=(
        Upstream(stage="mbp10_snapshots"),
        Upstream(stage="trades"),
        Upstream(stage="data_quality", content=False),
    ),
    version=version,
    settings=lambda config: config.features,
    run=run,
    checks={"fxcache_schema": True},
)
