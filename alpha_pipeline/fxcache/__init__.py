"""The versioned feature cache: one immutable, memory-mapped file a day.

Here: the file format, its readers, its provenance stamp and atomic publication. Not here: how a feature is
computed (`alpha_pipeline.features`). `alpha_pipeline.fxcache.build.build_day` makes a file; it is imported
from there because it brings the compiled kernels with it.
"""

from typing import TYPE_CHECKING

from alpha_pipeline.fxcache.format import FXCACHE_VERSION
from alpha_pipeline.fxcache.readers import CachedDay, CacheInfo, open_day
from alpha_pipeline.fxcache.stamp import builder_digest, read_stamp, required_stamp, stale_reasons
from alpha_pipeline.fxcache.store import collect_garbage, day_path, list_days

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alpha_core.market.data import MarketData
    from alpha_core.training.sequences import SequenceData

__all__ = [
    "FXCACHE_VERSION",
    "CacheInfo",
    "CachedDay",
    "builder_digest",
    "collect_garbage",
    "day_path",
    "list_days",
    "market_data",
    "open_day",
    "read_stamp",
    "required_stamp",
    "sequence_data",
    "stale_reasons",
]


def market_data(days: "Sequence[CachedDay]") -> "MarketData":
    """See `alpha_pipeline.fxcache.market.market_data`; torch is loaded on the first call."""
    from alpha_pipeline.fxcache.market import market_data as join

    return join(days)


def sequence_data(days: "Sequence[CachedDay]") -> "SequenceData":
    """See `alpha_pipeline.fxcache.market.sequence_data`; torch is loaded on the first call."""
    from alpha_pipeline.fxcache.market import sequence_data as join

    return join(days)
