"""What the page shows beside a materialization: counts, tables, pictures, links."""

import dagster as dg
import polars as pl

from alpha_pipeline.report.thumbnails import data_uri
from alpha_pipeline.tracked import Outcome

_ROWS_SHOWN = 40


def describe(outcome: Outcome) -> dict[str, dg.MetadataValue]:
    """Metadata of one materialization, most wanted first."""
    result, artifact = outcome.result, outcome.artifact
    shown: dict[str, dg.MetadataValue] = {"status": dg.MetadataValue.text(artifact.status)}
    if "rows" in result.metrics:
        shown["dagster/row_count"] = dg.MetadataValue.int(int(result.metrics["rows"]))
    shown |= {
        name: dg.MetadataValue.md(f"![{name}]({data_uri(fig)})") for name, fig in result.figures.items()
    }
    shown |= {name: _table(frame) for name, frame in result.tables.items()}
    shown |= {name: dg.MetadataValue.json(dict(facts)) for name, facts in result.documents.items()}
    shown["metrics"] = dg.MetadataValue.md(_markdown(dict(result.metrics), "metric"))
    shown["params"] = dg.MetadataValue.md(_markdown(dict(result.params), "parameter"))
    shown["mlflow"] = dg.MetadataValue.url(outcome.link)
    shown["files"] = dg.MetadataValue.path(artifact.path)
    shown["provenance"] = dg.MetadataValue.json(artifact.stamp.to_dict())
    return shown


def _markdown(values: dict, heading: str) -> str:
    lines = [f"| {heading} | value |", "| --- | --- |"]
    return "\n".join(
        lines + [f"| {k} | {f'{v:.6g}' if isinstance(v, float) else v} |" for k, v in values.items()]
    )


def _table(frame: pl.DataFrame) -> dg.MetadataValue:
    columns = [dg.TableColumn(name=n, type=str(t)) for n, t in frame.schema.items()]
    plain = (str, int, float, bool, type(None))
    rows = frame.head(_ROWS_SHOWN).to_dicts()
    records = [
        dg.TableRecord({k: v if isinstance(v, plain) else str(v) for k, v in row.items()}) for row in rows
    ]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns=columns))
