"""The product's own simulated days through ingestion, against the official decoder."""

import databento
import numpy as np
from ingested_day import facts, load

from alpha_pipeline.ingest import QualityThresholds, ingest_day
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.quality import assess_day
from alpha_pipeline.ingest.source import discover
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.schemas import validate
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.days import simulate_days

DEMO = InstrumentSpec()


def test_simulated_day_arrives_whole_and_good(tmp_path):
    (path,) = simulate_days(SimulatorConfig(days=1, events_per_day=3000), DEMO, tmp_path / "raw")
    ((key, paths),) = discover(LocalFolder(tmp_path / "raw"), DEMO).items()
    assert paths == [path]
    day = load(tmp_path / "day", ingest_day(paths, DEMO, tmp_path / "day"))
    official = databento.DBNStore.from_file(path).to_ndarray()
    ends = official[(official["flags"] & 0x80) != 0]
    assert day.report.records_kept == len(official)
    assert np.array_equal(day.snapshots["ts_recv"].to_physical().to_numpy(), ends["ts_recv"].astype(np.int64))
    for side in ("bid", "ask"):
        ticks = day.snapshots[f"{side}_px_00"].to_numpy()
        assert np.array_equal(ticks * DEMO.tick_nanos, ends[f"{side}_px_00"])
    assert day.trades["size"].sum() == official["size"][official["action"] == b"T"].sum()
    assert all(
        check.passed for check in validate("snapshots", day.snapshots) + validate("trades", day.trades)
    )
    assert all(check.passed for check in assess_day(facts(day, key), QualityThresholds()).checks)
