"""Several processes that train one model: each walks its share of the streams, all take the same steps.

Gradients are summed, not averaged: each process divides by the number of rows that all of them see, so that a share
with few directions counts for few. Every process then holds the same weights to the last bit, because all add the
same numbers in the same order and step alike. `torchrun` starts the processes and says in the environment who is who.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from alpha_core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Place of this process among those that train together; alone by default, and then nothing is sent.

    Attributes:
        rank: number of this process.
        size: how many there are.
        device: where tensors that are sent have to lie.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009, immutable

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and tells."""
        return self.rank == 0

    def share_of(self, streams: int) -> slice:
        """The streams of this process, contiguous; sizes differ by one at most.

        Raises:
            ConfigError: fewer streams than processes.
        """
        if streams < self.size:
            raise ConfigError(
                f"streams was {streams}, must be at least the number of processes, {self.size}: start fewer"
            )
        return slice(streams * self.rank // self.size, streams * (self.rank + 1) // self.size)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors of one dtype by their sums over all processes."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        parts = flat.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def joined(self, own: Tensor, streams: int) -> Tensor:
        """Rows of all streams [B, ...] from each process's share of them, with the same bits, in every process."""
        if self.size == 1:
            return own
        whole = own.new_zeros(streams, *own.shape[1:])
        whole[self.share_of(streams)] = own
        # As bytes, because a float -0.0 plus 0.0 is not -0.0.
        dist.all_reduce(whole.view(torch.uint8))
        return whole

    def from_first(self, data: bytes) -> bytes:
        """What the first process gives, in all of them."""
        if self.size == 1:
            return data
        length = torch.tensor([len(data)], device=self.device)
        dist.broadcast(length, 0)
        content = torch.empty(int(length), dtype=torch.uint8, device=self.device)
        if self.first and data:
            content.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        dist.broadcast(content, 0)
        return content.cpu().numpy().tobytes()

    def agreed(self, value: Any) -> Any:
        """The plain value of the first process; tuples come back as lists from others."""
        if self.size == 1:
            return value
        return json.loads(self.from_first(json.dumps(value).encode()))


@contextmanager
def torchrun_ranks(device: str | torch.device) -> Iterator[Ranks]:
    """The processes that torchrun started, joined while the block lasts; alone when it started none.

    Args:
        device: "cpu" for gloo; "cuda" for nccl, each process on the GPU of its local rank.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield Ranks(device=torch.device(device))
        return
    kind = torch.device(device).type
    place = torch.device(kind, int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    try:
        yield Ranks(rank=dist.get_rank(), size=dist.get_world_size(), device=place)
    finally:
        dist.destroy_process_group()
