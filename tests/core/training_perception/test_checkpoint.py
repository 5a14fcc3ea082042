"""Safetensors files against the library both ways, and folders that survive a killed writer."""

import json
import os
import signal
import struct
import time
from pathlib import Path

import pytest
import safetensors.numpy
import safetensors.torch
import torch
from torch import nn

from alpha_core import durable
from alpha_core.durable import write_atomic
from alpha_core.errors import CheckpointError
from alpha_core.training.checkpoint import load_checkpoint, load_weights, save_checkpoint
from alpha_core.training.tensor_file import decode_safetensors, encode_safetensors


def _samples():
    generator = torch.Generator().manual_seed(0)
    tensors = {
        str(dtype).removeprefix("torch."): torch.randn(3, 5, generator=generator).to(dtype)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    }
    tensors |= {
        str(dtype).removeprefix("torch."): torch.randint(0, 100, (7,), generator=generator).to(dtype)
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    }
    return tensors | {
        "flags": torch.tensor([True, False, True]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "ünïcode": torch.ones(2),
    }


def _assert_same(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype, name
        assert tensor.shape == right[name].shape, name
        assert torch.equal(tensor, right[name]), name


def test_library_reads_what_we_write():
    data = encode_safetensors(_samples(), {"note": "x"})
    _assert_same(_samples(), safetensors.torch.load(data))
    assert len(data[8:].split(b"}}")[0]) > 0
    assert struct.unpack("<Q", data[:8])[0] % 8 == 0


def test_we_read_what_the_library_writes():
    data = safetensors.torch.save(_samples(), {"note": "x"})
    tensors, metadata = decode_safetensors(data, "library file")
    _assert_same(_samples(), tensors)
    assert metadata == {"note": "x"}


def test_same_tensors_give_same_bytes_in_any_order():
    tensors = _samples()
    assert encode_safetensors(tensors) == encode_safetensors(dict(reversed(tensors.items())))


def test_fault_export_non_contiguous_tensor_keeps_its_values(tmp_path):
    """The library's numpy writer stored a 2x3 transpose as [[0,1],[2,3],[4,5]] without an error."""
    transpose = torch.arange(6).reshape(2, 3).t()
    assert not transpose.is_contiguous()
    save_checkpoint(tmp_path, {"t": transpose, "strided": torch.arange(10)[::3]}, {})
    tensors, _ = load_checkpoint(tmp_path)
    assert tensors["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert tensors["strided"].tolist() == [0, 3, 6, 9]
    assert safetensors.numpy.load(encode_safetensors({"t": transpose}))["t"].tolist() == [
        [0, 3],
        [1, 4],
        [2, 5],
    ]


def test_fault_export_tied_weight_gives_the_same_outputs(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Parameter(torch.randn(4, 4, generator=torch.Generator().manual_seed(1)).t())
            self.second = self.first

        def forward(self, x):
            return torch.tanh(x @ self.first) @ self.second.t()

    model, batch = Tied(), torch.linspace(-1, 1, 12).reshape(3, 4)
    before = model(batch)
    save_checkpoint(tmp_path, model.state_dict(), {})
    other = Tied()
    with torch.no_grad():
        other.first.zero_()
    load_weights(other, load_checkpoint(tmp_path)[0], "stored")
    assert torch.equal(other(batch), before)


def test_fault_export_load_then_save_to_the_same_path(tmp_path):
    save_checkpoint(tmp_path, {"w": torch.arange(1000.0)}, {"step": 1})
    tensors, document = load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, tensors, {**document, "step": 2})
    again, document = load_checkpoint(tmp_path)
    assert torch.equal(again["w"], torch.arange(1000.0))
    assert document == {"step": 2}
    assert len(list(tmp_path.iterdir())) == 2


def _with_header(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def _entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"abc", "has 3 bytes"),
        (struct.pack("<Q", 2**60) + b"{}", "header length was"),
        (_with_header(b"{nope"), "not JSON"),
        (_with_header([1]), "is a list"),
        (_with_header({"__metadata__": {"a": 1}}), "not a map of texts"),
        (_with_header({"w": _entry(dtype="F4")}, b"0000"), "dtype 'F4'"),
        (_with_header({"w": _entry(shape=(-1,))}, b"0000"), "shape [-1]"),
        (_with_header({"w": _entry(shape=(True,))}, b"0000"), "shape [True]"),
        (_with_header({"w": _entry(offsets=(0, -4))}, b"0000"), "data_offsets [0, -4]"),
        (_with_header({"w": _entry(offsets=(0, 4, 8))}, b"0000"), "data_offsets [0, 4, 8]"),
        (_with_header({"w": _entry(shape=(2,))}, b"0000"), "needs 8"),
        (_with_header({"w": _entry()}, b""), "truncated"),
        (_with_header({"w": _entry()}, b"00000000"), "truncated"),
        (_with_header({"w": _entry(offsets=(4, 8))}, b"00000000"), "must start at 0"),
        (_with_header({"a": _entry(), "b": _entry()}, b"00000000"), "must start at 4"),
        (_with_header({"w": 5}), "dtype None"),
        (_with_header({"w": _entry(shape=(2**40, 2**40))}, b"0000"), "needs"),
    ],
)
def test_damaged_file_is_refused_in_one_sentence(data, words):
    with pytest.raises(CheckpointError) as caught:
        decode_safetensors(data, "x.safetensors")
    assert words in str(caught.value)
    assert str(caught.value).startswith("x.safetensors")


def test_every_truncation_is_refused():
    data = encode_safetensors({"a": torch.arange(5.0), "b": torch.arange(3)})
    for length in range(len(data)):
        with pytest.raises(CheckpointError):
            decode_safetensors(data[:length], "cut")


def test_unsupported_dtype_and_reserved_name_are_refused():
    with pytest.raises(CheckpointError, match="complex64"):
        encode_safetensors({"w": torch.zeros(2, dtype=torch.complex64)})
    with pytest.raises(CheckpointError, match="__metadata__"):
        encode_safetensors({"__metadata__": torch.zeros(2)})


def test_checkpoint_document_problems_are_named(tmp_path):
    with pytest.raises(CheckpointError, match="train first"):
        load_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="reserved"):
        save_checkpoint(tmp_path, {}, {"weights": 1})
    with pytest.raises(CheckpointError, match="not plain JSON"):
        save_checkpoint(tmp_path, {}, {"auc": float("nan")})
    document = save_checkpoint(tmp_path, {"w": torch.ones(3)}, {})
    content = json.loads(document.read_text())
    (weights,) = tmp_path.glob("*.safetensors")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(CheckpointError, match="sha256"):
        load_checkpoint(tmp_path)
    weights.unlink()
    with pytest.raises(CheckpointError, match="absent though"):
        load_checkpoint(tmp_path)
    content["weights"]["file"] = "../elsewhere.safetensors"
    document.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="of its own folder"):
        load_checkpoint(tmp_path)
    document.write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        load_checkpoint(tmp_path)


def test_weights_of_another_architecture_are_refused_with_all_differences():
    with pytest.raises(CheckpointError) as caught:
        load_weights(nn.Linear(3, 2), {"weight": torch.zeros(2, 4), "extra": torch.zeros(1)}, "stored model")
    for words in ("bias absent", "extra unknown", "weight was [2, 4], must be [2, 3]"):
        assert words in str(caught.value)


@pytest.mark.parametrize("failing_call", [1, 2])
def test_failure_at_either_rename_keeps_the_old_checkpoint(tmp_path, monkeypatch, failing_call):
    save_checkpoint(tmp_path, {"w": torch.ones(3)}, {"step": 1})
    calls = []
    original = Path.replace

    def failing(self, target):
        calls.append(target)
        if len(calls) == failing_call:
            raise OSError(28, "No space left on device")
        return original(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(tmp_path, {"w": torch.zeros(3)}, {"step": 2})
    monkeypatch.undo()
    tensors, document = load_checkpoint(tmp_path)
    assert document == {"step": 1}
    assert torch.equal(tensors["w"], torch.ones(3))
    assert not list(tmp_path.glob(".*.tmp"))


def test_fault_temporary_file_sits_beside_its_target(tmp_path, monkeypatch):
    """A rename across filesystems is not atomic: TMPDIR elsewhere must not matter."""
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    seen = []
    published = durable.publish
    monkeypatch.setattr(
        durable, "publish", lambda whole, target: (seen.append(whole), published(whole, target))
    )
    write_atomic(tmp_path / "file", b"abc")
    assert [whole.parent for whole in seen] == [tmp_path]
    assert (tmp_path / "file").read_bytes() == b"abc"


def _save_for_ever(folder):
    step = 0
    while True:
        step += 1
        save_checkpoint(folder, {"w": torch.full((2000,), float(step))}, {"step": step})


def test_two_writers_of_one_folder_leave_a_whole_checkpoint(tmp_path):
    children = []
    for writer in range(2):
        child = os.fork()
        if child == 0:
            try:
                for step in range(40):
                    save_checkpoint(
                        tmp_path, {"w": torch.full((50,), writer + step / 100)}, {"writer": writer}
                    )
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    tensors, document = load_checkpoint(tmp_path)
    assert torch.equal(tensors["w"], torch.full((50,), document["writer"] + 0.39))


def test_fault_killed_while_writing_a_checkpoint(tmp_path):
    """SIGKILL at arbitrary moments: what is on disk loads, weights and document of the same step."""
    save_checkpoint(tmp_path, {"w": torch.zeros(2000)}, {"step": 0})
    for attempt in range(12):
        child = os.fork()
        if child == 0:
            try:
                _save_for_ever(tmp_path)
            finally:
                os._exit(1)
        time.sleep(0.004 + 0.0037 * attempt)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        tensors, document = load_checkpoint(tmp_path)
        assert torch.equal(tensors["w"], torch.full((2000,), float(document["step"])))
    save_checkpoint(tmp_path, {"w": torch.ones(1)}, {"step": -1})
    assert len(list(tmp_path.iterdir())) == 2, "leftovers of killed writers are removed by the next save"
