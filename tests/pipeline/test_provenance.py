"""Stamps are compared once, and every difference is named."""

import os

from alpha_pipeline.provenance import Stamp, differences, digest_file, digest_json, digest_tree

STORED = Stamp(code="1", config="a", inputs={"x": "1", "y": "1", "gone": "1"})


def test_all_differences_are_listed():
    required = Stamp(code="2", config="b", inputs={"x": "1", "y": "2", "new": "1"})
    assert differences(STORED, required) == [
        "code version 1 is now 2",
        "its configuration changed",
        "input gone is gone",
        "input new is new",
        "input y changed",
    ]


def test_equal_stamps_have_no_difference_and_a_missing_one_was_never_built():
    assert differences(STORED, STORED) == []
    assert differences(None, STORED) == ["never built"]


def test_digest_ignores_key_order_but_not_values():
    assert digest_json({"a": 1, "b": (1, 2)}) == digest_json({"b": [1, 2], "a": 1})
    assert digest_json({"a": 1}) != digest_json({"a": 2})


def test_stale_cache_fault_same_size_and_time_but_other_bytes(tmp_path):
    raw = tmp_path / "day.dbn.zst"
    raw.write_bytes(b"AAAA")
    before, stat = digest_file(raw), raw.stat()
    raw.write_bytes(b"BBBB")
    os.utime(raw, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digest_file(raw) != before


def test_stale_cache_fault_touched_but_unchanged(tmp_path):
    raw = tmp_path / "day.dbn.zst"
    raw.write_bytes(b"AAAA")
    before = digest_file(raw)
    os.utime(raw, ns=(0, 0))
    assert digest_file(raw) == before


def test_tree_digest_depends_on_names_and_bytes(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("1")
    before = digest_tree(tmp_path)
    (tmp_path / "a" / "one").rename(tmp_path / "a" / "two")
    assert digest_tree(tmp_path) != before
