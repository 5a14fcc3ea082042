"""Real files through the shipped instruments, counts as taken independently of this code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alpha_pipeline.fxcache import open_day
from alpha_pipeline.paths import Workspace
from alpha_pipeline.run import run_market, scope_of

pytestmark = pytest.mark.real_data

# instrument -> day -> (records, events, of which with a good book, trades, cached segments)
EXPECTED = {
    "es": {"2023-12-25": (43_717, 37_051, 36_905, 2_973, 1)},
    "btcusdt": {
        "2024-08-08": (12_905, 12_905, 12_905, 9_756, 1),
        "2024-08-09": (13_100, 13_100, 13_100, 10_147, 1),
    },
    "nexousdt": {
        "2024-07-23": (22_288, 22_288, 22_288, 4_681, 1),
        "2024-07-24": (60_208, 60_208, 60_208, 12_215, 1),
        "2024-07-25": (7_876, 7_876, 7_876, 1_921, 1),
    },
}


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A new workspace with the shipped instruments."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Workspace(tmp_path)


@pytest.mark.parametrize("instrument", EXPECTED)
def test_real_days_reach_the_cache(real_data, workspace, instrument):
    """Each instrument takes its own files out of one folder that holds those of all three."""
    raw = real_data / "mbp10-derived"
    outcome = run_market(instrument, workspace, raw=raw, until="fxcache", say=lambda _: None)
    assert outcome.launched.failed == {}
    assert outcome.exit_code == 0
    scope = scope_of(instrument, workspace, raw=raw)
    assert scope.usable_days() == list(EXPECTED[instrument])
    for day, (records, events, good, trades, segments) in EXPECTED[instrument].items():
        stages = ("mbp10_snapshots", "trades", "data_quality", "fxcache")
        figures = {stage: scope.store.get(stage, day).result["metrics"] for stage in stages}
        assert figures["mbp10_snapshots"]["records_read"] == records
        assert figures["mbp10_snapshots"]["rows"] == events
        assert figures["data_quality"]["good_rows"] == good
        assert figures["trades"]["rows"] == trades
        stride = scope.config.features.sampler.n
        assert figures["fxcache"]["rows"] == pytest.approx(good / stride, abs=segments)
        assert figures["fxcache"]["segments"] == segments
        cached = open_day(scope.store.get("fxcache", day).path / "fxcache.arrow", verify="full")
        assert cached.day == day
        if instrument == "es":  # as a replay of the order-by-order file of that night says
            bid, ask = cached.book[-1, 0, 0], cached.book[-1, 0, 1]
            assert (bid * 0.25, ask * 0.25) == (4810.00, 4810.25)
            assert cached.mid2[-1] == bid + ask


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_real_market_reaches_a_verdict(real_data, workspace):
    """The three real days through every stage; whatever the verdict is, it is one."""
    alpha = Path(sys.executable).with_name("alpha")
    words = ["run", "--instrument", "nexousdt", "--raw", str(real_data / "mbp10-derived"), "--json"]
    environment = {**os.environ, "ALPHA_HOME": str(workspace.root)}
    done = subprocess.run([alpha, *words], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 3), done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"]["verdict"] == {0: "PASS", 3: "FAIL"}[done.returncode]
    assert told["failed"] == {}
    assert len(told["built"]) == 4 * 3 + 8
    page = Path(told["report"]).read_text()
    assert "nexousdt" in page
    again = subprocess.run([alpha, *words], capture_output=True, text=True, env=environment, check=False)
    assert again.returncode == done.returncode
    assert json.loads(again.stdout)["built"] == []
