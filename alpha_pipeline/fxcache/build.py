"""Builds one day's cache file from that day's tables, and nothing else."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from alpha_core.shapes import HORIZONS
from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.features.stream import Day, compute_day
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache.readers import CacheInfo
from alpha_pipeline.fxcache.stamp import builder_digest
from alpha_pipeline.fxcache.writer import LOCK_WAIT_S, day_lock, publish


def build_day(
    snapshots: pa.Table | Path,
    trades: pa.Table | Path,
    *,
    day: str,
    instrument: str,
    features: FeatureConfig,
    source_digests: Mapping[str, str],
    out: Path,
    lock_wait_s: float = LOCK_WAIT_S,
) -> CacheInfo:
    """Computes a day and publishes it atomically; a second builder of the day waits for the first.

    A day without good snapshots gives a valid file with 0 rows and status "empty".

    Args:
        snapshots: canonical snapshot table or its Arrow IPC file.
        trades: trade tape table or its file.
        day: partition key, YYYY-MM-DD.
        instrument: name, kept in the header only, never made part of a path.
        features: sampler and smoothing.
        source_digests: digest by source name, kept in the stamp.
        out: the cache file to write.
        lock_wait_s: seconds to wait for another builder of the day.

    Raises:
        InputError, DataError: the tables cannot serve, see `compute_day`.
        AlphaError: the file cannot be written, or another builder does not finish.
    """
    layout.check_day(day)
    with day_lock(out, lock_wait_s):
        result = compute_day(snapshots, trades, features)
        plain = layout.Header(
            day=day,
            instrument=instrument,
            status="ok" if result.counts["rows"] else "empty",
            rows=result.counts["rows"],
            feature_names=FEATURE_NAMES,
            config=asdict(features),
            source_digests=dict(source_digests),
            builder_digest=builder_digest(features),
            counts=result.counts,
            ties={f"label_{h}": n for h, n in result.labels.ties().items()},
            null_labels={f"label_{h}": n for h, n in result.labels.nulls().items()},
        )
        header, batch = encode_day(result, plain)
        publish(out, batch)
        return CacheInfo(
            path=out, version=layout.FXCACHE_VERSION, size_bytes=out.stat().st_size, header=header
        )


def encode_day(day: Day, header: layout.Header) -> tuple[layout.Header, pa.RecordBatch]:
    """The record batch of a day, and its header completed by the checksums it now carries."""
    values = day.columns | {f"label_{h}": day.labels.change[:, k] for k, h in enumerate(HORIZONS)}
    present = day.present | {f"label_{h}": day.labels.valid[:, k] for k, h in enumerate(HORIZONS)}
    schema = layout.schema()
    arrays = [layout.encode_column(values[f.name], f.type, present.get(f.name)) for f in schema]
    bare = pa.RecordBatch.from_arrays(arrays, schema=schema)
    complete = layout.Header(**{**vars(header), "checksums": layout.checksums(bare)})
    return complete, bare.replace_schema_metadata(complete.encode())
