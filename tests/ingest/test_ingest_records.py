"""The record layout is the official library's, and its helpers move bytes without changing them."""

import databento_dbn as dbn
import numpy as np
from dbn_builder import Msg

from alpha_pipeline.ingest.records import MBP10_DTYPE, RECORD_BYTES, RTYPE_NAMES, codes, take, words


def test_layout_is_the_official_one():
    official = np.dtype(dbn.MBP10Msg._dtypes)
    record = np.frombuffer(bytes(Msg(action="T", side="B", price=-7, size=3, sequence=9)), MBP10_DTYPE)
    theirs = np.frombuffer(record.tobytes(), official)
    assert RECORD_BYTES == official.itemsize == dbn.MBP10Msg.size_hint == 368
    for name in MBP10_DTYPE.names[:-1]:
        assert record[name] == theirs[name]
    for level in range(10):
        for name in MBP10_DTYPE["levels"].base.names:
            assert record["levels"][0, level][name] == theirs[f"{name}_{level:02d}"][0]


def test_every_official_record_type_has_a_name():
    assert set(RTYPE_NAMES) == {rtype.value for rtype in dbn.RType.variants()}


def test_codes_words_and_take_agree_with_the_structured_view():
    raw = b"".join(bytes(Msg(action=a, side=s, sequence=i)) for i, (a, s) in enumerate(["TB", "AA", "RN"]))
    records = np.frombuffer(raw, MBP10_DTYPE)
    assert bytes(codes(records, "action")) == b"TAR"
    assert bytes(codes(records, "side")) == b"BAN"
    assert words(records, np.int64).tobytes() == raw
    assert take(records, np.array([2, 0])).tobytes() == records[[2, 0]].tobytes()
    spaced = np.ndarray((2,), MBP10_DTYPE, raw, strides=(2 * RECORD_BYTES,))
    assert take(spaced, np.array([1])).tobytes() == records[2:].tobytes()
