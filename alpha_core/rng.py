"""Random numbers that depend on what they are for, and on nothing else.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011) is a function
of a 128-bit counter and a 64-bit key, so a draw for (seed, episode, step, purpose, lane) is the same on a CPU
and on a GPU, alone and in a batch of any size, in a captured graph and outside it.

Counter words: episode's low 32 bits, step, purpose + 256 x (lane // 4), episode's high 32 bits.
Key words: the seed's low and high 32 bits. Word lane % 4 of the result becomes the uniform.
"""

from enum import IntEnum

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_UNIT = 2.0**-24


class Purpose(IntEnum):
    """What a draw is for. Numbers are part of every recorded result: append, never renumber."""

    FILL = 1
    THOMPSON = 2
    BASELINE = 3
    EXPLORE = 4
    REPLAY = 5
    INITIALISE = 6
    SHUFFLE = 7
    COST = 8
    START = 9
    BOOTSTRAP = 10
    DROPOUT = 11
    EXPOSURE = 12
    SIMULATE = 13


Word = int | Tensor
"""A 32-bit word: a Python int, or an int64 tensor of values in [0, 2^32)."""


def _round(c: tuple[Word, Word, Word, Word], k: tuple[int, int]) -> tuple[Word, Word, Word, Word]:
    # An int64 product wraps modulo 2^64, which keeps all 64 bits of the unsigned one.
    left, right = c[0] * _MULTIPLIERS[0], c[2] * _MULTIPLIERS[1]
    return (
        ((right >> 32) ^ c[1] ^ k[0]) & _WORD,
        right & _WORD,
        ((left >> 32) ^ c[3] ^ k[1]) & _WORD,
        left & _WORD,
    )


def philox4x32(counter: tuple[Word, Word, Word, Word], key: tuple[int, int]) -> tuple[Word, Word, Word, Word]:
    """Philox4x32-10 of one counter, or elementwise of broadcastable int64 tensors of counters.

    Args:
        counter: four words; ints and tensors may be mixed.
        key: two words.

    Returns:
        Four words; a tensor wherever a counter word was one.
    """
    for _ in range(_ROUNDS):
        counter = _round(counter, key)
        key = ((key[0] + _WEYL[0]) & _WORD, (key[1] + _WEYL[1]) & _WORD)
    return counter


def _words(seed: int, episode: Word, step: Word, purpose: int, block: int) -> tuple[Word, Word, Word, Word]:
    counter = (episode & _WORD, step & _WORD, purpose | block << 8, (episode >> 32) & _WORD)
    return philox4x32(counter, (seed & _WORD, (seed >> 32) & _WORD))


def philox_uniform(seed: int, episode: Tensor, step: Tensor | int, purpose: int, lane: int = 0) -> Tensor:
    """One uniform per episode, the same wherever and beside whatever it is computed.

    Args:
        seed: any 64-bit integer.
        episode: [E] int64 identities, not positions in a batch.
        step: [E] int64, a 0-d int64 tensor, or an int, in [0, 2^32).
        purpose: a `Purpose`.
        lane: which of the purpose's uniforms at this step; four consecutive lanes share one Philox call.

    Returns:
        [E] float32 multiples of 2^-24 in [0, 1).
    """
    word = _words(seed, episode, step, purpose, lane // 4)[lane % 4]
    return _unit(word)


def philox_uniforms(seed: int, episode: Tensor, step: Tensor | int, purpose: int, lanes: int) -> Tensor:
    """Lanes 0 .. lanes - 1 of `philox_uniform` at once, [E, lanes] float32."""
    blocks = [_words(seed, episode, step, purpose, block) for block in range(-(-lanes // 4))]
    return torch.stack([_unit(word) for words in blocks for word in words][:lanes], dim=-1)


def _unit(word: Word) -> Tensor:
    assert isinstance(word, Tensor)
    return (word >> 8).to(torch.float32) * _UNIT


def philox_uniform_scalar(seed: int, episode: int, step: int, purpose: int, lane: int = 0) -> float:
    """The same number as `philox_uniform` for one episode, in plain Python integers."""
    word = _words(seed, episode, step, purpose, lane // 4)[lane % 4]
    return (int(word) >> 8) * _UNIT


def seed_for(seed: int, purpose: int, index: int = 0) -> int:
    """An independent 63-bit seed per purpose and index (fold, cell, worker), for any generator."""
    # The all-ones step keeps derived seeds away from every per-step draw.
    words = _words(seed, index, _WORD, purpose, 0)
    return (int(words[0]) << 31) | (int(words[1]) >> 1)


def generator_for(
    seed: int, purpose: int, index: int = 0, device: str | torch.device = "cpu"
) -> torch.Generator:
    """A torch generator of its own per purpose and index, so that drawing for one never shifts another."""
    return torch.Generator(device=device).manual_seed(seed_for(seed, purpose, index))
