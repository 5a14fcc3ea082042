"""Capture of work on the device and its replay; the only place that captures."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Captured:
    """A function of tensors, recorded once on a CUDA device and replayed as one launch.

    Arguments are copied into memory of the graph before each replay. Results lie in memory of the graph too: the next
    replay overwrites them.

    Args:
        function: launches the same kernels for all arguments of these shapes, and never waits for the device. It must
            have run before with such arguments, so that whatever it compiles or allocates once is there; recording
            runs nothing.
        examples: arguments of the right shapes; they are copied.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], examples: Sequence[Tensor]) -> None:
        self._inputs = [value.clone() for value in examples]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = function(*self._inputs)

    def __call__(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Replay with other arguments.

        Raises:
            ValueError: an argument has not the shape and type that were recorded.
        """
        for index, (own, given) in enumerate(zip(self._inputs, values, strict=True)):
            if own.shape != given.shape or own.dtype != given.dtype:
                raise ValueError(
                    f"argument {index} was {given.dtype} {tuple(given.shape)}, must be {own.dtype} "
                    f"{tuple(own.shape)} as recorded: record another graph"
                )
            own.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._outputs


def run_beside(function: Callable[..., tuple[Tensor, ...]], values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run a function on a stream of its own, as what is to be captured must have run before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = function(*values)
    torch.cuda.current_stream().wait_stream(stream)
    return result
