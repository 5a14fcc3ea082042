"""Cache files made the plain way, with all columns in memory: the reference for what streaming writes."""

import numpy as np
import pyarrow as pa

from alpha_pipeline.features.columns import COLUMNS
from alpha_pipeline.fxcache import format as layout


def encode_column(values, kind, present=None):
    """An Arrow column over `values` [R] or [R, K], with nulls where `present` [R] is False."""
    if pa.types.is_fixed_size_list(kind):
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), kind.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, kind.list_size)
    mask = None if present is None else ~present
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64(), mask=mask).view(kind)
    return pa.array(values, kind, mask=mask)


def encode_day(day, header):
    """The record batch of a computed day under a header that lacks only its checksums."""
    arrays = [
        encode_column(day.columns[c.name], layout.arrow_type(c), day.columns.get(c.present)) for c in COLUMNS
    ]
    bare = pa.RecordBatch.from_arrays(arrays, schema=layout.schema())
    complete = layout.Header(**{**vars(header), "checksums": layout.checksums(bare)})
    return bare.replace_schema_metadata(complete.encode())


def write(path, batch):
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write_batch(batch)
    return path
