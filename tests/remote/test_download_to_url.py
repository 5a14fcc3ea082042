"""Days from the vendor into a shared folder: staged here, then there whole, and seen as present by all."""

import sys
from datetime import date
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "download"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ingest"))

from dbn_builder import T0, Msg
from vendor_stand_in import KEY, StandIn, serving

from alpha_pipeline.bucket import Bucket
from alpha_pipeline.download import KEY_VARIABLE
from alpha_pipeline.download.days import FETCHED, PRESENT
from alpha_pipeline.fetch import fetch_market
from alpha_pipeline.paths import Workspace
from alpha_pipeline.run import scope_of

DAY = "2024-03-06"


@pytest.fixture
def vendor_side(tmp_path, monkeypatch):
    (tmp_path / "tls").mkdir()
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    state = StandIn([Msg(ts=T0 + k, sequence=k) for k in range(50)], date.fromisoformat(DAY))
    with serving(state, tmp_path / "tls", lambda path: monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))):
        yield state


def test_fetched_day_lies_in_the_shared_folder_and_is_read_from_there(url, vendor_side, tmp_path):
    workspace = Workspace(tmp_path)
    (tmp_path / "instruments").mkdir()
    (tmp_path / "instruments" / "test.toml").write_text(
        '[instrument]\nname = "test"\nsymbols = ["TEST"]\ntick_size = "0.25"\ncalendar = "24/7"\n\n'
        f'[source]\nraw = "{url}"\n\n'
        f'[download]\ndataset = "GLBX.MDP3"\nsymbols = ["TEST"]\ngateway = "{vendor_side.gateway}"\n'
    )
    assert [one.outcome for one in fetch_market("test", workspace, DAY, DAY)] == [FETCHED]
    assert [one.name for one in Bucket(url).list()] == [f"TEST-{DAY}.mbp-10.dbn.zst"]
    assert [p for p in workspace.spool.rglob("*") if p.is_file() and p.suffix != ".lock"] == []
    assert list(scope_of("test", workspace, raw=None).raw_files) == [DAY]
    assert [one.outcome for one in fetch_market("test", workspace, DAY, DAY)] == [PRESENT]
