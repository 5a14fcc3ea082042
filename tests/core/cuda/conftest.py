"""Kernels run in Triton's interpreter where there is no accelerator; it must be chosen before triton is imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def kernel_device() -> str:
    """Where the kernels of a test run: the accelerator, or the interpreter on the CPU."""
    pytest.importorskip("triton", reason="triton absent: install it to test the kernels")
    return "cuda" if torch.cuda.is_available() else "cpu"
