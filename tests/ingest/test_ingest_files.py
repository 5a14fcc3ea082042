"""What is inside a file: containers, versions, other record types, and inputs that are no such file."""

import itertools

import databento_dbn as dbn
import numpy as np
import pytest
import zstandard
from dbn_builder import T0, TICK, Msg, foreign, frames, header, skippable, write

from alpha_core.errors import InputError
from alpha_pipeline.ingest import ingest_day
from alpha_pipeline.ingest.databento import DbnFile
from alpha_pipeline.ingest.records import MBP10_DTYPE

FOUR = [Msg(ts=T0 + k, sequence=k) for k in range(4)]


def sequences(path, chunk_records=8192):
    with DbnFile(path) as file:
        return [int(s) for chunk in file.chunks(chunk_records) for s in chunk["sequence"]], file


def put(path, content):
    path.write_bytes(content)
    return path


def test_multi_frame_zstd_with_a_skippable_frame_between(tmp_path):
    first, second = (b"".join(map(bytes, part)) for part in (FOUR[:2], FOUR[2:]))
    content = frames(header() + first) + skippable(b"hello") + frames(second) + skippable(b"")
    found, file = sequences(put(tmp_path / "x.dbn.zst", content))
    assert found == [0, 1, 2, 3]
    assert not file.truncated


def test_multi_frame_zstd_cut_within_header_and_records(tmp_path):
    """Frame borders fall anywhere: inside the header, inside a record, one byte a frame."""
    whole = header() + b"".join(map(bytes, FOUR))
    cuts = [0, 1, 5, 100, len(header()) + 3, len(header()) + 368, len(whole) - 1, len(whole)]
    content = skippable(b"first") + frames(*(whole[a:b] for a, b in itertools.pairwise(cuts)))
    assert sequences(put(tmp_path / "x.dbn.zst", content))[0] == [0, 1, 2, 3]


def test_uncompressed_file(tmp_path):
    assert sequences(write(tmp_path / "x.dbn", FOUR, plain=True))[0] == [0, 1, 2, 3]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_gives_the_same_records(tmp_path, version):
    found, file = sequences(write(tmp_path / "x.dbn.zst", FOUR, head=header(version=version)))
    assert found == [0, 1, 2, 3]
    assert file.version == version
    assert [(item.symbol, item.instrument_id) for item in file.listings] == [("TEST", 1)]


def test_header_larger_than_the_first_read(tmp_path):
    many = {f"SYM{k}": k for k in range(2000)}
    head = header(many)
    assert len(head) > 1 << 16
    found, file = sequences(write(tmp_path / "x.dbn.zst", FOUR, head=head), chunk_records=16)
    assert found == [0, 1, 2, 3]
    assert {item.symbol: item.instrument_id for item in file.listings} == many


@pytest.mark.parametrize("chunk_records", [16, 17, 100])
def test_chunks_give_the_bytes_that_were_written(tmp_path, chunk_records):
    records = [bytes(Msg(ts=T0 + k, sequence=k)) for k in range(250)]
    with DbnFile(write(tmp_path / "x.dbn.zst", records)) as file:
        found = b"".join(chunk.tobytes() for chunk in file.chunks(chunk_records))
    assert found == b"".join(records)


def mixed_records():
    system, error, mapping = foreign("TEST", 1)
    return [mapping, FOUR[0], system, system, FOUR[1], error, FOUR[2], FOUR[3], system]


@pytest.mark.parametrize("chunk_records", [16, 8192])
def test_other_record_types_between_are_skipped_and_counted(tmp_path, chunk_records):
    found, file = sequences(write(tmp_path / "x.dbn.zst", mixed_records()), chunk_records)
    assert found == [0, 1, 2, 3]
    assert file.records_read == 9
    assert dict(file.skipped_by_type) == {"symbol-mapping": 1, "system": 3, "error": 1}


def test_live_capture_maps_its_symbol_in_the_body(tmp_path, spec):
    """No mapping in the header, schema unknown: the mapping record tells which instrument this is."""
    head = header(mappings=[], symbols=[], schema=None)
    path = write(tmp_path / "x.dbn", mixed_records(), head=head, plain=True)
    report = ingest_day([path], spec, tmp_path / "day")
    assert (report.snapshots, report.symbol, report.instrument_ids) == (4, "TEST", (1,))


def test_version_one_mapping_records_are_understood(tmp_path, spec):
    mapping = dbn.SymbolMappingMsgV1(
        publisher_id=1,
        instrument_id=1,
        ts_event=T0,
        stype_in_symbol="TEST",
        stype_out_symbol="1",
        start_ts=dbn.UNDEF_TIMESTAMP,
        end_ts=dbn.UNDEF_TIMESTAMP,
    )
    head = header(mappings=[], symbols=[], version=1)
    report = ingest_day([write(tmp_path / "x.dbn.zst", [mapping, *FOUR], head=head)], spec, tmp_path / "day")
    assert report.snapshots == 4


def test_records_with_the_server_send_time(tmp_path):
    records = [message.build() for message in FOUR]
    for message in records:
        message.ts_out = T0
    assert len(bytes(records[0])) == 376
    found, file = sequences(write(tmp_path / "x.dbn.zst", records, head=header(ts_out=True)))
    assert found == [0, 1, 2, 3]
    assert file.trailing_bytes == 0


@pytest.mark.parametrize("cut", [1, 8, 15, 16, 367])
def test_truncated_record_keeps_whole_records_and_reports_the_rest(tmp_path, cut, spec):
    whole = write(tmp_path / "whole.dbn", FOUR, plain=True).read_bytes()
    path = put(tmp_path / "x.dbn", whole[: len(whole) - 368 + cut])
    report = ingest_day([path], spec, tmp_path / "day")
    assert report.snapshots == 3
    assert report.sources[0].trailing_bytes == cut
    assert report.truncated


@pytest.mark.parametrize("chunk_records", [16, 8192])
@pytest.mark.parametrize("records", [3, 40, 5000])
def test_truncated_zstd_frame_gives_all_that_can_be_decompressed(tmp_path, records, chunk_records):
    """Whatever a plain decompressor gets out of the cut file, to the last byte, and a header cut short as well."""
    rng = np.random.default_rng(1)
    body = b"".join(
        bytes(Msg(ts=T0 + k, sequence=int(rng.integers(2**32)), size=k % 99)) for k in range(records)
    )
    content = frames(header() + body)
    for share in (0.05, 0.3, 0.6, 0.9, 0.99):
        path = put(tmp_path / "x.dbn.zst", content[: int(share * len(content))])
        got = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
        if len(got) < len(header()):
            with pytest.raises(InputError, match=r"no readable DBN header|has no bytes"):
                DbnFile(path)
            continue
        found, file = sequences(path, chunk_records)
        assert len(found) == (len(got) - len(header())) // 368
        assert file.truncated and file.trailing_bytes == (len(got) - len(header())) % 368


def test_truncated_zstd_frame_keeps_what_was_decompressed(tmp_path, spec):
    rng = np.random.default_rng(5)
    records = [Msg(ts=T0 + k, sequence=int(s)) for k, s in enumerate(rng.integers(0, 2**32, 3000))]
    whole = write(tmp_path / "whole.dbn.zst", records).read_bytes()
    path = put(tmp_path / "x.dbn.zst", whole[: len(whole) // 2])
    found, file = sequences(path)
    assert file.truncated
    assert 0 < len(found) < 3000
    assert found == [message.sequence for message in records[: len(found)]]
    report = ingest_day([path], spec, tmp_path / "day")
    assert report.truncated
    assert report.snapshots == len(found)


BAD = {
    "a text file": (b"price,size\n1,2\n" * 100, "not a DBN file: byte 0"),
    "zero bytes": (b"", "has no bytes"),
    "zstd of nothing": (frames(b""), "has no bytes"),
    "zstd of text": (frames(b"hello world" * 50), "not a DBN file: byte 0"),
    "headerless records": (b"".join(map(bytes, FOUR)), "not a DBN file: byte 0"),
    "a cut header": (header()[:100], "no readable DBN header in bytes 0 to 100"),
    "a header of a future version": (b"DBN\x63" + header()[4:], "no readable DBN header"),
    "another schema": (header(schema=dbn.Schema.MBP_1), "holds schema mbp-1"),
    "a record of no length": (header() + bytes(FOUR[0]) + bytes(368), "byte 728 .* a record of 0 bytes"),
    "an unknown record type": (
        header() + b"\x5c\x0b" + bytes(FOUR[0])[2:],
        "byte 360 .* unknown type 0x0b",
    ),
    "an MBP-10 record of wrong length": (
        header() + b"\x14" + bytes(FOUR[0])[1:],
        "MBP-10 record of 80 bytes",
    ),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("existing", [False, True])
def test_wrong_input_is_one_sentence_and_leaves_nothing(tmp_path, kind, existing, spec):
    content, reason = BAD[kind]
    path = put(tmp_path / "TEST-2024-03-06.mbp-10.dbn.zst", content)
    out = tmp_path / "day"
    if existing:
        ingest_day([write(tmp_path / "good.dbn", FOUR, plain=True)], spec, out)
    before = {file.name: file.read_bytes() for file in out.glob("*")} if existing else {}
    with pytest.raises(InputError, match=reason) as caught:
        ingest_day([path], spec, out)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in out.glob("*")} == before
    assert out.exists() == existing


def test_mbp1_records_under_an_mbp10_header_are_refused(tmp_path, spec):
    message = dbn.MBP1Msg(
        publisher_id=1,
        instrument_id=1,
        ts_event=T0,
        price=TICK,
        size=1,
        action=dbn.Action.ADD,
        side=dbn.Side.BID,
        depth=0,
        ts_recv=T0,
    )
    with pytest.raises(InputError, match="holds 2 records of mbp-1 and none of mbp-10"):
        ingest_day([write(tmp_path / "x.dbn", [message, message], plain=True)], spec, tmp_path / "day")


def test_damaged_zstd_frame_names_the_byte(tmp_path, spec):
    body = header() + b"".join(bytes(Msg(ts=T0 + k, sequence=k)) for k in range(500))
    content = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(body))
    content[-1] ^= 1
    with pytest.raises(InputError, match=r"x\.dbn\.zst is damaged near byte \d+"):
        ingest_day([put(tmp_path / "x.dbn.zst", bytes(content))], spec, tmp_path / "day")
    assert not (tmp_path / "day").exists()


def test_damage_behind_whole_frames_is_no_truncation(tmp_path, spec):
    content = write(tmp_path / "w.dbn.zst", FOUR).read_bytes() + b"garbage behind"
    with pytest.raises(InputError, match="is damaged near byte"):
        ingest_day([put(tmp_path / "x.dbn.zst", content)], spec, tmp_path / "day")


def test_absent_and_unreadable_files(tmp_path, spec):
    with pytest.raises(InputError, match="cannot be read"):
        ingest_day([tmp_path / "none.dbn"], spec, tmp_path / "day")
    with pytest.raises(InputError, match="cannot be read"):
        ingest_day([tmp_path], spec, tmp_path / "day")
    with pytest.raises(InputError, match="no file was given"):
        ingest_day([], spec, tmp_path / "day")


def test_the_same_bytes_twice_are_refused(tmp_path, spec):
    paths = [write(tmp_path / name, FOUR) for name in ("a.dbn.zst", "b.dbn.zst")]
    with pytest.raises(InputError, match="same bytes"):
        ingest_day(paths, spec, tmp_path / "day")


def test_views_are_read_with_the_layout_of_the_module(tmp_path):
    with DbnFile(write(tmp_path / "x.dbn.zst", FOUR)) as file:
        assert all(chunk.dtype == MBP10_DTYPE for chunk in file.chunks(16))
