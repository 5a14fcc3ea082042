"""The ledger of out-of-sample looks: append-only JSON lines, one for each time the days were opened.

What counts as a look: a record of the same span (instrument and out-of-sample days) with another inputs
digest. Evaluating identical inputs again is the same look, because it can show nothing new; anything else, be
it a seed, a line of code or a corrected file, is another attempt at the same days and counts. The number of
earlier looks of an inputs digest is fixed by its first record, so that a re-run months later gives the same
verdict as the first.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alpha_core.errors import DataError
from alpha_pipeline.provenance import digest_json


@dataclass(frozen=True, kw_only=True)
class Look:
    """One opening of out-of-sample days.

    Attributes:
        when: time of the opening, ISO 8601 with zone.
        run_id: run that opened them.
        instrument: what is traded; a simulated market's identity must include its seed and settings.
        days: the out-of-sample days.
        inputs: digest of everything the verdict depends on.
        code: revision of the code.
        data: name to content digest of the days' data.
    """

    when: str
    run_id: str
    instrument: str
    days: tuple[str, ...]
    inputs: str
    code: str
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def span(self) -> str:
        """Digest of instrument and days, which is what the look budget is counted on."""
        return span_digest(self.instrument, self.days)


@dataclass(frozen=True, kw_only=True)
class LookCount:
    """How often the days were opened before this look.

    Attributes:
        earlier: distinct other inputs that saw exactly these days before these inputs first did.
        overlapping: distinct other inputs of the instrument that saw some of these days before, as part of
            another span; shown, not counted, since a rolling window shares its days with yesterday's.
    """

    earlier: int
    overlapping: int


def span_digest(instrument: str, days: Sequence[str]) -> str:
    """Identity of an out-of-sample span; corrected files of the same days are the same span."""
    return digest_json([instrument, sorted(days)])


class LookLedger:
    """Looks in one file, oldest first. Lines are only ever appended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open_days(self, look: Look) -> LookCount:
        """Record a look and count those before it, in one step that other processes wait for.

        A record is written before the days are read, so that a killed run still counts.

        Raises:
            DataError: the ledger cannot be read.
        """
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            count = self.count(look)
            line = json.dumps(asdict(look) | {"span": look.span}, sort_keys=True, allow_nan=False)
            _append(self.path, line.encode() + b"\n")
            return count

    def count(self, look: Look) -> LookCount:
        """Looks before this one; see `LookCount`. Records nothing."""
        before: list[Look] = []
        for past in self.looks():
            if past.inputs == look.inputs and past.span == look.span:
                break
            before.append(past)
        same = {past.inputs for past in before if past.span == look.span}
        shared = {
            past.inputs
            for past in before
            if past.instrument == look.instrument
            and past.span != look.span
            and set(past.days) & set(look.days)
        }
        return LookCount(earlier=len(same), overlapping=len(shared - same))

    def looks(self) -> list[Look]:
        """All looks, oldest first; none when the file does not exist.

        Raises:
            DataError: a line is not a look. The budget cannot be counted then, and it must not start afresh.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_text().splitlines()
        return [_parse(self.path, i, line) for i, line in enumerate(lines, start=1) if line.strip()]


def _append(path: Path, record: bytes) -> None:
    """Add a record in one write, or leave the file as it was."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        written = os.write(handle, record)
        if written != len(record):
            os.ftruncate(handle, size)
            raise DataError(f"{path} took {written} of {len(record)} bytes: free disk space and run again")
        os.fsync(handle)
    finally:
        os.close(handle)


def _parse(path: Path, number: int, line: str) -> Look:
    try:
        raw: dict[str, Any] = json.loads(line)
        raw.pop("span", None)
        raw["days"] = tuple(raw["days"])
        return Look(**raw)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path} line {number} is not a look ({error}): restore the ledger, which is the look budget, "
            "from a backup"
        ) from error
