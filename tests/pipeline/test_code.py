"""The version of a stage is the code it imports: an edit anywhere in it shows, elsewhere it does not."""

from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.code import _closure, code_of


def closure(stage: str) -> set[str]:
    return _closure(f"alpha_pipeline.stages.{stage}")


def test_the_gate_depends_on_market_policy_criteria_and_fills():
    assert closure("oos_gate") >= {
        "alpha_core.market.environment",
        "alpha_core.market.matching",
        "alpha_core.rl.policies",
        "alpha_pipeline.evaluation.criteria.day_share",
        "alpha_pipeline.evaluation.criteria.look_budget",
        "alpha_pipeline.fills.coefficients",
    }


def test_snapshots_depend_on_ingestion_and_not_on_cache_or_models():
    found = closure("mbp10_snapshots")
    assert "alpha_pipeline.ingest.databento" in found
    assert not [name for name in found if "fxcache" in name or name.startswith("alpha_core.nn")]


def test_every_stage_carries_its_code(monkeypatch):
    from alpha_pipeline.config import load
    from alpha_pipeline.paths import PROJECT, Workspace

    config = load("demo", Workspace(PROJECT))
    for stage in STAGES:
        version = stage.version(config)
        assert version.count("-") >= 1, (stage.name, version)
        if stage.name != "fxcache":
            assert version.endswith(code_of(f"alpha_pipeline.stages.{stage.name}"))
