"""Processes that work beside this one and end with it."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

from alpha_core.errors import AlphaError, ConfigError

P = ParamSpec("P")
T = TypeVar("T")

WORKER_BYTES = 3 * 2**29
"""Memory that one worker may need: 1.5 GiB, what building a day takes with the libraries it loads, and some room."""


class WorkerDiedError(AlphaError):
    """The process that worked on a task is gone."""


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


class WorkerPool:
    """Fresh interpreters that work side by side. One that is killed takes its own task with it and no other's."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="alpha-worker")
        self._own = threading.local()
        self._processes: list[ProcessPoolExecutor] = []

    def submit(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> "Future[T]":
        """Have a task done by the next process that is free; its future raises WorkerDiedError if that is killed."""
        return self._threads.submit(self._in_process, partial(work, *arguments, **named))

    def _in_process(self, task: Callable[[], T]) -> T:
        """Each thread feeds one process, which it replaces when it is gone."""
        if getattr(self._own, "process", None) is None:
            self._own.process = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_end_with, initargs=(os.getpid(),)
            )
            self._processes.append(self._own.process)
        try:
            return self._own.process.submit(task).result()
        except BrokenProcessPool as error:
            self._own.process = None
            raise WorkerDiedError(
                "its process was killed, by hand or for want of memory: run again, with fewer --processes if memory "
                "is short"
            ) from error

    def shutdown(self, *, wait: bool) -> None:
        """End all processes, after their tasks if `wait`; what has not begun otherwise never begins."""
        self._threads.shutdown(wait=wait, cancel_futures=not wait)
        for process in self._processes:
            process.shutdown(wait=wait, cancel_futures=not wait)


@contextmanager
def worker_pool(count: int) -> Iterator[WorkerPool]:
    """A pool of fresh interpreters; what has not begun when the block is left by an error never begins."""
    pool = WorkerPool(count)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False)
        raise
    pool.shutdown(wait=True)


def _end_with(parent: int) -> None:
    """End this worker when the process that started it is gone, however it ended."""
    _end_when(lambda: os.getppid() != parent)


def end_when_gone(process: int) -> None:
    """End this process when another one, which need not have started it itself, is gone."""
    _end_when(lambda: not _lives(process))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end_when(over: Callable[[], bool]) -> None:
    def watch() -> None:
        while not over():
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
