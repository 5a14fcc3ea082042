"""Files of one day that tell the same records: an unpacked copy, a part beside the whole, downloads that overlap."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from dbn_builder import T0, Msg, header, write
from ingested_day import facts, load

from alpha_core.errors import InputError
from alpha_pipeline.ingest import IngestConfig, QualityThresholds, ingest_day
from alpha_pipeline.ingest.quality import assess_day
from alpha_pipeline.ingest.records import MBP10_DTYPE
from alpha_pipeline.ingest.repeats import Repeats

SMALL = IngestConfig(chunk_records=16)
LOOSE = QualityThresholds(min_rows=1, min_trades=0)


def good(first: int, count: int) -> list[Msg]:
    return [Msg(ts=T0 + k, sequence=k) for k in range(first, first + count)]


@pytest.mark.parametrize("records", [good(0, 40), [Msg(sequence=k) for k in range(3)], [Msg()]])
def test_an_unpacked_copy_beside_its_file_is_refused_by_name(tmp_path, spec, records):
    """Other bytes, the same records; also where all have one time, so that nothing needs to be sorted."""
    packed = write(tmp_path / "TEST-2024-03-06.mbp-10.dbn.zst", records)
    plain = write(tmp_path / "TEST-2024-03-06.mbp-10.dbn", records, plain=True)
    told = (
        rf"{packed} repeats {len(records)} records, all that it has of the instrument, which {plain} holds as"
    )
    with pytest.raises(InputError, match=told):
        ingest_day([plain, packed], spec, tmp_path / "day", config=SMALL)
    assert not (tmp_path / "day").exists()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_part_beside_the_whole_is_refused_whichever_comes_first(tmp_path, spec, order):
    whole = write(tmp_path / "a.dbn.zst", good(0, 100))
    part = write(tmp_path / "b.dbn.zst", good(60, 30), head=header({"OTHER": 2, "TEST": 1}))
    files = [(whole, part)[k] for k in order]
    with pytest.raises(
        InputError, match=rf"{part} repeats 30 records, .* which {whole} holds as well: remove it"
    ):
        ingest_day(files, spec, tmp_path / "day", config=SMALL)


def test_files_that_overlap_reject_the_day_and_files_that_touch_do_not(tmp_path, spec):
    first = write(tmp_path / "a.dbn.zst", good(0, 60))
    overlapping = write(tmp_path / "b.dbn.zst", good(50, 50))
    touching = write(tmp_path / "c.dbn.zst", [Msg(ts=T0 + 59, sequence=60), *good(60, 40)])
    report = ingest_day([first, overlapping], spec, tmp_path / "day", config=SMALL)
    quality = assess_day(facts(load(tmp_path / "day", report)), LOOSE)
    (failed,) = [check for check in quality.checks if not check.passed]
    assert (report.repeats, quality.status) == (10, "rejected")
    assert (failed.name, failed.figure) == ("repeated_fraction", pytest.approx(10 / 110))
    assert "(10 records of a.dbn.zst, b.dbn.zst)" in failed.description
    assert ingest_day([first, touching], spec, tmp_path / "day", config=SMALL).repeats == 0


def test_what_one_file_tells_twice_is_no_repeat_of_another(tmp_path, spec):
    """A depth log's trades of one moment, size and price are trades of their own."""
    first = write(tmp_path / "a.dbn.zst", [*good(5, 5), *good(0, 5), *good(0, 5)])
    second = write(tmp_path / "b.dbn.zst", good(20, 5))
    report = ingest_day([first, second], spec, tmp_path / "day", config=SMALL)
    assert (report.reordered, report.repeats) == (True, 0)


@pytest.mark.parametrize("seed", range(20))
def test_repeats_are_those_of_a_plain_count_of_contents(seed):
    rng = np.random.default_rng(seed)
    files = [rng.integers(0, 12, int(rng.integers(0, 40))) for _ in range(int(rng.integers(2, 5)))]
    records = np.zeros(sum(map(len, files)), MBP10_DTYPE)
    records["sequence"] = np.concatenate(files)
    records["ts_recv"] = records["sequence"] // 3
    order = np.argsort(records["ts_recv"], kind="stable")
    repeats = Repeats(len(files), np.cumsum([0, *map(len, files[:-1])]).tolist())
    for places in np.array_split(order, int(rng.integers(1, 9))):
        if len(places):
            repeats.see(records[places], places)
    repeats.finish()
    told = [Counter(content.tolist()) for content in files]
    expected = 0
    for content in range(12):
        holders = [count[content] for count in told if count[content]]
        expected += sum(min(holders[0], copies) for copies in holders[1:])
    assert repeats.count == expected
    assert (expected > 0) == any(a.keys() & b.keys() for a, b in combinations(told, 2))
