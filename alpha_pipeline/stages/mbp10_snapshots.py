"""Raw files of one day to the canonical snapshot table and the trades inside it."""

import polars as pl

from alpha_pipeline.ingest.tables import SNAPSHOTS, read_slices
from alpha_pipeline.report.figures import bar_figure
from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Stage, StageContext
from alpha_pipeline.stages.code import code_of

VERSION = "1"


def run(context: StageContext) -> StageResult:
    """Decode, keep one row per event, report everything that was not kept.

    Raises:
        InputError: a file is not what it claims to be; names file, byte offset and reason.
    """
    from alpha_pipeline.ingest import ingest_day

    files = context.scope.raw_files[context.partition]
    report = ingest_day(files, context.config.instrument, context.out, config=context.config.ingest)
    facts = report.to_dict()
    numbers = {
        k: float(v) for k, v in facts.items() if isinstance(v, int | float) and not isinstance(v, bool)
    }
    context.scope.report(f"{context.partition}: {report.rows} snapshots of {report.records_read} records")
    by_hour = _by_hour(context)
    return StageResult(
        metrics=numbers | {"rows": float(report.rows)},
        params={"files": ", ".join(path.name for path in files)},
        tables={"snapshots_by_hour": by_hour},
        figures={"snapshots_by_hour": bar_figure(by_hour, "Snapshots by hour (UTC)", "snapshots")}
        if report.rows
        else {},
        status="ok" if report.rows else "empty",
    )


def _by_hour(context: StageContext) -> pl.DataFrame:
    """Snapshots in each hour of the day, columns hour and snapshots."""
    parts = [
        snapshots["ts_recv"].dt.hour().alias("hour").value_counts(name="snapshots")
        for snapshots in read_slices(context.out / SNAPSHOTS, columns=["ts_recv"])
    ]
    if not parts:
        return pl.DataFrame(schema={"hour": pl.String, "snapshots": pl.UInt32})
    hours = pl.concat(parts).group_by("hour").agg(pl.col("snapshots").sum()).sort("hour")
    return hours.with_columns(pl.col("hour").cast(pl.String))


STAGE = Stage(
    name="mbp10_snapshots",
    description="One row per order-book event: ten levels a side in ticks, decoded in bulk from DBN files.",
    group="market_data",
    kinds=frozenset({"polars"}),
    per_day=True,
    upstream=(),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda config: [config.instrument, config.ingest],
    run=run,
)
