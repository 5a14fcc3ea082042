"""What `alpha cache` says and does: listing, verification, healing, collection."""

import json
import os
import time

import pytest
import tiny_market
from tiny_market import NAME, day

from alpha_core.errors import ConfigError
from alpha_pipeline import wholeness
from alpha_pipeline.cached_days import collect_garbage, describe_cached, list_cached, verify_cached
from alpha_pipeline.fxcache import format as layout
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.plan import stale_day
from alpha_pipeline.stages import STAGES
from alpha_pipeline.stages.fxcache import FILE

FIRST, SECOND, THIRD = (day(index) for index in range(3))


def cache_file(scope, key):
    return scope.store.get("fxcache", key).path / FILE


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def stale_caches(scope):
    return [entry.partition for key in sorted(scope.raw_files) for entry in stale_day(STAGES, scope, key)]


def test_listing_tells_size_version_and_what_is_stale(market, monkeypatch):
    scope = tiny_market.scope(market)
    lines = list_cached(scope)
    assert [line.day for line in lines] == [FIRST, SECOND, THIRD]
    assert all(
        (line.status, line.rows, line.stale, line.sampler) == ("ok", 1500, [], "every_event")
        for line in lines
    )
    assert [line.bytes for line in lines] == [cache_file(scope, line.day).stat().st_size for line in lines]
    monkeypatch.setattr(layout, "FXCACHE_VERSION", layout.FXCACHE_VERSION + 1)
    newer = list_cached(tiny_market.scope(market))
    assert all("code version" in line.stale[0] and line.degraded for line in newer)


def test_day_whose_raw_file_is_gone_is_listed_and_says_so(market):
    tiny_market.file_of(market.raw(NAME), 1).unlink()
    lines = {line.day: line for line in list_cached(tiny_market.scope(market))}
    assert lines[SECOND].stale == ["its raw files are gone"]
    assert describe_cached(tiny_market.scope(market), SECOND)["required_stamp"] is None


def test_flipped_byte_is_found_by_a_full_look_and_healed_by_a_rebuild(market):
    scope = tiny_market.scope(market)
    path = cache_file(scope, SECOND)
    whole = path.read_bytes()
    flip(path, len(whole) // 2)
    # A disk that rots leaves no trace in the file's times.
    wholeness.remember(path.parent)
    assert [v.problem for v in verify_cached(scope)] == [None] * 3, "a quick look reads no data"
    assert stale_caches(scope) == []
    found = {v.day: v.problem for v in verify_cached(scope, full=True)}
    assert "the checksums of" in found[SECOND]
    assert (found[FIRST], found[THIRD]) == (None, None)
    assert stale_caches(tiny_market.scope(market)) == [SECOND], "a full look leaves a mark"
    tiny_market.build_day(market, SECOND, ["fxcache"])
    healed = tiny_market.scope(market)
    assert cache_file(healed, SECOND).read_bytes() == whole
    assert [v.problem for v in verify_cached(healed, full=True)] == [None] * 3


@pytest.mark.parametrize("damage", ["cut", "empty", "header", "gone"])
def test_damage_that_a_quick_look_sees_makes_the_day_stale_by_itself(market, damage):
    scope = tiny_market.scope(market)
    path = cache_file(scope, FIRST)
    if damage == "gone":
        path.unlink()
    elif damage == "header":
        flip(path, path.read_bytes().rindex(b'"instrument"') + 3)
    else:
        os.truncate(path, path.stat().st_size // 2 if damage == "cut" else 0)
    assert stale_caches(tiny_market.scope(market)) == [FIRST]
    (line, *_) = list_cached(tiny_market.scope(market))
    assert (line.day, line.status, line.version) == (FIRST, "damaged", None)
    assert [bool(v.problem) for v in verify_cached(tiny_market.scope(market))] == [True, False, False]
    tiny_market.build_day(market, FIRST, ["fxcache"])
    assert stale_caches(tiny_market.scope(market)) == []
    open_day(cache_file(tiny_market.scope(market), FIRST), verify="full")


def test_everything_about_a_day_is_plain_json(market):
    facts = describe_cached(tiny_market.scope(market), SECOND)
    assert json.loads(json.dumps(facts))["day"] == SECOND
    assert facts["stored_stamp"] == facts["required_stamp"]
    assert (facts["quality"], facts["stale"], facts["version"]) == ("ok", [], layout.FXCACHE_VERSION)


@pytest.mark.parametrize("key", ["2031-01-01", "../../etc", ""])
def test_symbol_in_path_a_day_that_is_not_there_is_named(market, key):
    with pytest.raises(ConfigError, match=r"must be in the cache of tiny: its 3 days run from 2024-01-02 to"):
        describe_cached(tiny_market.scope(market), key)


def test_collection_takes_old_leftovers_and_nothing_in_force(market):
    scope = tiny_market.scope(market)
    folder = scope.store.root / "fxcache" / FIRST
    old, young = folder / "attempt-killed", folder / "attempt-running"
    for made in (old, young):
        made.mkdir()
        (made / FILE).write_bytes(b"x" * 1000)
    before = time.time() - 7200
    for path in (old, old / FILE, scope.store.get("fxcache", FIRST).path):
        os.utime(path, (before, before))
    assert [(g.path, g.bytes) for g in collect_garbage(scope, dry_run=True)] == [(old, 1000)]
    assert old.exists()
    collect_garbage(scope)
    assert not old.exists() and young.exists()
    assert [v.problem for v in verify_cached(tiny_market.scope(market), full=True)] == [None] * 3


def test_collection_spares_a_folder_that_is_still_written_to(market):
    scope = tiny_market.scope(market)
    busy = scope.store.root / "fxcache" / FIRST / "attempt-busy"
    busy.mkdir()
    (busy / FILE).write_bytes(b"now")
    os.utime(busy, (0, 0))
    assert collect_garbage(scope) == []
