"""Streamed rows are the resident rows, bit for bit, and waiting for them is counted."""

import random
import threading
import time
from contextlib import closing
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from alpha_core.errors import DataError
from alpha_core.training.mirror import EVEN, ODD
from alpha_core.training.perception import fit_perception, new_model
from alpha_core.training.sequences import MappedData, blocks, stream_rows
from alpha_core.training.source import Resident, Streamed, source_of
from alpha_core.training.trainer import Trainer

CPU = torch.device("cpu")
CUTS = (0, 1, 300, 301, 700, 1200)
"""Ends of the parts: single rows, and parts that blocks and streams straddle."""


def mapped(data, folder):
    """The same rows with their features in files, one a part, mapped and not writable."""
    parts = []
    for i, (low, high) in enumerate(pairwise(CUTS)):
        np.save(folder / f"{i}.npy", data.features[low:high].numpy())
        parts.append(np.load(folder / f"{i}.npy", mmap_mode="r"))
    names = ("seconds_since_previous", "labels", "valid", "segment", "feature_names")
    return MappedData(features=tuple(parts), **{name: getattr(data, name) for name in names})


@pytest.fixture(scope="module")
def named(small):
    return replace(small, feature_names=(*sorted(ODD), *sorted(EVEN)))


@pytest.fixture(scope="module")
def on_disk(named, tmp_path_factory):
    return mapped(named, tmp_path_factory.mktemp("parts"))


def walk(data, streams=7, length=16, offset=90):
    positions, used = stream_rows(data.rows, streams, offset)
    return blocks(positions, used, data.first_of_segment(), length)


def test_streamed_batches_are_the_resident_ones(named, on_disk):
    """Seven streams of 172 rows: padding, wrapping and a shorter last block are all among them."""
    resident = Resident(named, CPU).batches(walk(named))
    count = 0
    for own, other in zip(resident, Streamed(on_disk, CPU, rows=7 * 16).batches(walk(named)), strict=True):
        for name, value in own._asdict().items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, getattr(other, name)), name
                assert value.dtype == getattr(other, name).dtype
        assert (own.reset is None) == (other.reset is None)
        count += 1
    assert count == 11


def test_mapped_rows_can_be_resident_too(named, on_disk):
    assert torch.equal(Resident(on_disk, CPU).features, named.features)


def test_size_chooses_the_source(named, on_disk):
    for data in (named, on_disk):
        assert isinstance(source_of(data, CPU, streams=2, length=8, resident_gib=1.0), Resident)
        assert isinstance(source_of(data, CPU, streams=2, length=8, resident_gib=1e-6), Streamed)


def test_streamed_training_gives_the_same_bits(named, on_disk, tiny_config):
    config = replace(tiny_config, mirror=True)
    validation = named.slice(900, 1200)
    whole = fit_perception(named.slice(0, 850), validation, config, seed=0)
    streaming = replace(config, resident_gib=0.0)
    for train in (named.slice(0, 850), on_disk.slice(0, 850)):
        fit = fit_perception(train, validation, streaming, seed=0)
        assert fit.history == whole.history
        for name, value in whole.model.state_dict().items():
            assert torch.equal(value, fit.model.state_dict()[name]), name


def test_bits_do_not_depend_on_when_the_thread_is_ready(named, tiny_config, monkeypatch):
    """A thread that dawdles at random moments, and a trainer that does."""
    config = replace(tiny_config, resident_gib=0.0)
    rng, ends = random.Random(0), []
    gather, update = Streamed._gather, Trainer._update
    for slow_thread, slow_trainer in ((0.0, 0.0), (0.02, 0.0), (0.0, 0.02), (0.01, 0.01)):

        def dawdling_gather(*arguments, most=slow_thread):
            time.sleep(rng.uniform(0, most))
            gather(*arguments)

        def dawdling_update(*arguments, most=slow_trainer):
            time.sleep(rng.uniform(0, most))
            return update(*arguments)

        monkeypatch.setattr(Streamed, "_gather", dawdling_gather)
        monkeypatch.setattr(Trainer, "_update", dawdling_update)
        run = Trainer(new_model(named, config, seed=0), named, config, seed=0)
        run.run()
        ends.append(run)
    for run in ends[1:]:
        assert torch.equal(run.loss, ends[0].loss)
        assert torch.equal(run.model.embed.weight, ends[0].model.embed.weight)


def test_stopping_early_and_errors_leave_no_thread(named, monkeypatch):
    before = threading.active_count()
    source = Streamed(named, CPU, rows=7 * 16)
    with closing(source.batches(walk(named))) as batches:
        assert len(list(islice(batches, 3))) == 3
    assert threading.active_count() == before

    def failing(*_):
        raise OSError("the file is gone")

    monkeypatch.setattr(Streamed, "_gather", failing)
    with pytest.raises(OSError, match="the file is gone"):
        list(source.batches(walk(named)))
    assert threading.active_count() == before


def test_waiting_for_input_is_counted(named, tiny_config, monkeypatch):
    """A slow thread is waited for; beside a slow trainer the same thread is ready in time."""
    config = replace(tiny_config, resident_gib=0.0)

    def delayed(owner, name):
        whole = getattr(owner, name)

        def slow(*arguments):
            time.sleep(0.05)
            return whole(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, slow)
            run = Trainer(new_model(named, config, seed=0), named, config, seed=0)
            run.run()
        run.close_epoch(0.5, {})
        return run.input_waits[0]

    assert delayed(Streamed, "_gather") > 0.5
    assert delayed(Trainer, "_update") < 0.3


def test_mapped_rows_are_checked_and_digested_as_rows_in_memory(named, on_disk, monkeypatch):
    monkeypatch.setattr("alpha_core.training.sequences.CHUNK", 128)
    assert on_disk.digest() == named.digest()
    assert on_disk.slice(250, 800).digest() == named.slice(250, 800).digest()
    assert torch.equal(on_disk.slice(250, 800).loaded().features, named.features[250:800])
    parts = [part.copy() for part in on_disk.features]
    parts[3][7, 33] = np.nan
    parts[4][9, 33] = np.inf
    with pytest.raises(DataError, match=rf"feature {named.feature_names[33]} was nan in row 308 \(2 rows\)"):
        replace(on_disk, features=tuple(parts)).require_finite()
    with pytest.raises(
        DataError, match=r"features of part 1 are float64 \[299, 40\], must be float32 \[n, 40\]"
    ):
        replace(on_disk, features=(parts[0], parts[1].astype(np.float64), *parts[2:]))


@pytest.mark.gpu
def test_streaming_to_a_gpu_gives_the_bits_of_resident_rows(named, on_disk, tiny_config):
    ends = []
    for data, gib in ((named, 16.0), (on_disk, 0.0)):
        config = replace(tiny_config, resident_gib=gib)
        model = new_model(data, config, seed=0).to("cuda")
        run = Trainer(model, data, config, seed=0)
        run.run()
        assert run.learn._captured is not None
        ends.append((run.loss.item(), {k: v.cpu() for k, v in model.state_dict().items()}))
    assert ends[0][0] == ends[1][0]
    for name, value in ends[0][1].items():
        assert torch.equal(value, ends[1][1][name]), name
