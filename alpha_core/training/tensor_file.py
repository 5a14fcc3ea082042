"""The safetensors format, written and read here so that the engine needs no library for it. Never pickle."""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from alpha_core.errors import CheckpointError

HEADER_LIMIT = 100_000_000
"""Bytes of JSON header above which a file is refused, the limit of the safetensors format itself."""

_DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def encode_safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Bytes of a safetensors file: 8-byte little-endian header length, JSON header, raw buffer.

    Args:
        tensors: any strides, any device; each is copied to contiguous host memory first, so that a
            transposed or tied tensor is stored by value.
        metadata: free text beside the tensors.

    Raises:
        CheckpointError: a dtype that the format does not know, or the reserved name "__metadata__".
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    chunks: list[bytes] = []
    offset = 0
    # Wider elements first keeps every tensor aligned to its element size, as the format's own writer does.
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        raw = _raw_bytes(name, tensor)
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        chunks.append(raw)
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(chunks)


def _raw_bytes(name: str, tensor: Tensor) -> bytes:
    if name == "__metadata__":
        raise CheckpointError(
            "tensor name was '__metadata__', which the safetensors format reserves: rename it"
        )
    if tensor.dtype not in _NAMES:
        raise CheckpointError(
            f"tensor '{name}' has dtype {tensor.dtype}, must be one of {sorted(_DTYPES)}: cast it"
        )
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def decode_safetensors(data: bytes, source: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file; every offset is checked before a byte of it is used.

    Args:
        data: the whole file.
        source: what to call it in an error.

    Raises:
        CheckpointError: the header is absent, too long or not JSON; a tensor's dtype, shape or range is
            impossible; ranges overlap or leave holes.
    """
    header, start = _read_header(data, source)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(
            f"{source}: __metadata__ is not a map of texts: the file is damaged, restore it"
        )
    specs = {name: _checked_spec(name, spec, source) for name, spec in header.items()}
    _check_ranges(specs, len(data) - start, source)
    body = memoryview(data)[start:]
    tensors = {
        name: _tensor(body[low:high], dtype, shape) for name, (dtype, shape, low, high) in specs.items()
    }
    return tensors, metadata


def _read_header(data: bytes, source: str) -> tuple[dict[str, Any], int]:
    if len(data) < 8:
        raise CheckpointError(
            f"{source} has {len(data)} bytes, a safetensors file has at least 8: restore it"
        )
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(HEADER_LIMIT, len(data) - 8):
        raise CheckpointError(
            f"{source}: header length was {length}, must be at most {min(HEADER_LIMIT, len(data) - 8)}: "
            "the file is truncated or not safetensors, restore it"
        )
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise CheckpointError(
            f"{source}: header is not JSON ({error}): the file is damaged, restore it"
        ) from error
    if not isinstance(header, dict):
        raise CheckpointError(
            f"{source}: header is a {type(header).__name__}, must be an object: restore the file"
        )
    return header, 8 + length


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _checked_spec(name: str, spec: Any, source: str) -> tuple[torch.dtype, tuple[int, ...], int, int]:
    """(dtype, shape, first byte, last byte + 1) of one tensor, or an error that names it."""
    fields = spec if isinstance(spec, dict) else {}
    dtype = _DTYPES.get(str(fields.get("dtype")))
    shape, offsets = fields.get("shape"), fields.get("data_offsets")
    if dtype is None:
        raise CheckpointError(
            f"{source}: tensor '{name}' has dtype {fields.get('dtype')!r}, must be one of {_DTYPES}"
        )
    if not isinstance(shape, list) or not all(map(_is_count, shape)):
        raise CheckpointError(
            f"{source}: tensor '{name}' has shape {shape!r}, must be non-negative whole numbers"
        )
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise CheckpointError(
            f"{source}: tensor '{name}' has data_offsets {offsets!r}, must be two byte positions"
        )
    low, high = offsets
    size = math.prod(shape) * dtype.itemsize
    if high - low != size:
        raise CheckpointError(
            f"{source}: tensor '{name}' holds {high - low} bytes, its shape {shape} needs {size}"
        )
    return dtype, tuple(shape), low, high


def _check_ranges(
    specs: Mapping[str, tuple[torch.dtype, tuple[int, ...], int, int]], size: int, source: str
) -> None:
    position = 0
    for name, (_, _, low, high) in sorted(specs.items(), key=lambda item: item[1][2:]):
        if low != position:
            raise CheckpointError(
                f"{source}: tensor '{name}' starts at byte {low}, must start at {position}: restore it"
            )
        position = high
    if position != size:
        raise CheckpointError(
            f"{source}: tensors end at byte {position} of {size}: the file is truncated, restore it"
        )


def _tensor(body: memoryview, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if not len(body):
        return torch.empty(shape, dtype=dtype)
    # bytearray: torch wants writable memory that nobody else holds.
    return torch.frombuffer(bytearray(body), dtype=dtype).reshape(shape)
