"""Processes that work beside this one and end with it."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from alpha_core.errors import ConfigError

WORKER_BYTES = 3 * 2**29
"""Memory that one worker may need: 1.5 GiB, what building a day takes with the libraries it loads, and some room."""


def worker_count(wanted: int | None, tasks: int) -> int:
    """How many processes to start: as asked, or as cores and free memory allow; never more than tasks.

    Raises:
        ConfigError: fewer than one was asked for.
    """
    if wanted is not None and wanted < 1:
        raise ConfigError(f"--processes was {wanted}, must be at least 1")
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    allowed = min(os.cpu_count() or 1, max(1, free // WORKER_BYTES))
    return max(1, min(wanted or allowed, tasks))


@contextmanager
def worker_pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh interpreters; what has not begun when the block is left by an error never begins."""
    pool = ProcessPoolExecutor(
        count, mp_context=get_context("spawn"), initializer=_end_with, initargs=(os.getpid(),)
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _end_with(parent: int) -> None:
    """End this worker when the process that started it is gone, however it ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
