"""Builds one day's cache file from that day's tables, and nothing else."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from alpha_pipeline.features.catalogue import FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.features.stream import stream_day
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache.readers import CacheInfo
from alpha_pipeline.fxcache.spool import ColumnSpool
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

    Memory does not grow with the day: columns go through files beside the target.

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
        InputError, DataError: the tables cannot serve, see `stream_day`.
        AlphaError: the file cannot be written, or another builder does not finish.
    """
    layout.check_day(day)
    with day_lock(out, lock_wait_s), ColumnSpool(out) as spool:
        found = stream_day(snapshots, trades, features, spool)
        rows = found.counts["rows"]
        columns, checksums = spool.finish(rows)
        header = layout.Header(
            day=day,
            instrument=instrument,
            status="ok" if rows else "empty",
            rows=rows,
            feature_names=FEATURE_NAMES,
            config=asdict(features),
            source_digests=dict(source_digests),
            builder_digest=builder_digest(features),
            counts=found.counts,
            ties={f"label_{h}": n for h, n in found.ties.items()},
            null_labels={f"label_{h}": n for h, n in found.nulls.items()},
            checksums=checksums,
        )
        batch = pa.RecordBatch.from_arrays(columns, schema=layout.schema().with_metadata(header.encode()))
        publish(out, batch, spool.splice)
        return CacheInfo(
            path=out, version=layout.FXCACHE_VERSION, size_bytes=out.stat().st_size, header=header
        )
