"""The record layout is the official library's, and its helpers move bytes without changing them."""

import databento_dbn as dbn
import numpy as np
from dbn_builder import Msg, Order

from alpha_pipeline.ingest.records import (
    MBO_DTYPE,
    MBP10_DTYPE,
    RECORD_BYTES,
    RTYPE_MBO,
    RTYPE_NAMES,
    codes,
    take,
    words,
)


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


def test_layout_of_an_order_is_the_official_one():
    sent = Order(action="M", side="A", price=-7, size=3, sequence=9, id=2**64 - 1, ts_in_delta=-5, flags=0x82)
    record = np.frombuffer(bytes(sent), MBO_DTYPE)
    official = np.dtype(dbn.MBOMsg._dtypes)
    assert MBO_DTYPE.itemsize == official.itemsize == dbn.MBOMsg.size_hint == 56
    assert MBO_DTYPE.names == official.names
    assert record.tolist() == np.frombuffer(bytes(sent), official).tolist()
    assert (record["length"], record["rtype"], record["order_id"]) == (14, RTYPE_MBO, 2**64 - 1)


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
