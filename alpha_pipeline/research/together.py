"""One perception fitted by several processes, one for each GPU: what `processes` in an instrument's file asks for.

torchrun starts them. Each opens the same cached days by their paths, walks its share of the streams (see
`alpha_core.training.ranks`), and ends when the process that asked for the fit is gone, however that ended. What they
say comes back as lines of JSON behind a mark on standard output, the fit itself as its files.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from alpha_core import errors
from alpha_core.errors import AlphaError, ConfigError
from alpha_core.training.config import PerceptionConfig
from alpha_core.training.perception import (
    PerceptionFit,
    Resume,
    fit_perception,
    load_perception,
    save_perception,
)
from alpha_core.training.ranks import torchrun_ranks
from alpha_pipeline.config import PipelineConfig
from alpha_pipeline.evaluation.splits import RowRange
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.research.rows import Rows, join
from alpha_pipeline.threads import use_threads
from alpha_pipeline.workers import end_when_gone

MARK = "alpha: "
"""Begins a line that is meant for the asking process; libraries print lines of their own."""

_GRACE_S = 15.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """What each process is told; plain values that a JSON document holds.

    Attributes:
        files: cached days, oldest first.
        days: their keys.
        train: first row and the one after the last.
        validation: the same.
        perception: fields of PerceptionConfig.
        seed: see `fit_perception`.
        device: "cpu" or "cuda".
        threads: CPU threads of each process.
        out: folder for the fit.
        state: folder that training is resumed from, None to keep no state.
        every: updates between two saves of it.
        parent: process that asked.
    """

    files: list[str]
    days: list[str]
    train: list[int]
    validation: list[int]
    perception: dict[str, Any]
    seed: int
    device: str
    threads: int
    out: str
    state: str | None
    every: int
    parent: int


def fit_together(
    rows: Rows,
    train: RowRange,
    validation: RowRange,
    config: PipelineConfig,
    on_epoch: Callable[[dict[str, float]], None] | None,
    resume: Resume | None,
) -> PerceptionFit:
    """`fit_perception` in `config.processes` processes; the same arguments give the same weights.

    Raises:
        ConfigError: more processes than GPUs or streams.
        AlphaError: what `fit_perception` raises, or a process died.
    """
    _require_devices(config)
    waits: list[float] = []

    def epoch_ended(record: dict[str, float]) -> None:
        waits.append(record["input_wait"])
        if on_epoch is not None:
            on_epoch(record)

    with TemporaryDirectory(prefix="alpha-fit-") as folder:
        request = _request(rows, train, validation, config, resume, Path(folder))
        document = Path(folder, "request.json")
        document.write_text(json.dumps(asdict(request)))
        with _torchrun(document, config.processes, Path(folder, "stderr.txt")) as said:
            for line in said:
                _hear(json.loads(line), epoch_ended, resume)
        return replace(load_perception(Path(request.out)), input_waits=tuple(waits))


def _require_devices(config: PipelineConfig) -> None:
    gpus = torch.cuda.device_count()
    if config.device.startswith("cuda") and config.processes > gpus:
        raise ConfigError(
            f"processes was {config.processes} with device '{config.device}', must be at most the number of GPUs, "
            f"{gpus}: lower it"
        )


def _request(
    rows: Rows,
    train: RowRange,
    validation: RowRange,
    config: PipelineConfig,
    resume: Resume | None,
    folder: Path,
) -> Request:
    return Request(
        files=[str(cached.info.path) for cached in rows.cached],
        days=list(rows.days),
        train=[train.start, train.stop],
        validation=[validation.start, validation.stop],
        perception=asdict(config.perception),
        seed=config.seed,
        device=config.device.partition(":")[0],
        threads=config.threads,
        out=str(folder / "fit"),
        state=None if resume is None else str(resume.folder),
        every=0 if resume is None else resume.every,
        parent=os.getpid(),
    )


@contextmanager
def _torchrun(document: Path, processes: int, log: Path) -> Iterator[Iterator[str]]:
    """The marked lines of the processes while they run. Raises AlphaError when they end otherwise than well."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(processes),
    ]
    command += ["-m", __name__, str(document)]
    with log.open("w") as stderr:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert running.stdout is not None
        try:
            yield (line[len(MARK) :] for line in running.stdout if line.startswith(MARK))
            code = running.wait()
        finally:
            _end(running)
    if code:
        lines = [line for line in log.read_text().splitlines() if line.strip()]
        raise AlphaError(
            f"training in {processes} processes ended with exit code {code}"
            f"{f': {lines[-1].strip()}' if lines else ''}: run again, with fewer processes if memory is short"
        )


def _end(running: "subprocess.Popen[str]") -> None:
    """Stop torchrun, which stops the processes, where it has not ended by itself."""
    if running.poll() is None:
        running.terminate()
        try:
            running.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
    if running.stdout is not None:
        running.stdout.close()


def _hear(
    said: dict[str, Any], epoch_ended: Callable[[dict[str, float]], None], resume: Resume | None
) -> None:
    if "epoch" in said:
        epoch_ended(said["epoch"])
    elif "error" in said:
        raise getattr(errors, said["error"])(said["text"])
    elif resume is not None:
        resume.report(said["report"])


def _say(**told: Any) -> None:
    print(f"{MARK}{json.dumps(told)}", flush=True)


def main(document: str) -> int:
    """What one of the processes does; an error that a person can mend is told by the first."""
    request = Request(**json.loads(Path(document).read_text()))
    end_when_gone(request.parent)
    use_threads(request.threads)
    with torchrun_ranks(request.device) as ranks:
        resume = None
        if request.state is not None:
            resume = Resume(
                folder=Path(request.state), report=lambda text: _say(report=text), every=request.every
            )
        try:
            rows = join([open_day(Path(file), verify="fast") for file in request.files], request.days)
            fit = fit_perception(
                rows.mapped.slice(*request.train),
                rows.part(RowRange(*request.validation)),
                _perception(request.perception),
                seed=request.seed,
                on_epoch=lambda record: _say(epoch=record),
                resume=resume,
                ranks=ranks,
            )
        except AlphaError as error:
            if ranks.first:
                _say(error=type(error).__name__, text=str(error))
            return 1
        if ranks.first:
            save_perception(fit, Path(request.out))
    return 0


def _perception(fields: dict[str, Any]) -> PerceptionConfig:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return PerceptionConfig(**values)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
