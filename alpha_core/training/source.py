"""From rows to the blocks that a device trains on: all of them there from the beginning, or streamed from the host.

Streaming is buffered. A thread copies the rows of the next blocks into host buffers in turn (pinned when the
device is a GPU, whose copy engine then works beside the kernels on a stream of its own) while the trainer is busy with
the block before. It only ever copies, in the order of the blocks, so the numbers are those of the resident source.
"""

import queue
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alpha_core.shapes import FEATURES, HORIZONS
from alpha_core.training.sequences import Block, RowData, take_rows

ROW_BYTES = 4 * (FEATURES + 1 + 2 * len(HORIZONS))
"""What a resident row takes on the device."""


SLOTS = 3
"""Host buffers: one that is filled, one that is read, and one ahead, for not every block takes the same time."""

PIECE = 1 << 14
"""Rows that one thread gathers at a time: enough for the copying to outweigh the handing over."""

MOST_THREADS = 8
"""Threads that gather the rows of one block."""

Mark = float | torch.cuda.Event
"""A moment: seconds of the host's clock, or an event on a GPU's stream."""


class Batch(NamedTuple):
    """A block with what is in its rows, on the device."""

    block: Block
    x: Tensor  # [B, T, F] float32, raw
    seconds: Tensor  # [B, T] float32
    up: Tensor  # [B, T, H] float32, 1 where the mid rises
    mask: Tensor  # [B, T, H] float32, 0 on padding, ties and where the horizon leaves the segment
    reset: Tensor | None  # [B, T] bool


class Source(Protocol):
    """Gives the blocks of a walk as batches, in order."""

    def batches(self, walk: Iterator[Block]) -> Generator[Batch, None, None]:
        """One batch a block; close the iterator to stop early."""
        ...


def source_of(
    data: RowData, device: torch.device, *, streams: int, length: int, resident_gib: float
) -> Source:
    """The resident source for so many GiB of rows, the streamed one for more."""
    if data.rows * ROW_BYTES <= resident_gib * 2**30:
        return Resident(data, device)
    return Streamed(data, device, rows=streams * length)


class Resident:
    """All rows lie on the device.

    Args:
        data: the rows.
        device: where they go.
    """

    def __init__(self, data: RowData, device: torch.device) -> None:
        parts = list(data.feature_parts(0, data.rows))
        alone = len(parts) == 1 and parts[0].flags.writeable
        self.features = torch.from_numpy(parts[0] if alone else np.concatenate(parts)).to(device)
        self.seconds = data.seconds_since_previous.to(device)
        self.up = (data.labels > 0).float().to(device)
        self.mask = data.mask.float().to(device)
        self.device = device

    def batches(self, walk: Iterator[Block]) -> Generator[Batch, None, None]:
        """See Source.batches."""
        for block in walk:
            rows, used = self._sent(block.rows), self._sent(block.used)
            reset = None if block.reset is None else self._sent(block.reset)
            mask = self.mask[rows] * used[..., None]
            yield Batch(block, self.features[rows], self.seconds[rows], self.up[rows], mask, reset)

    def _sent(self, value: Tensor) -> Tensor:
        """A tensor on the device. From pinned memory, because a copy from other memory waits for all work before it."""
        if self.device.type != "cuda":
            return value.to(self.device)
        return value.pin_memory().to(self.device, non_blocking=True)


class _Slot:
    """One host buffer for a block, and the event after which a GPU has read it."""

    def __init__(self, rows: int, pinned: bool) -> None:
        H = len(HORIZONS)
        self.x = torch.empty(rows, FEATURES, pin_memory=pinned)
        self.seconds = torch.empty(rows, pin_memory=pinned)
        self.up = torch.empty(rows, H, dtype=torch.bool, pin_memory=pinned)
        self.mask = torch.empty(rows, H, dtype=torch.bool, pin_memory=pinned)
        self.reset = torch.empty(rows, dtype=torch.bool, pin_memory=pinned)
        self.copied = torch.cuda.Event() if pinned else None

    def tensors(self, block: Block) -> list[Tensor]:
        """Views [B, T, ...] of what a block fills."""
        B, T = block.rows.shape
        whole = (self.x, self.seconds, self.up, self.mask, self.reset)
        return [buffer[: B * T].unflatten(0, (B, T)) for buffer in whole]


class Streamed:
    """Rows stay on the host, where they may be mapped files; the blocks are copied to the device as they are needed.

    Args:
        data: the rows.
        device: where blocks go.
        rows: most rows of a block.
    """

    def __init__(self, data: RowData, device: torch.device, *, rows: int) -> None:
        self.data, self.device = data, device
        self.columns = (data.seconds_since_previous.numpy(), (data.labels > 0).numpy(), data.mask.numpy())
        on_gpu = device.type == "cuda"
        self.slots = [_Slot(rows, pinned=on_gpu) for _ in range(SLOTS)]
        self.stream = torch.cuda.Stream(device) if on_gpu else None

    def batches(self, walk: Iterator[Block]) -> Generator[Batch, None, None]:
        """See Source.batches. A batch's tensors are good until the next one is asked for."""
        free: queue.SimpleQueue[_Slot | None] = queue.SimpleQueue()
        ready: queue.SimpleQueue[tuple[_Slot, Batch] | BaseException | None] = queue.SimpleQueue()
        for slot in self.slots:
            free.put(slot)
        thread = threading.Thread(target=self._fill, args=(walk, free, ready), daemon=True)
        thread.start()
        try:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                slot, batch = item
                yield self._arrived(slot, batch)
                free.put(slot)
        finally:
            free.put(None)
            thread.join()

    def _fill(
        self,
        walk: Iterator[Block],
        free: "queue.SimpleQueue[_Slot | None]",
        ready: "queue.SimpleQueue[tuple[_Slot, Batch] | BaseException | None]",
    ) -> None:
        """The thread: block after block into the slots that are free; None ends it early."""
        try:
            with ThreadPoolExecutor(MOST_THREADS) as pool:
                for block in walk:
                    slot = free.get()
                    if slot is None:
                        return
                    ready.put((slot, self._sent(slot, block, pool)))
            ready.put(None)
        except BaseException as error:
            ready.put(error)

    def _sent(self, slot: _Slot, block: Block, pool: ThreadPoolExecutor) -> Batch:
        """Gather a block into a slot and start its copy to the device."""
        if slot.copied is not None:
            slot.copied.synchronize()
        self._gather(slot, block, pool)
        tensors = slot.tensors(block)
        if self.stream is not None and slot.copied is not None:
            with torch.cuda.stream(self.stream):
                tensors = [tensor.to(self.device, non_blocking=True) for tensor in tensors]
                slot.copied.record(self.stream)
        x, seconds, up, mask, reset = tensors
        return Batch(block, x, seconds, up, mask, None if block.reset is None else reset)

    def _gather(self, slot: _Slot, block: Block, pool: ThreadPoolExecutor) -> None:
        """Copy a block's rows to where a device can fetch them, large blocks in several threads."""
        rows, used = block.rows.flatten().numpy(), block.used.flatten().numpy()
        spans = [slice(low, low + PIECE) for low in range(0, len(rows), PIECE)]
        # A thread of its own for the last piece too would cost a small block more than it saves.
        copies = [pool.submit(self._gather_piece, slot, rows[s], used[s], s) for s in spans[:-1]]
        last = spans[-1]
        self._gather_piece(slot, rows[last], used[last], last)
        for copy in copies:
            copy.result()
        if block.reset is not None:
            slot.reset.numpy()[: len(rows)] = block.reset.flatten().numpy()

    def _gather_piece(
        self, slot: _Slot, rows: NDArray[np.int64], used: NDArray[np.bool_], span: slice
    ) -> None:
        x, *columns = (v.numpy()[span][: len(rows)] for v in (slot.x, slot.seconds, slot.up, slot.mask))
        self.data.take_features(rows, x)
        for buffer, column in zip(columns, self.columns, strict=True):
            take_rows(column, rows, buffer)
        columns[2] &= used[:, None]

    def _arrived(self, slot: _Slot, batch: Batch) -> Batch:
        """Let the device wait for the copy, and give flags as numbers."""
        if self.stream is not None and slot.copied is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(slot.copied)
            for tensor in batch[1:]:
                if tensor is not None:
                    # Made on the side stream: its memory must not be given away while this one reads it.
                    tensor.record_stream(current)
        return batch._replace(up=batch.up.float(), mask=batch.mask.float())


class InputClock:
    """How long a device was without work because its input was not there yet.

    Args:
        device: a GPU is timed by its own events, so that what runs behind is not taken for waiting.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.waited_s, self.seconds = 0.0, 0.0

    def timed(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The same batches; the time between asking for one and having it counts as waiting."""
        marks = []
        while True:
            asked = self._mark()
            batch = next(batches, None)
            marks.append((asked, self._mark()))
            if batch is None:
                break
            yield batch
        self.waited_s += sum(_seconds(asked, had) for asked, had in marks)
        self.seconds += _seconds(marks[0][0], marks[-1][1])

    def share(self) -> float:
        """Share of the time since the last call that was waiting, and begin anew."""
        share = self.waited_s / self.seconds if self.seconds else 0.0
        self.waited_s, self.seconds = 0.0, 0.0
        return share

    def _mark(self) -> Mark:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event


def _seconds(start: Mark, stop: Mark) -> float:
    if isinstance(start, torch.cuda.Event) and isinstance(stop, torch.cuda.Event):
        stop.synchronize()
        return start.elapsed_time(stop) / 1000
    assert isinstance(start, float) and isinstance(stop, float)
    return stop - start
