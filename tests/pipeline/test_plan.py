"""What must be rebuilt follows from stamps: neither more nor less than what changed and what reads it."""

import os
import re
import shutil

import numpy as np
import pytest
import tiny_market
from tiny_market import CONFIG, DAY_STAGES, WHOLE_STAGES, day

from alpha_pipeline.artifacts import ArtifactStore
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.plan import stale_day, stale_whole, standing
from alpha_pipeline.run import standings_of
from alpha_pipeline.stages import STAGES, mbp10_snapshots
from alpha_pipeline.stages.base import Days, Scope, execute

FITTED = ["random_baseline", "perception_model", "execution_policy", "backtest_grid", "walk_forward"]


def stale(workspace):
    """Stage names by partition, of everything that is stale."""
    found = {}
    for entry in standings_of(tiny_market.NAME, workspace, raw=None).stale:
        found.setdefault(entry.partition, []).append(entry.stage)
    return found


def reasons(workspace, stage, partition):
    entries = standings_of(tiny_market.NAME, workspace, raw=None).stale
    return next(list(e.reasons) for e in entries if (e.stage, e.partition) == (stage, partition))


def spoil_bytes(path):
    """Other content of the same length, with the same times."""
    times, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)


def reject(workspace, key):
    """Make the day's quality checks fail, by asking for more rows than there are."""
    tiny_market.configure(workspace, CONFIG + "\n[quality]\nmin_rows = 100000\n")
    tiny_market.build_day(workspace, key, ["data_quality"])
    tiny_market.configure(workspace, CONFIG)


def test_before_the_first_build_everything_is_stale(tmp_path):
    workspace = tiny_market.make_workspace(tmp_path, days=2)
    assert stale(workspace) == {day(0): DAY_STAGES, day(1): DAY_STAGES, "all": WHOLE_STAGES}
    assert reasons(workspace, "mbp10_snapshots", day(0)) == ["never built"]
    assert reasons(workspace, "fxcache", day(0)) == ["mbp10_snapshots is rebuilt", "trades is rebuilt"]
    assert reasons(workspace, "fill_model", "all") == [
        "tiny has 0 usable days, must be more than walk_forward.oos_days = 1: "
        "add raw files or hold out fewer days"
    ]


def test_what_was_built_is_up_to_date(built_market):
    assert stale(built_market) == {}


def test_newer_cache_format_marks_caches_and_once_rebuilt_their_readers(market, monkeypatch):
    monkeypatch.setattr(layout, "FXCACHE_VERSION", layout.FXCACHE_VERSION + 1)
    assert stale(market) == {day(index): ["fxcache"] for index in range(3)}
    (reason,) = reasons(market, "fxcache", day(0))
    assert re.fullmatch(r"code version 4-\w{12} is now \S+", reason)
    for index in range(3):
        tiny_market.build_day(market, day(index), ["fxcache"])
    assert stale(market) == {"all": WHOLE_STAGES}


@pytest.mark.parametrize(
    ("config", "days", "whole"),
    [
        (CONFIG.replace("n = 2", "n = 3"), ["fxcache"], []),
        (CONFIG + "\n[ingest]\nchunk_records = 1000\n", DAY_STAGES, []),
        (CONFIG + "\n[quality]\nmin_rows = 10\n", ["data_quality"], []),
        (
            CONFIG.replace("max_exposures = 4000", "max_exposures = 5000"),
            [],
            [s for s in WHOLE_STAGES if s != "perception_model"],
        ),
        (
            CONFIG.replace("[perception]", "[perception]\nweight_decay = 0.5"),
            [],
            [s for s in WHOLE_STAGES if s not in ("fill_model", "random_baseline")],
        ),
        (
            CONFIG.replace("[policy]", "[policy]\nn_step = 7"),
            [],
            ["execution_policy", "backtest_grid", "walk_forward", "oos_gate", "report"],
        ),
        (
            CONFIG.replace("[grid]", "[grid]\nconfidence = 0.9"),
            [],
            [s for s in WHOLE_STAGES if s not in ("fill_model", "perception_model")],
        ),
        (
            CONFIG.replace("[gate]", "[gate]\nalpha = 0.02"),
            [],
            [s for s in WHOLE_STAGES if s not in ("fill_model", "perception_model")],
        ),
        ("seed = 8\n" + CONFIG, [], [*FITTED, "oos_gate", "report"]),
        ("threads = 2\n" + CONFIG, [], [*FITTED, "oos_gate", "report"]),
        ('device = "cuda"\n' + CONFIG, [], [*FITTED, "oos_gate", "report"]),
    ],
    ids=[
        *("sampler", "ingest", "quality", "fills", "perception", "policy", "grid", "gate", "seed"),
        *("threads", "device"),
    ],
)
def test_changed_setting_marks_what_reads_it_and_what_follows(market, config, days, whole):
    tiny_market.configure(market, config)
    wanted = {day(index): days for index in range(3)} if days else {}
    assert stale(market) == wanted | ({"all": whole} if whole else {})


def test_other_bytes_of_the_same_size_and_time_mark_their_day_alone(market):
    spoil_bytes(tiny_market.file_of(market.raw(tiny_market.NAME), 1))
    assert stale(market) == {day(1): DAY_STAGES}
    assert reasons(market, "mbp10_snapshots", day(1)) == ["input raw/0 changed"]


def test_touched_renamed_or_moved_file_marks_nothing(market):
    path = tiny_market.file_of(market.raw(tiny_market.NAME), 1)
    os.utime(path, ns=(0, 0))
    (path.parent / "sub").mkdir()
    path.rename(path.parent / "sub" / path.name.replace(".mbp-10", ""))
    assert stale(market) == {}


def test_second_file_of_a_day_marks_it(market):
    folder = market.raw(tiny_market.NAME)
    (folder / f"TINY-{day(1)}.late.mbp-10.dbn.zst").write_bytes(b"late")
    assert reasons(market, "mbp10_snapshots", day(1))[0].startswith("input raw/")
    assert list(stale(market)) == [day(1)]


def test_rejected_day_is_blocked_and_not_stale(market):
    reject(market, day(1))
    (market.store(tiny_market.NAME) / "fxcache" / day(1) / "current.json").unlink()
    tiny_market.configure(market, CONFIG + "\n[quality]\nmin_rows = 100000\n")
    scope = tiny_market.scope(market)
    assert stale_day(STAGES, scope, day(1)) == []
    now = standing(STAGES[:4], scope, day(1), ())
    assert now.fresh == ["mbp10_snapshots", "trades", "data_quality"]
    assert now.rejection == (
        "rejected by data_quality: snapshots with a good book: 3000, must be at least 100000; "
        "mend the input or the thresholds"
    )


def test_mended_threshold_lifts_a_rejection(market):
    reject(market, day(1))
    (market.store(tiny_market.NAME) / "fxcache" / day(1) / "current.json").unlink()
    assert stale(market) == {day(1): ["data_quality", "fxcache"], "all": WHOLE_STAGES}
    tiny_market.build_day(market, day(1), ["data_quality", "fxcache"])
    assert stale(market) == {}


def test_cache_made_before_its_day_was_rejected_is_not_used(market):
    reject(market, day(1))
    scope = tiny_market.scope(market)
    assert scope.store.get("fxcache", day(1)).status == "ok"
    assert scope.usable_days() == [day(0), day(2)]
    fill_model = next(entry for entry in stale_whole(STAGES, scope) if entry.stage == "fill_model")
    assert fill_model.reasons == [f"input fxcache/{day(1)} is gone"]


def test_day_whose_raw_file_is_gone_leaves_the_sample(market):
    tiny_market.file_of(market.raw(tiny_market.NAME), 0).unlink()
    assert tiny_market.scope(market).days(Days.ALL) == [day(1), day(2)]
    assert "all" in stale(market)


def test_rebuild_that_gives_the_same_content_leaves_what_follows_fresh(market, monkeypatch):
    """Newer ingestion code that gives the same tables gives the same cache, so no model is fitted again."""
    monkeypatch.setattr(mbp10_snapshots, "VERSION", "2")
    assert stale(market) == {day(index): DAY_STAGES for index in range(3)}
    before = tiny_market.scope(market).store.get("fxcache", day(1))
    for index in range(3):
        tiny_market.build_day(market, day(index))
    after = tiny_market.scope(market).store.get("fxcache", day(1))
    assert after.path != before.path
    assert after.digest == before.digest
    assert stale(market) == {}


def test_artifact_does_not_depend_on_where_its_raw_file_lies(market, built_market):
    """Two clones of a workspace agree on every digest, wherever they are."""
    folder = market.raw(tiny_market.NAME)
    folder.rename(folder.with_name("elsewhere"))
    moved = Scope(
        config=tiny_market.scope(built_market).config,
        store=ArtifactStore(market.root / "store"),
        raw=LocalFolder(folder.with_name("elsewhere")),
        report=lambda _: None,
    )
    for stage in STAGES[:4]:
        digest = execute(stage, moved, day(0), {})[1].digest
        assert digest == tiny_market.scope(built_market).store.get(stage.name, day(0)).digest, stage.name


def test_rebuild_that_gives_other_content_marks_what_reads_it(market):
    path = market.store(tiny_market.NAME) / "perception_model" / "all"
    assert stale(market) == {}
    scope = tiny_market.scope(market)
    with scope.store.attempt("perception_model") as out:
        (out / "other.txt").write_text("other weights")
        scope.store.publish(out, stamp=scope.store.get("perception_model").stamp)
    assert path.is_dir()
    assert stale(market) == {"all": ["execution_policy", "backtest_grid", "oos_gate", "report"]}
    assert reasons(market, "execution_policy", "all") == ["input perception_model/all changed"]


def test_rejected_undivided_stage_is_never_fresh(market):
    """A fit that its own checks refused is tried again rather than taken for done."""
    tiny_market.publish_whole(market, ["fill_model"], passed=False)
    scope = tiny_market.scope(market)
    assert scope.store.get("fill_model").status == "rejected"
    assert reasons(market, "fill_model", "all") == ["its own checks rejected it"]
    assert stale(market)["all"] == [s for s in WHOLE_STAGES if s not in ("perception_model", "walk_forward")]


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"attempt": "../../x"}', "\xff"])
def test_damaged_pointer_is_told_and_costs_its_own_day_alone(market, content):
    """Nobody is stopped by it: its day is stale, the others stand, and building the day heals it."""
    pointer = market.store(tiny_market.NAME) / "fxcache" / day(1) / "current.json"
    pointer.write_text(content)
    (entry,) = [e for e in standings_of(tiny_market.NAME, market, raw=None).stale if e.partition != "all"]
    assert (entry.stage, entry.partition) == ("fxcache", day(1))
    assert "current.json is not readable" in entry.reasons[0]
    assert tiny_market.scope(market).usable_days() == [day(0), day(2)]
    tiny_market.build_day(market, day(1), ["fxcache"])
    assert tiny_market.scope(market).usable_days() == [day(0), day(1), day(2)]
    assert stale(market) == {}


def test_attempt_that_is_gone_is_told_and_built_again(market):
    shutil.rmtree(tiny_market.scope(market).store.get("fxcache", day(1)).path)
    (entry,) = [e for e in standings_of(tiny_market.NAME, market, raw=None).stale if e.partition != "all"]
    assert "which is gone: build fxcache again" in entry.reasons[0]
    tiny_market.build_day(market, day(1), ["fxcache"])
    assert stale(market) == {}


def test_sample_is_split_by_days_oldest_first(built_market):
    scope = tiny_market.scope(built_market)
    assert scope.days(Days.IN_SAMPLE) == [day(0), day(1)]
    assert scope.days(Days.OUT_OF_SAMPLE) == [day(2)]
    assert np.unique(scope.days(Days.ALL)).tolist() == scope.usable_days()
