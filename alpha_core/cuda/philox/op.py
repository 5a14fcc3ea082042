"""Random numbers of a batch as a PyTorch operator.

alpha::philox_uniforms(seed, episode, step, purpose, count) -> [E, count]
"""

from pathlib import Path

import torch
from torch import Tensor

from alpha_core import rng
from alpha_core.cuda.nvrtc import compiled

PHILOX = Path(__file__).with_name("philox.cuh")
SOURCES = (PHILOX, Path(__file__).with_name("uniforms.cu"))
THREADS = 256


@torch.library.custom_op("alpha::philox_uniforms", mutates_args=(), device_types="cpu")
def uniforms(seed: int, episode: Tensor, step: Tensor, purpose: int, count: int) -> Tensor:
    """Lanes 0 .. count - 1 of a purpose at one step.

    Args:
        seed: any 64-bit integer.
        episode: [E] int64 identities.
        step: [1] int64.
        purpose: a `Purpose`.
        count: uniforms of each episode.

    Returns:
        [E, count] float32, see `alpha_core.rng.philox_uniform`.
    """
    if count == 0:
        return torch.empty(episode.shape[0], 0)
    return rng.philox_uniforms(seed, episode, step, purpose, count)


@uniforms.register_kernel("cuda")
def _(seed: int, episode: Tensor, step: Tensor, purpose: int, count: int) -> Tensor:
    lanes = episode.shape[0]
    out = episode.new_empty(lanes, count, dtype=torch.float32)
    if out.numel():
        run = compiled(SOURCES, "philox_uniforms", 0)
        words = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
        arguments = [episode.contiguous(), step, out, purpose, count, lanes, *words]
        run(grid=(-(-lanes // THREADS), 1, 1), block=(THREADS, 1, 1), args=arguments)
    return out


@uniforms.register_fake
def _(seed: int, episode: Tensor, step: Tensor, purpose: int, count: int) -> Tensor:
    return episode.new_empty(episode.shape[0], count, dtype=torch.float32)
