"""Adverse selection: what the mid does after a passive fill, against what it does when there was none."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alpha_core.market.data import MarketData
from alpha_pipeline.fills.exposure import Exposures


def adverse_selection(data: MarketData, exposures: Exposures, rows_ahead: Sequence[int]) -> pl.DataFrame:
    """Mid moves in the order's favour after the interval, by level and by whether it filled.

    A move is side x (mid(i + 1 + k) − mid(i + 1)) in ticks, k rows after the interval (i, i + 1]; negative
    after fills means that they were bought too dear or sold too cheap. `edge` is side x (mid(i + 1) −
    price), what a fill is worth at the end of its interval. Only rows of the same segment count.

    Returns:
        One row per level and k: level, rows_ahead, fills, move_after_fill, error_after_fill, others,
        move_after_none, difference, edge (all in ticks; errors are standard errors).
    """
    mid2, segment = data.mid2.numpy().astype(np.int64), data.segment.numpy()
    sign = np.where(exposures.side == 0, 1, -1)
    after = exposures.row + 1
    edge = sign * (mid2[after] - 2 * exposures.price) / 2
    parts = []
    for ahead in rows_ahead:
        later = np.minimum(after + ahead, len(mid2) - 1)
        inside = (after + ahead < len(mid2)) & (segment[later] == segment[after])
        move = sign * (mid2[later] - mid2[after]) / 2
        parts.append(_by_level(exposures, move, edge, inside).with_columns(rows_ahead=pl.lit(ahead)))
    return pl.concat(parts).sort("level", "rows_ahead")


def _by_level(
    exposures: Exposures, move: NDArray[np.float64], edge: NDArray[np.float64], inside: NDArray[np.bool_]
) -> pl.DataFrame:
    frame = pl.DataFrame({"level": exposures.level, "filled": exposures.filled, "move": move, "edge": edge})
    filled, none = pl.col("move").filter("filled"), pl.col("move").filter(~pl.col("filled"))
    return (
        frame.filter(inside)
        .group_by("level")
        .agg(
            pl.col("filled").sum().cast(pl.Int64).alias("fills"),
            filled.mean().alias("move_after_fill"),
            (filled.std() / filled.len().sqrt()).alias("error_after_fill"),
            none.len().cast(pl.Int64).alias("others"),
            none.mean().alias("move_after_none"),
            pl.col("edge").filter("filled").mean(),
        )
        .with_columns((pl.col("move_after_fill") - pl.col("move_after_none")).alias("difference"))
    )
