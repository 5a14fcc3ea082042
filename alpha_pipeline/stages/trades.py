"""The trade tape of one day, checked and summed up."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from alpha_pipeline.ingest.tables import TRADE_SCHEMA, TRADES, read_slices
from alpha_pipeline.report.figures import bar_figure
from alpha_pipeline.results import StageResult
from alpha_pipeline.schemas import validate_slices
from alpha_pipeline.stages.base import Stage, StageContext, Upstream
from alpha_pipeline.stages.code import code_of

VERSION = "2"


def run(context: StageContext) -> StageResult:
    """Publish the trades that ingestion found, after their schema has been checked."""
    source = context.upstream("mbp10_snapshots", context.partition) / TRADES
    summary = _Summary()
    checks = validate_slices("trades", _copied(source, context.out / TRADES, summary))
    by_hour = summary.by_hour()
    drawn = by_hour.select(pl.col("hour").dt.strftime("%H:%M"), lots=pl.col("volume"))
    return StageResult(
        metrics={
            "rows": float(by_hour["trades"].sum()),
            "volume_lots": float(by_hour["volume"].sum()),
            "signed_volume_lots": float(by_hour["signed"].sum()),
            "unknown_aggressor": float(by_hour["unknown_aggressor"].sum()),
            "without_size": float(by_hour["without_size"].sum()),
        },
        tables={"volume_by_hour": by_hour},
        figures={"volume_by_hour": bar_figure(drawn, "Traded volume by hour (UTC)", "lots")}
        if by_hour.height
        else {},
        checks=checks,
    )


def _copied(source: Path, target: Path, summary: "_Summary") -> Iterator[pl.DataFrame]:
    """The tape slice by slice, written to `target` and summed up on the way."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(target), TRADE_SCHEMA, options=options) as writer:
        for trades in read_slices(source):
            writer.write_table(trades.to_arrow().cast(TRADE_SCHEMA))
            summary.see(trades)
            yield trades


class _Summary:
    """Trades by hour, over slices."""

    def __init__(self) -> None:
        self._parts = [pl.DataFrame(schema=_SUMS_SCHEMA)]

    def see(self, trades: pl.DataFrame) -> None:
        size = pl.col("size").cast(pl.Int64)
        sums = {
            "trades": pl.len(),
            "volume": size.sum(),
            "signed": (size * pl.col("aggressor")).sum(),
            "unknown_aggressor": (pl.col("aggressor") == 0).sum(),
            "without_size": (pl.col("size") == 0).sum(),
        }
        hour = pl.col("ts_recv").dt.truncate("1h").alias("hour")
        self._parts.append(trades.group_by(hour).agg(**sums).cast(pl.Schema(_SUMS_SCHEMA)))

    def by_hour(self) -> pl.DataFrame:
        return pl.concat(self._parts).group_by("hour").agg(pl.all().sum()).sort("hour")


_SUMS_SCHEMA: dict[str, pl.DataType] = {
    "hour": pl.Datetime("ns", "UTC"),
    "trades": pl.Int64(),
    "volume": pl.Int64(),
    "signed": pl.Int64(),
    "unknown_aggressor": pl.Int64(),
    "without_size": pl.Int64(),
}

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
