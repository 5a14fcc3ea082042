"""Philox: the published answers, the scalar twin, independence of batch and lane."""

import numpy as np
import pytest
import torch

from alpha_core.rng import (
    Purpose,
    generator_for,
    philox4x32,
    philox_uniform,
    philox_uniform_scalar,
    philox_uniforms,
    seed_for,
)

# Random123 1.14, tests/kat_vectors: philox4x32 10 (counter, key, answer).
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_published_vectors(counter, key, answer):
    assert philox4x32(counter, key) == answer
    tensors = tuple(torch.tensor([word, 0], dtype=torch.int64) for word in counter)
    assert tuple(int(word[0]) for word in philox4x32(tensors, key)) == answer


def test_a_batch_of_counters_equals_each_alone():
    counters = np.random.default_rng(0).integers(0, 2**32, size=(4, 1000))
    batch = philox4x32(tuple(torch.from_numpy(row) for row in counters), (7, 2**31 + 5))
    for i in range(0, 1000, 37):
        alone = philox4x32(tuple(int(row[i]) for row in counters), (7, 2**31 + 5))
        assert tuple(int(word[i]) for word in batch) == alone


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, -1, 2**40 + 3])
def test_scalar_twin_is_equal(seed):
    episodes = torch.tensor([0, 1, 2**31, 2**32 - 1, 2**32, 2**45 + 7], dtype=torch.int64)
    for step, purpose, lane in [
        (0, Purpose.FILL, 0),
        (599, Purpose.THOMPSON, 8),
        (2**32 - 1, Purpose.START, 3),
    ]:
        batch = philox_uniform(seed, episodes, step, purpose, lane)
        assert batch.dtype == torch.float32
        twin = [philox_uniform_scalar(seed, int(e), step, purpose, lane) for e in episodes]
        assert batch.tolist() == twin


def test_a_draw_depends_neither_on_batch_nor_on_how_the_step_is_given():
    episodes = torch.arange(1000, dtype=torch.int64)
    whole = philox_uniform(5, episodes, 17, Purpose.FILL)
    assert torch.equal(whole[300:301], philox_uniform(5, episodes[300:301], 17, Purpose.FILL))
    assert torch.equal(whole, philox_uniform(5, episodes, torch.tensor(17), Purpose.FILL))
    assert torch.equal(whole, philox_uniform(5, episodes, torch.full((1000,), 17), Purpose.FILL))


def test_lanes_together_equal_lanes_alone():
    episodes = torch.arange(50, dtype=torch.int64)
    together = philox_uniforms(9, episodes, 3, Purpose.THOMPSON, 9)
    alone = [philox_uniform(9, episodes, 3, Purpose.THOMPSON, lane) for lane in range(9)]
    assert torch.equal(together, torch.stack(alone, dim=1))


def test_every_argument_changes_the_draw():
    episodes = torch.arange(4000, dtype=torch.int64)
    base = philox_uniform(1, episodes, 2, Purpose.FILL)
    others = [
        philox_uniform(2, episodes, 2, Purpose.FILL),
        philox_uniform(1 + 2**32, episodes, 2, Purpose.FILL),
        philox_uniform(1, episodes + 2**32, 2, Purpose.FILL),
        philox_uniform(1, episodes, 3, Purpose.FILL),
        philox_uniform(1, episodes, 2, Purpose.THOMPSON),
        philox_uniform(1, episodes, 2, Purpose.FILL, 1),
        philox_uniform(1, episodes, 2, Purpose.FILL, 4),
    ]
    for other in others:
        assert (base == other).float().mean() < 0.01
        correlation = torch.corrcoef(torch.stack([base, other]))[0, 1]
        assert abs(float(correlation)) < 5 / 4000**0.5


def test_uniforms_fill_the_unit_interval():
    draws = philox_uniforms(3, torch.arange(50_000, dtype=torch.int64), 0, Purpose.FILL, 4).flatten()
    assert float(draws.min()) >= 0.0
    assert float(draws.max()) < 1.0
    counts = torch.histc(draws, bins=20, min=0.0, max=1.0)
    expected = draws.numel() / 20
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 43.8  # 99.9 % point of chi-square with 19 degrees of freedom


def test_generators_are_separate_streams():
    first = torch.rand(4, generator=generator_for(1, Purpose.SHUFFLE))
    assert torch.equal(first, torch.rand(4, generator=generator_for(1, Purpose.SHUFFLE)))
    for other in (
        generator_for(1, Purpose.REPLAY),
        generator_for(2, Purpose.SHUFFLE),
        generator_for(1, 7, 1),
    ):
        assert not torch.equal(first, torch.rand(4, generator=other))
    assert 0 <= seed_for(-1, Purpose.START, 5) < 2**63
