"""Shared pieces of the ingestion's tests."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from dbn_builder import write
from ingested_day import Day, load

from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.instrument import InstrumentSpec


@pytest.fixture
def spec() -> InstrumentSpec:
    return InstrumentSpec(name="test", symbols=("TEST",), tick_size="0.25")


@pytest.fixture
def ingest(tmp_path: Path, spec: InstrumentSpec) -> Callable[..., Day]:
    """Writes records as a file and ingests it."""

    def run(
        records: Iterable[object], *, spec: InstrumentSpec = spec, head: bytes | None = None, **more
    ) -> Day:
        path = write(tmp_path / "raw" / "TEST-2024-03-06.mbp-10.dbn.zst", records, head=head)
        return load(tmp_path / "day", ingest_day([path], spec, tmp_path / "day", **more))

    return run
