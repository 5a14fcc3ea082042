"""The asset graph of one instrument, as agreed: a change of keys, edges, partitions or checks is made here too."""

import ast
import warnings
from pathlib import Path

import dagster as dg
import pytest
from test_ceilings import ASSET_LINES, body_length, functions, is_asset

from alpha_pipeline.assets import factory
from alpha_pipeline.config import available
from alpha_pipeline.definitions import build_defs
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.paths import PROJECT, Workspace
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.base import Days

DAYS, WHOLE = "demo_days", None

# name -> (part of the product, partitions, what it reads)
GRAPH = {
    "mbp10_snapshots": ("market_data", DAYS, []),
    "trades": ("market_data", DAYS, ["mbp10_snapshots"]),
    "data_quality": ("market_data", DAYS, ["mbp10_snapshots", "trades"]),
    "fxcache": ("market_data", DAYS, ["data_quality", "mbp10_snapshots", "trades"]),
    "fill_model": ("training", WHOLE, ["fxcache"]),
    "random_baseline": ("training", WHOLE, ["fill_model", "fxcache"]),
    "perception_model": ("training", WHOLE, ["fxcache"]),
    "execution_policy": (
        "training",
        WHOLE,
        ["fill_model", "fxcache", "perception_model", "random_baseline"],
    ),
    "backtest_grid": (
        "evaluation",
        WHOLE,
        ["execution_policy", "fill_model", "fxcache", "perception_model", "random_baseline"],
    ),
    "walk_forward": ("evaluation", WHOLE, ["fxcache", "perception_model"]),
    "oos_gate": (
        "evaluation",
        WHOLE,
        [
            *("backtest_grid", "data_quality", "execution_policy", "fill_model", "fxcache"),
            *("perception_model", "random_baseline", "walk_forward"),
        ],
    ),
    "report": (
        "evaluation",
        WHOLE,
        [
            *("backtest_grid", "data_quality", "execution_policy", "fill_model", "oos_gate"),
            *("perception_model", "random_baseline", "walk_forward"),
        ],
    ),
}

# name -> {check: whether a failure stops what lies downstream}
CHECKS = {
    "trades": {"trades_schema": True},
    "data_quality": {
        "snapshots_schema": True,
        "day_of_records": True,
        "skipped_fraction": True,
        "repeated_fraction": True,
        "truncated_files": True,
        "rows_unaccounted": True,
        "good_rows": True,
        "trades": True,
        "crossed_fraction": True,
        "one_sided_fraction": True,
        "suspect_fraction": True,
        "rows_backward": True,
        "span_hours": True,
        "backward_fraction": False,
        "bad_timestamp_fraction": False,
        "duplicate_fraction": False,
        "sequence_gap_fraction": False,
        "off_tick_fraction": True,
        "records_without_book": True,
        "outside_touch_fraction": False,
        "zero_size_fraction": False,
        "session_coverage": False,
        "largest_gap_seconds": False,
        "utc_dates": False,
    },
    "fxcache": {"fxcache_schema": True},
    "fill_model": {
        "fill_model_fitted": True,
        "fill_calibration": False,
        "fill_dispersion": False,
        "fill_agreement": False,
    },
    "perception_model": {"auc_above_chance": True, "no_leak_suspected": False},
    "execution_policy": {
        "q_spread": False,
        "action_entropy": False,
        "return_vs_random": False,
        "early_q_movement": False,
    },
    "backtest_grid": {"grid_schema": True},
    "walk_forward": {"folds_schema": True},
    "oos_gate": {
        "usable_record": False,
        "perception_auc": False,
        "kill_criteria": False,
        "positive_mean": False,
        "look_budget": False,
        "robust_sign": False,
        "beats_rivals": False,
        "day_share": False,
        "clean_inputs": False,
    },
}


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return demo_definitions()


def demo_definitions() -> dg.Definitions:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build_defs(Workspace(PROJECT), ["demo"])


def nodes(definitions):
    graph = definitions.resolve_asset_graph()
    return {key.path[-1]: graph.get(key) for key in graph.get_all_asset_keys()}


def test_keys_edges_partitions_and_parts(definitions):
    found = {
        name: (
            node.tags["alpha/part"],
            node.partitions_def.name if node.partitions_def else None,
            sorted(parent.path[-1] for parent in node.parent_keys),
        )
        for name, node in nodes(definitions).items()
    }
    assert found == GRAPH


def test_every_key_and_group_is_the_instruments(definitions):
    for name, node in nodes(definitions).items():
        assert node.key.path == ["demo", name]
        assert node.group_name == "demo"


def test_checks_and_which_of_them_stop_what_follows(definitions):
    graph = definitions.resolve_asset_graph()
    found = {}
    for key in graph.asset_check_keys:
        found.setdefault(key.asset_key.path[-1], {})[key.name] = graph.get(key).blocking
    assert found == CHECKS


def test_checks_of_day_assets_are_partitioned_so_that_a_bad_day_stops_itself_alone(definitions):
    graph = definitions.resolve_asset_graph()
    for key in graph.asset_check_keys:
        partitions = graph.get(key).partitions_def
        assert (partitions.name if partitions else None) == GRAPH[key.asset_key.path[-1]][1]


def test_undivided_assets_read_all_days_of_divided_ones(definitions):
    """Without the mapping Dagster would look for a day called like the undivided asset's run."""
    graph = definitions.resolve_asset_graph()
    for stage in STAGES:
        key = dg.AssetKey(["demo", stage.name])
        for edge in stage.upstream:
            mapping = graph.get_partition_mapping(key, dg.AssetKey(["demo", edge.stage]))
            if edge.days in (Days.IN_SAMPLE, Days.OUT_OF_SAMPLE, Days.ALL):
                assert isinstance(mapping, dg.AllPartitionMapping)


def test_jobs_sensors_and_schedules(definitions):
    assert {job.name for job in definitions.jobs} == {"demo_days", "demo_research"}
    assert {sensor.name for sensor in definitions.sensors} == {"demo_new_files", "demo_stale_versions"}
    assert {schedule.name for schedule in definitions.schedules} == {"demo_nightly_retrain"}
    for job, per_day in (("demo_days", True), ("demo_research", False)):
        keys = definitions.resolve_job_def(job).asset_layer.executable_asset_keys
        assert {key.path[-1] for key in keys} == {s.name for s in STAGES if s.per_day is per_day}


def test_every_asset_says_what_it_is(definitions):
    graph = definitions.resolve_asset_graph()
    for stage in STAGES:
        node = graph.get(dg.AssetKey(["demo", stage.name]))
        assert node.description == stage.description
        assert node.kinds == set(stage.kinds)
        assert node.owners == ["team:research"]


def test_cache_format_is_the_code_version_of_the_cache_alone(definitions, monkeypatch):
    before = {name: node.code_version for name, node in nodes(definitions).items()}
    assert before["fxcache"].startswith(f"{layout.FXCACHE_VERSION}-")
    monkeypatch.setattr(layout, "FXCACHE_VERSION", layout.FXCACHE_VERSION + 1)
    after = {name: node.code_version for name, node in nodes(demo_definitions()).items()}
    assert {name for name in GRAPH if before[name] != after[name]} == {"fxcache"}


def test_all_shipped_instruments_load_side_by_side():
    """What `alpha ui` loads: one graph for each instrument, nothing shared but the resources."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keys = build_defs(Workspace(PROJECT)).resolve_asset_graph().get_all_asset_keys()
    names = available(Workspace(PROJECT))
    assert len(names) >= 5
    assert {tuple(key.path) for key in keys} == {(name, stage) for name in names for stage in GRAPH}


def test_asset_body_is_thin():
    path = Path(factory.__file__)
    bodies = [f for f in functions(ast.parse(path.read_text())) if is_asset(path, f)]
    assert [f.name for f in bodies] == ["body"]
    assert body_length(bodies[0]) <= ASSET_LINES
