"""Files of several days: one file per UTC day, every record where its receive time says, all files or none."""

from datetime import date

import databento
import databento_dbn as dbn
import numpy as np
import pytest
from dbn_builder import T0, Interval, Mapping, Msg, Order, frames, header, write

from alpha_core.errors import InputError
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.ingest.folder import LocalFolder
from alpha_pipeline.ingest.source import discover
from alpha_pipeline.ingest.split import split
from alpha_pipeline.instrument import InstrumentSpec

DAY_NS = 86_400 * 10**9
MIDNIGHT = T0 // DAY_NS * DAY_NS
SPEC = InstrumentSpec(name="test", symbols=("TEST",), tick_size="0.25", calendar="24/7")
NAME = "glbx-mdp3-20240306-20240308.mbp-10.dbn.zst"
DAYS = ["20240306", "20240307", "20240308"]
MAPPINGS = [Mapping("TEST", [Interval(date(2024, 3, 6), date(2024, 3, 9), "1")])]


def market(per_day=40):
    """Records just after and just before each midnight."""
    return [
        Msg(
            ts=MIDNIGHT + k * DAY_NS + (n if n < per_day // 2 else DAY_NS - per_day + n),
            sequence=per_day * k + n,
        )
        for k in range(3)
        for n in range(per_day)
    ]


def range_file(folder, records, name=NAME, **changes):
    return write(folder / name, records, head=header(mappings=MAPPINGS, **changes))


def stored(path):
    return databento.DBNStore.from_file(path).to_ndarray()


def test_each_day_has_its_records_bit_for_bit_and_the_official_header(tmp_path):
    whole = range_file(tmp_path, market())
    written = split(whole, tmp_path / "days")
    assert [path.name for path in written] == [f"glbx-mdp3-{day}.mbp-10.dbn.zst" for day in DAYS]
    assert list(written.values()) == [40, 40, 40]
    original = stored(whole)
    assert np.concatenate([stored(path) for path in written]).tobytes() == original.tobytes()
    for k, path in enumerate(written):
        metadata = databento.DBNStore.from_file(path).metadata
        assert (metadata.start, metadata.end) == (MIDNIGHT + k * DAY_NS, MIDNIGHT + (k + 1) * DAY_NS)
        assert metadata.mappings == databento.DBNStore.from_file(whole).metadata.mappings
        assert (metadata.dataset, metadata.version) == ("GLBX.MDP3", 3)


def test_split_days_are_found_and_ingested_where_the_whole_file_is_refused(tmp_path):
    whole = range_file(tmp_path / "whole", market())
    with pytest.raises(InputError, match="must hold one UTC day: split it with `alpha split`"):
        discover(LocalFolder(tmp_path / "whole"), SPEC)
    split(whole, tmp_path / "days")
    found = discover(LocalFolder(tmp_path / "days"), SPEC)
    assert list(found) == ["2024-03-06", "2024-03-07", "2024-03-08"]
    assert ingest_day(found["2024-03-07"], SPEC, tmp_path / "out").snapshots == 40


def test_orders_are_split_too(tmp_path):
    orders = [Order(ts=MIDNIGHT + k * DAY_NS // 2, id=k + 1, price=10**12, size=1) for k in range(4)]
    whole = range_file(tmp_path, orders, "es-20240306-20240307.mbo.dbn.zst", schema=dbn.Schema.MBO)
    assert list(split(whole, tmp_path / "days").values()) == [2, 2]


def test_record_behind_midnight_of_receive_time_that_comes_late_goes_to_its_own_day(tmp_path):
    records = market()
    records[39], records[40] = records[40], records[39]
    written = split(range_file(tmp_path, records), tmp_path / "days")
    assert list(written.values()) == [40, 40, 40]
    assert stored(next(iter(written)))["sequence"].tolist() == list(range(40))


def test_record_without_receive_time_goes_with_the_one_before_it(tmp_path):
    records = market()
    records[50] = Msg(ts=2**64 - 1, ts_event=T0, sequence=50)
    written = split(range_file(tmp_path, records), tmp_path / "days")
    assert list(written.values()) == [40, 40, 40]
    with pytest.raises(InputError, match="begins with a record without a receive time"):
        split(range_file(tmp_path, records[50:], "x-20240306.dbn.zst"), tmp_path / "other")


def test_nothing_is_written_of_a_file_that_is_cut_or_foreign(tmp_path):
    def refused(path, reason):
        with pytest.raises(InputError, match=reason):
            split(path, tmp_path / "days")
        assert not list((tmp_path / "days").iterdir())

    body = header(mappings=MAPPINGS) + b"".join(bytes(record) for record in market())
    cut = tmp_path / "cut-20240306-20240308.mbp-10.dbn.zst"
    cut.write_bytes(frames(body[:20_000], body[20_000:])[:-40])
    refused(cut, "ends inside a record or a compressed frame")
    tiny = tmp_path / "tiny-20240306.mbp-10.dbn.zst"
    tiny.write_bytes(
        frames(header(mappings=MAPPINGS))[:-60]
    )  # so small that no block of its only frame is whole
    refused(tiny, "no readable DBN header: it is cut inside its first compressed frame")
    (tmp_path / "part-20240306.dbn.zst").write_bytes(frames(body[:-10]))
    refused(tmp_path / "part-20240306.dbn.zst", "ends inside a record")
    refused(write(tmp_path / "nodate.dbn.zst", market()), "has no date in its name")
    refused(
        range_file(tmp_path, [], "t-20240306.dbn.zst", schema=dbn.Schema.TRADES), "must hold MBP-10 or MBO"
    )


def test_days_that_are_there_already_are_not_touched(tmp_path):
    whole = range_file(tmp_path, market())
    first = tmp_path / "days" / f"glbx-mdp3-{DAYS[1]}.mbp-10.dbn.zst"
    first.parent.mkdir()
    first.write_bytes(b"mine")
    with pytest.raises(InputError, match="is there already: remove it or name another folder"):
        split(whole, tmp_path / "days")
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    assert first.read_bytes() == b"mine"
