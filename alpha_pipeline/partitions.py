"""Partitions of Dagster assets: the days of each instrument. No logic."""

import dagster as dg


def day_partitions(instrument: str) -> dg.DynamicPartitionsDefinition:
    """One partition per UTC date for which the instrument has raw files; keys read `2024-07-24`.

    Dynamic, because the folder and no calendar says which days exist.
    """
    return dg.DynamicPartitionsDefinition(name=f"{instrument}_days")
