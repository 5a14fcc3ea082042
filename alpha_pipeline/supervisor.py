"""Child processes that live and die together. Knows nothing of what they serve."""

import contextlib
import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self
from urllib.parse import urlsplit

from alpha_core.errors import AlphaError

_POLL_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ServiceError(AlphaError):
    """A service could not be started or died."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """One program to run.

    Attributes:
        name: what people call it; also the name of its log file.
        command: program and arguments.
        probe: http:// address that answers, or tcp:// address that accepts, once it is ready; empty: at once.
        environment: variables on top of ours.
    """

    name: str
    command: Sequence[str]
    probe: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def free_port(host: str, wanted: int, taken: Sequence[int] = ()) -> int:
    """`wanted`, or the next of 50 above it that nobody listens on.

    Raises:
        ServiceError: all of them are busy.
    """
    for port in range(wanted, wanted + 50):
        if port not in taken and _is_free(host, port):
            return port
    raise ServiceError(f"ports {wanted} to {wanted + 49} on {host} are all busy: choose another with --port")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _answers(probe: str) -> bool:
    """Whether the service behind the address is ready. Never goes through a proxy."""
    url = urlsplit(probe)
    if url.hostname is None or url.port is None:
        return True
    try:
        with contextlib.closing(http.client.HTTPConnection(url.hostname, url.port, timeout=2)) as connection:
            connection.connect()
            if url.scheme == "tcp":
                return True
            connection.request("GET", url.path or "/")
            return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False


class Supervisor:
    """Starts services, waits for them, and stops all when one dies or a signal asks for it.

    A context manager: whatever happens inside, no child outlives it. SIGINT and SIGTERM set `stopping`. A
    shell starts background jobs with SIGINT ignored, and children inherit that; since we install handlers
    before starting any, they begin with the default again.
    """

    def __init__(self, logs: Path, *, patience: float = 180.0, grace: float = 15.0) -> None:
        """Make one.

        Args:
            logs: folder of the log files, one a service.
            patience: seconds a service may take to become ready.
            grace: seconds between the request to end and the order.
        """
        self.logs = logs
        self.stopping = threading.Event()
        self._patience = patience
        self._grace = grace
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._handlers: dict[int, signal.Handlers | int | None] = {}

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.getsignal(number)  # type: ignore[assignment]
            signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_all()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.stopping.set()

    def log_of(self, name: str) -> Path:
        """Log file of a service."""
        return self.logs / f"{name}.log"

    def start(self, service: Service) -> None:
        """Start a service in a process group of its own, its output going to its log (the last one is kept).

        Raises:
            ServiceError: the program cannot be executed.
        """
        log = self.log_of(service.name)
        if log.exists():
            log.replace(log.with_suffix(".previous.log"))
        with log.open("wb") as out:
            try:
                self._children[service.name] = subprocess.Popen(
                    list(service.command),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, **service.environment},
                    preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
                )
            except OSError as error:
                raise ServiceError(f"{service.name} could not be started: {error}") from error

    def wait_for(self, *services: Service) -> bool:
        """Wait until each answers its probe. False when a signal came first.

        Raises:
            ServiceError: a child died, or one did not answer in time.
        """
        deadline = time.monotonic() + self._patience
        waiting = [service for service in services if service.probe]
        while waiting and not self.stopping.is_set():
            self.check()
            waiting = [service for service in waiting if not _answers(service.probe)]
            if waiting and time.monotonic() > deadline:
                late = waiting[0].name
                raise ServiceError(
                    f"{late} did not answer within {self._patience:.0f} s; see {self.log_of(late)}"
                )
            if waiting:
                self.stopping.wait(_POLL_SECONDS)
        return not self.stopping.is_set()

    def check(self) -> None:
        """Raise if a child has died.

        Raises:
            ServiceError: names it, its exit code and its log.
        """
        for name, child in self._children.items():
            if child.poll() is not None:
                raise ServiceError(
                    f"{name} stopped with exit code {child.returncode}; see {self.log_of(name)}"
                )

    def supervise(self) -> None:
        """Return when a signal asks to stop.

        Raises:
            ServiceError: a child died.
        """
        while not self.stopping.wait(_POLL_SECONDS):
            self.check()

    def _stop_all(self) -> None:
        """End every child and what it started: ask, wait, then kill."""
        deadline = time.monotonic() + self._grace
        for child in self._children.values():
            _signal_group(child, signal.SIGTERM)
        for child in self._children.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, deadline - time.monotonic()))
        for child in self._children.values():
            _signal_group(child, signal.SIGKILL)
            child.wait()


def _signal_group(child: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # all of the group is gone: what we wanted
        os.killpg(child.pid, number)


def _end_with_parent() -> None:
    """In the child: ask the kernel for SIGTERM when we die, so that even SIGKILL leaves no orphan server."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
