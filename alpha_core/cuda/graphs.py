"""Capture of work on the device and its replay; the only place that captures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Generic, TypeVar

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
        # Other threads go on meanwhile: one of them may be sending the next block to the device.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
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


class Replayed:
    """A function of tensors that is launched call by call at first, and from a graph once that is possible.

    Only arguments of the shapes of the first call are recorded: what comes with others, such as the shorter last block
    of an epoch, goes on being launched call by call. Results are as those of `Captured`. Where `on` is False nothing is
    ever recorded and the function is called as it is.

    Args:
        function: see Captured.
        on: whether to record at all, False where there is no CUDA device.
    """

    WARM = 3
    """Calls before the recording: the first ones compile kernels and allocate an optimiser's memory."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], *, on: bool) -> None:
        self._function, self._on = function, on
        self._shapes: list[torch.Size] = []
        self._calls = 0
        self._captured: Captured | None = None

    def __call__(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The function's results for these arguments."""
        if not self._on:
            return self._function(*values)
        shapes = [value.shape for value in values]
        self._shapes = self._shapes or shapes
        if shapes != self._shapes:
            return self._function(*values)
        self._calls += 1
        if self._calls <= self.WARM:
            return run_beside(self._function, values)
        if self._captured is None:
            self._captured = Captured(self._function, values)
        return self._captured(*values)


T = TypeVar("T")


class Repeated(Generic[T]):
    """A step that turns a state into the next one, taken many times over; on a CUDA device from a recorded graph.

    A state is a tensor, or dataclasses, tuples and lists of them, beside values that no step changes. Recording runs
    nothing and pays from some dozens of steps on.

    Args:
        step: gives a state of the same shapes, and where recorded launches the same kernels each time; may change the
            one it was given.
        state: where to begin; on a CUDA device its tensors are copied.
        block: most steps that one graph takes.
    """

    def __init__(self, step: Callable[[T], T], state: T, *, block: int = 20) -> None:
        self._step, self.state, self._block = step, state, block

    def take(self, steps: int) -> T:
        """The state after so many steps."""
        if steps <= 0:
            return self.state
        if tensors_of(self.state)[0].device.type != "cuda":
            for _ in range(steps):
                self.state = self._step(self.state)
            return self.state
        block = max(n for n in range(1, self._block + 1) if steps % n == 0)
        own = [value.clone() for value in tensors_of(self.state)]
        trial = [value.clone() for value in own]
        run_beside(lambda *values: self._after(values, 1), trial)  # compiles, and allocates what stays
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for old, new in zip(own, self._after(own, block), strict=True):
                old.copy_(new)
        for _ in range(steps // block):
            graph.replay()
        self.state = with_tensors(self.state, own)
        return self.state

    def _after(self, values: Sequence[Tensor], steps: int) -> tuple[Tensor, ...]:
        state = with_tensors(self.state, values)
        for _ in range(steps):
            state = self._step(state)
        return tuple(tensors_of(state))


def tensors_of(tree: object) -> list[Tensor]:
    """All tensors in a state, in the order of its fields."""
    if isinstance(tree, Tensor):
        return [tree]
    return [tensor for _, part in _parts(tree) for tensor in tensors_of(part)]


def with_tensors(tree: T, tensors: Sequence[Tensor]) -> T:
    """The same state with other tensors, in the order of `tensors_of`."""
    left = iter(tensors)
    result = _rebuilt(tree, left)
    assert next(left, None) is None, "a state has more tensors than it had"
    return result


def _rebuilt(tree: T, left: Iterator[Tensor]) -> T:
    if isinstance(tree, Tensor):
        return next(left)  # type: ignore[return-value]
    parts = _parts(tree)
    if not parts:
        return tree
    changed = {name: _rebuilt(part, left) for name, part in parts}
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **changed)
    return type(tree)(changed.values())  # type: ignore[call-arg]


def _parts(tree: object) -> list[tuple[str, object]]:
    if is_dataclass(tree) and not isinstance(tree, type):
        return [(field.name, getattr(tree, field.name)) for field in fields(tree)]
    return [(str(i), part) for i, part in enumerate(tree)] if isinstance(tree, tuple | list) else []


def run_beside(function: Callable[..., tuple[Tensor, ...]], values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run a function on a stream of its own, as what is to be captured must have run before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = function(*values)
    torch.cuda.current_stream().wait_stream(stream)
    return result
