"""The stage of the perception goes on where a killed run left off, and what it left goes once it is published."""

import pytest
import tiny_market

from alpha_core.training.trainer import Trainer
from alpha_pipeline.artifacts import ArtifactStore
from alpha_pipeline.provenance import Stamp
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import execute

STAGE = next(stage for stage in STAGES if stage.name == "perception_model")


class KilledError(BaseException):
    """Stands for a kill."""


def train(market, said=None):
    scope = tiny_market.scope(market)
    object.__setattr__(scope, "report", [].append if said is None else said.append)
    return execute(STAGE, scope, "all", {})


def killed_after(market, epochs, monkeypatch):
    whole = Trainer.run

    def run(self, updates=None):
        if self.epoch == epochs:
            raise KilledError
        return whole(self, updates)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run", run)
        with pytest.raises(KilledError):
            train(market)


@pytest.fixture
def longer(market):
    tiny_market.configure(market, tiny_market.CONFIG.replace("epochs = 1", "epochs = 3"))
    return market


def test_rerun_after_a_kill_publishes_the_same_bytes(longer, monkeypatch):
    expected = train(longer)[1].digest
    partition = tiny_market.scope(longer).store.root / STAGE.name / "all"
    assert not list(partition.glob("work-*"))
    killed_after(longer, 2, monkeypatch)
    assert len(list(partition.glob("work-*"))) == 1
    said = []
    assert train(longer, said)[1].digest == expected
    assert "goes on" in said[0]
    assert "epoch 2" in said[0]
    assert not list(partition.glob("work-*"))


def test_other_settings_do_not_see_the_work_of_a_killed_run(longer, monkeypatch):
    killed_after(longer, 2, monkeypatch)
    tiny_market.configure(longer, tiny_market.CONFIG.replace("epochs = 1", "epochs = 2"))
    said = []
    train(longer, said)
    assert not any("goes on" in text or "anew" in text for text in said)
    partition = tiny_market.scope(longer).store.root / STAGE.name / "all"
    assert len(list(partition.glob("work-*"))) == 1, "it may be wanted yet"


def test_work_of_killed_attempts_is_a_leftover(tmp_path):
    store = ArtifactStore(tmp_path)
    with store.attempt("stage") as out:
        (out / "data.txt").write_text("one")
        store.publish(out, stamp=Stamp(code="1", config="c", inputs={}))
    work = store.work("stage", Stamp(code="2", config="c", inputs={}))
    work.mkdir()
    assert store.leftovers(0.0) == [work]
    assert store.leftovers(3600.0) == []
