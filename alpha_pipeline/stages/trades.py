"""The trade tape of one day, checked and summed up."""

import polars as pl

from alpha_pipeline.report.figures import bar_figure
from alpha_pipeline.results import StageResult
from alpha_pipeline.schemas import validate
from alpha_pipeline.stages.base import Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of

VERSION = "1"


def run(context: StageContext) -> StageResult:
    """Publish the trades that ingestion found, after their schema has been checked."""
    source = context.upstream("mbp10_snapshots", context.partition) / "trades.arrow"
    trades = pl.read_ipc(source)
    trades.write_ipc(context.out / "trades.arrow", compression="lz4")
    by_hour = (
        trades.group_by(pl.col("ts_recv").dt.truncate("1h").alias("hour"))
        .agg(
            trades=pl.len(), volume=pl.col("size").sum(), signed=(pl.col("size") * pl.col("aggressor")).sum()
        )
        .sort("hour")
    )
    drawn = by_hour.select(pl.col("hour").dt.strftime("%H:%M"), lots=pl.col("volume"))
    size = trades["size"].cast(pl.Int64)
    return StageResult(
        metrics={
            "rows": float(trades.height),
            "volume_lots": float(size.sum()),
            "signed_volume_lots": float((size * trades["aggressor"]).sum()),
            "unknown_aggressor": float((trades["aggressor"] == 0).sum()),
        },
        tables={"volume_by_hour": by_hour},
        figures={"volume_by_hour": bar_figure(drawn, "Traded volume by hour (UTC)", "lots")}
        if trades.height
        else {},
        checks=validate("trades", trades),
    )


STAGE = Stage(
    name="trades",
    description="Every trade of the day with its aggressor and the touch it met.",
    group="market_data",
    kinds=frozenset({"polars"}),
    per_day=True,
    upstream=(Upstream(stage="mbp10_snapshots"),),
    version=lambda _: f"{VERSION}-{code_of(__name__)}",
    settings=lambda _: None,
    run=run,
    checks={"trades_schema": True},
)
