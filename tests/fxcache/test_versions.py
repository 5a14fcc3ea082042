"""Old files open degraded, new ones are refused, and stamps tell what must be rebuilt."""

import json

import numpy as np
import pyarrow as pa
import pytest
from in_memory import encode_column, write

from alpha_core.errors import DataError, InputError
from alpha_core.shapes import HORIZONS
from alpha_pipeline.features.catalogue import CATALOGUE, FEATURE_NAMES
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.fxcache import (
    builder_digest,
    market_data,
    open_day,
    read_stamp,
    required_stamp,
    stale_reasons,
)
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache import stamp as stamps

NEW_IN_3 = {"book_aggression", "log1p_duration"}
FLOW_GROUPS = {"raw_ofi", "delta_ofi"}
MID2 = np.array([201, 203, 202, 205], np.int32)
LAST = [100, None, 101, 102]


def names_of(version):
    return tuple(
        f.name for f in CATALOGUE if f.name not in NEW_IN_3 and (version > 1 or f.group not in FLOW_GROUPS)
    )


def write_old(path, version):
    """A file as versions 1 and 2 wrote it: four rows, two segments of two."""
    names = names_of(version)
    values = np.arange(4 * len(names), dtype=np.float32).reshape(4, -1)
    columns = {
        "ts": pa.array([10, 15, 30, 37], pa.int64()).view(layout.TIMESTAMP),
        "segment": pa.array([0, 0, 1, 1], pa.int32()),
        "event_index": pa.array(range(4), pa.int64()),
        "features": encode_column(values, pa.list_(pa.float32(), len(names))),
        "mid2": pa.array(MID2),
        "last_trade": pa.array(LAST, pa.int32()),
        **{f"label_{h}": pa.array([1, None, 2, None], pa.int32()) for h in HORIZONS},
    }
    bare = pa.record_batch(columns)
    header = layout.Header(
        day="2019-03-01",
        instrument="old",
        status="ok",
        rows=4,
        feature_names=names,
        source_digests={"a": "b"},
        builder_digest="then",
        checksums=layout.checksums(bare),
    )
    batch = bare.replace_schema_metadata(header.encode(version))
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write_batch(batch)
    return path


@pytest.mark.parametrize("version", [1, 2])
def test_old_versions_open_degraded(tmp_path, version):
    day = open_day(write_old(tmp_path / "old.fxcache", version), "full")
    assert day.degraded and day.info.version == version
    assert any("raw_open and mid_open are the previous close" in note for note in day.info.degraded)
    assert day.mid_open.tolist() == [201, 201, 202, 202]
    opens, present = day.raw_open
    assert [int(v) if ok else None for v, ok in zip(opens, present, strict=True)] == [None, 100, None, 101]
    assert day.duration_ns.tolist() == [0, 5, 0, 7]
    assert day.label_valid[:, 0].tolist() == [True, False, True, False]
    assert day.feature_names == FEATURE_NAMES


@pytest.mark.parametrize(("version", "lacking"), [(1, 18), (2, 2)])
def test_features_that_an_old_version_lacks_are_zeros(tmp_path, version, lacking):
    day = open_day(write_old(tmp_path / "old.fxcache", version))
    old = names_of(version)
    for column, name in enumerate(FEATURE_NAMES):
        want = np.arange(4) * len(old) + old.index(name) if name in old else np.zeros(4)
        np.testing.assert_array_equal(day.features[:, column], want, err_msg=name)
    assert len(FEATURE_NAMES) - len(old) == lacking
    assert any("order-flow features are zeros" in note for note in day.info.degraded) == (version == 1)


BARS = ("high", "low", "volume", "notional", "trades", "signed_volume")


def test_version_3_opens_degraded_and_refuses_only_what_it_lacks(cached, tmp_path):
    with pa.OSFile(str(cached)) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    header = layout.Header.decode(batch.schema.metadata)
    bare = batch.drop_columns(list(BARS))
    kept = {k: v for k, v in header.checksums.items() if k.split(".")[0] not in BARS}
    old = layout.Header(**{**vars(header), "checksums": kept})
    path = write(tmp_path / "old.fxcache", bare.replace_schema_metadata(old.encode(3)))
    day, now = open_day(path, "full"), open_day(cached)
    assert day.degraded and "high, low, volume" in day.info.degraded[0]
    np.testing.assert_array_equal(day.features, now.features)
    np.testing.assert_array_equal(day.raw_open[1], now.raw_open[1])
    market_data([day])
    for name in BARS:
        with pytest.raises(DataError, match=f"version 3, which has no {name}; rebuild the day"):
            getattr(day, name)


def test_the_market_cannot_replay_an_old_version(tmp_path):
    day = open_day(write_old(tmp_path / "old.fxcache", 2))
    with pytest.raises(DataError, match="version 2, which has no book"):
        market_data([day])


def test_a_newer_version_is_refused_with_the_remedy(cached):
    with pa.OSFile(str(cached)) as file:
        batch = pa.ipc.open_file(file).get_batch(0)
    newer = batch.replace_schema_metadata(batch.schema.metadata | {b"version": b"5"})
    with pa.ipc.new_file(cached, newer.schema) as writer:
        writer.write_batch(newer)
    with pytest.raises(
        InputError, match=r"is fxcache version 5, this code reads up to 4; upgrade alpha-pipeline"
    ):
        open_day(cached)
    with pytest.raises(InputError, match="upgrade"):
        read_stamp(cached)


def test_stamp_of_a_built_day_is_the_required_one(cached):
    required = required_stamp(FeatureConfig(warmup_rows=20), {"day.dbn.zst": "00ff"})
    assert read_stamp(cached) == required == open_day(cached).stamp
    assert json.loads(json.dumps(required)) == required
    assert stale_reasons(cached, required) == []


def test_stale_cache_is_judged_by_content_not_time(cached):
    """A source of other bytes asks for a rebuild, whatever its time; a touched one does not."""
    changed = required_stamp(FeatureConfig(warmup_rows=20), {"day.dbn.zst": "00fe"})
    assert stale_reasons(cached, changed) == [
        "source_digests is {'day.dbn.zst': '00ff'}, must be {'day.dbn.zst': '00fe'}"
    ]
    cached.touch()
    assert not stale_reasons(cached, required_stamp(FeatureConfig(warmup_rows=20), {"day.dbn.zst": "00ff"}))


def test_every_difference_is_listed(cached, monkeypatch):
    monkeypatch.setattr(layout, "FXCACHE_VERSION", 5)
    reasons = stale_reasons(cached, required_stamp(FeatureConfig(sampler=SamplerConfig(n=5)), {}))
    assert [r.split(" is ")[0] for r in reasons] == ["format_version", "builder_digest", "source_digests"]


def test_absent_and_damaged_files_are_stale_and_a_rebuild_heals_them(build, cached):
    required = required_stamp(FeatureConfig(warmup_rows=20), {"day.dbn.zst": "00ff"})
    missing = cached.with_name("2024-07-24.fxcache")
    assert read_stamp(missing) is None
    assert stale_reasons(missing, required) == [f"{missing} does not exist"]
    cached.write_bytes(cached.read_bytes()[:-20])
    assert "is not a readable fxcache file" in stale_reasons(cached, required)[0]
    with pytest.raises(InputError):
        read_stamp(cached)
    build(cached)
    assert stale_reasons(cached, required) == [] and open_day(cached, "full").rows


def test_builder_digest_follows_configuration():
    digests = [
        builder_digest(config)
        for config in (
            FeatureConfig(),
            FeatureConfig(warmup_rows=99),
            FeatureConfig(sampler=SamplerConfig(kind="time")),
            FeatureConfig(sampler=SamplerConfig(n=2)),
        )
    ]
    assert len(set(digests)) == 4
    assert builder_digest(FeatureConfig()) == digests[0]


def test_builder_digest_follows_code_but_not_comments():
    code = '"""Doc."""\nX = 1  # one\n\n\ndef f(a: int) -> int:\n    """Adds."""\n    return a + X\n'
    same = 'X = 1\n"""About X."""\ndef f(a: int) -> int:\n    return (a +\n            X)  # sum\n'
    assert stamps.code_digest({"m.py": code}) == stamps.code_digest({"m.py": same})
    for other in (
        code.replace("a + X", "a - X"),
        code.replace("X = 1", "X = 2"),
        code.replace("int:", "float:"),
    ):
        assert stamps.code_digest({"m.py": other}) != stamps.code_digest({"m.py": code})
    assert stamps.code_digest({"n.py": code}) != stamps.code_digest({"m.py": code})


def test_builder_digest_covers_every_feature_module():
    folder = stamps.PACKAGE / "features"
    modules = {f.function.__module__.rsplit(".", 1)[1] for f in CATALOGUE}
    assert modules <= {p.stem for p in folder.glob("*.py")}
    assert all((stamps.PACKAGE / name).is_file() for name in stamps.BUILDER_FILES)
