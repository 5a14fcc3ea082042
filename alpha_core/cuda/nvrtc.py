"""CUDA C++ compiled at run time for the device at hand; the only place that does so."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch


@cache
def compiled(
    sources: tuple[Path, ...], kernel: str, shared_bytes: int, **defines: int
) -> Callable[..., None]:
    """A kernel of some files, compiled once per process, device kind and set of definitions.

    Args:
        sources: files that are read one behind the other.
        kernel: name of an `extern "C"` function in the last one.
        shared_bytes: dynamic shared memory that launches will ask for.
        defines: preprocessor constants.

    Returns:
        A function (grid=, block=, args=, shared_mem=) that launches on the current stream.
    """
    lines = [f"#define {name} {value}" for name, value in sorted(defines.items())]
    text = "\n".join([*lines, *(source.read_text() for source in sources)])
    built: Any = torch.cuda._compile_kernel(text, kernel)
    if shared_bytes:
        built.set_shared_memory_config(shared_bytes)
    return built
