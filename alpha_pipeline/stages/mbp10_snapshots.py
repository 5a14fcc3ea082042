"""Raw files of one day to the canonical snapshot table and the trades inside it."""

from alpha_pipeline.results import StageResult
from alpha_pipeline.stages.base import Stage, StageContext

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
    return StageResult(
        metrics=numbers | {"rows": float(report.rows)},
        params={"files": ", ".join(path.name for path in files)},
        status="ok" if report.rows else "empty",
    )


STAGE = Stage(
    name="mbp10_snapshots",
    description="One row per order-book event: ten levels a side in ticks, decoded in bulk from DBN files.",
    group="market_data",
    kinds=frozenset({"polars"}),
    per_day=True,
    upstream=(),
    version=lambda _: VERSION,
    settings=lambda config: [config.instrument, config.ingest],
    run=run,
)
