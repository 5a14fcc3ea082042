"""Processes that work side by side, and what becomes of the others when one is killed."""

import os
import signal
import time

import pytest

from alpha_core.errors import ConfigError
from alpha_pipeline.workers import WorkerDiedError, worker_count, worker_pool


def answer(value: int) -> int:
    if value == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if value == 5:
        raise ConfigError("five is no answer")
    return 10 * value


def test_killed_worker_takes_its_own_task_and_no_other():
    with worker_pool(2) as pool:
        tasks = [pool.submit(answer, k) for k in range(8)]
    for k, task in enumerate(tasks):
        if k == 3:
            with pytest.raises(
                WorkerDiedError, match="its process was killed, by hand or for want of memory"
            ):
                task.result()
        elif k == 5:
            with pytest.raises(ConfigError, match="five is no answer"):
                task.result()
        else:
            assert task.result() == 10 * k


def test_what_has_not_begun_never_begins_after_an_error():
    with pytest.raises(KeyboardInterrupt), worker_pool(1) as pool:
        first, _, last = pool.submit(answer, 1), pool.submit(time.sleep, 5), pool.submit(answer, 2)
        first.result()
        raise KeyboardInterrupt
    assert last.cancelled()


def test_count_is_what_was_asked_for_and_never_more_than_there_is_to_do():
    assert worker_count(4, 2) == 2
    assert worker_count(3, 8) == 3
    assert 1 <= worker_count(None, 8) <= (os.cpu_count() or 1)
    with pytest.raises(ConfigError, match="--processes was 0, must be at least 1"):
        worker_count(0, 3)
