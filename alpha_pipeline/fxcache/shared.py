"""Cached days in a folder that others read: pushed whole or not at all, pulled as verified local files.

    <url>/<instrument>/<day>/<digest>.fxcache   the bytes of a file, under the digest of its content, never changed
    <url>/<instrument>/<day>.json               which of them is in force

A pusher writes the file first and the pointer last, on the condition that the pointer is still what was read before:
of two writers one wins, and whoever follows the pointer finds a whole file. A pusher that is killed leaves the old
pointer in force and at most a file that nothing points at. Replaced files stay, for readers under way.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alpha_core.durable import publish
from alpha_core.errors import AlphaError, ConfigError, DataError
from alpha_pipeline.bucket import Bucket
from alpha_pipeline.fxcache.format import check_day
from alpha_pipeline.fxcache.readers import open_day
from alpha_pipeline.fxcache.store import SUFFIX, day_path
from alpha_pipeline.fxcache.writer import day_lock
from alpha_pipeline.provenance import canonical_json, digest_file, digest_pieces

PUSHED, PULLED, PRESENT, REFUSED = "pushed", "pulled", "present", "refused"


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """What came of one day.

    Attributes:
        day: partition key.
        outcome: PUSHED, PULLED, PRESENT (the very same file is there already, byte for byte) or REFUSED.
        detail: why it was refused; else what the file holds.
        file: the local file.
    """

    day: str
    outcome: str
    detail: str
    file: Path


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """Which file of a day is in force.

    Attributes:
        digest: of its bytes.
        size: bytes.
        rows: decision points.
        builder: digest of the code and configuration that made it.
        sources: digest of each of its sources.
    """

    digest: str
    size: int
    rows: int
    builder: str
    sources: dict[str, str]

    def encode(self) -> bytes:
        return canonical_json(self).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> "Pointer":
        """Raises DataError for anything but what `encode` writes."""
        try:
            pointer = cls(**json.loads(data))
            if not re.fullmatch(r"[0-9a-f]{32}", pointer.digest):
                raise ValueError("its digest is none")
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{where} is not readable ({error}): push the day again with --replace"
            ) from error
        return pointer


class SharedDays:
    """The cached days of one instrument in a shared folder."""

    def __init__(self, bucket: Bucket, instrument: str) -> None:
        self._bucket = bucket
        self._instrument = instrument

    def days(self) -> list[str]:
        """Days with a file in force, oldest first."""
        form = re.compile(rf"{re.escape(self._instrument)}/(\d{{4}}-\d\d-\d\d)\.json")
        found = (form.fullmatch(stored.name) for stored in self._bucket.list())
        return sorted(match[1] for match in found if match)

    def push(self, file: Path, *, replace: bool = False) -> Exchanged:
        """Put a cached day in force for all.

        Args:
            file: a file of this instrument; its checksums are verified first.
            replace: whether another file of the same day, or a damaged one, may be in force and is then replaced.

        Raises:
            InputError: the file is damaged.
            ConfigError: it is another instrument's.
            DataError: the shared folder did not answer.
        """
        header = open_day(file, verify="full").info.header
        if header.instrument != self._instrument:
            raise ConfigError(f"{file} is of {header.instrument}, must be of {self._instrument}")
        mine = Pointer(
            digest=digest_file(file),
            size=file.stat().st_size,
            rows=header.rows,
            builder=header.builder_digest,
            sources=dict(header.source_digests),
        )
        outcome, detail = self._put_in_force(header.day, mine, file, replace)
        return Exchanged(day=header.day, outcome=outcome, detail=detail, file=file)

    def _put_in_force(self, day: str, mine: Pointer, file: Path, replace: bool) -> tuple[str, str]:
        before = self._bucket.read(self._pointer(day))
        if before is not None and not replace:
            return self._compared(day, mine, before[0])
        if self._spoiled(day, mine) is not None:
            self._bucket.put_file(self._object(day, mine), file)
        if self._bucket.put_if(self._pointer(day), mine.encode(), before and before[1]):
            return PUSHED, f"{mine.rows} rows"
        winner = self._bucket.read(self._pointer(day))
        return self._compared(day, mine, winner[0] if winner else b"")

    def _compared(self, day: str, mine: Pointer, theirs: bytes) -> tuple[str, str]:
        other = Pointer.decode(theirs, f"{self._bucket.url}/{self._pointer(day)}")
        if other.digest == mine.digest:
            spoiled = self._spoiled(day, mine)
            return (REFUSED, spoiled) if spoiled else (PRESENT, f"{mine.rows} rows")
        differs = (
            "made by other code or configuration" if other.builder != mine.builder else "of other sources"
        )
        return REFUSED, f"another file of {day} is in force, {differs}: pull it, or push with --replace"

    def _spoiled(self, day: str, pointer: Pointer) -> str | None:
        """Why the bytes behind a pointer are not what was pushed, None when they are; reads them back."""
        name = self._object(day, pointer)
        where = f"{self._bucket.url}/{name}"
        try:
            found = digest_pieces(self._bucket.pieces(name))
        except FileNotFoundError:
            return f"{where} is gone: push the day again with --replace"
        if found != pointer.digest:
            return f"{where} does not have the digest in its name: push the day again with --replace"
        return None

    def pull(self, day: str, folder: Path) -> Exchanged:
        """Make a local file of a shared day, or leave the one that is there when it is the same.

        Args:
            day: which.
            folder: for the file `<day>.fxcache`.

        Raises:
            ConfigError: no such day.
            DataError: what came is not what was pushed.
        """
        target = day_path(folder, check_day(day))
        found = self._bucket.read(self._pointer(day))
        if found is None:
            raise ConfigError(f"day was {day}, must be one that {self._bucket.url} has of {self._instrument}")
        pointer = Pointer.decode(found[0], f"{self._bucket.url}/{self._pointer(day)}")
        with day_lock(target):
            if target.exists() and digest_file(target) == pointer.digest:
                return Exchanged(day=day, outcome=PRESENT, detail=f"{pointer.rows} rows", file=target)
            with self._fetched(day, pointer, target) as whole:
                publish(whole, target)
        return Exchanged(day=day, outcome=PULLED, detail=f"{pointer.rows} rows", file=target)

    @contextmanager
    def _fetched(self, day: str, pointer: Pointer, target: Path) -> Iterator[Path]:
        """The file under a hidden name beside its target, verified; gone when the block is left."""
        name = self._object(day, pointer)
        stored = self._bucket.find(name)
        if stored is None:
            raise DataError(f"{self._bucket.url}/{name} is gone: push the day again with --replace")
        whole = target.with_name(f".{target.name}.pull.tmp")
        try:
            self._bucket.fetch(stored, whole)
            self._verify(whole, day, pointer, name)
            yield whole
        finally:
            whole.unlink(missing_ok=True)

    def _verify(self, whole: Path, day: str, pointer: Pointer, name: str) -> None:
        where = f"{self._bucket.url}/{name}"
        if digest_file(whole) != pointer.digest:
            raise DataError(
                f"{where} does not have the digest in its name: push the day again with --replace"
            )
        try:
            header = open_day(whole, verify="full").info.header
        except AlphaError as error:
            raise DataError(f"{where} cannot be used: {error}") from error
        if (header.instrument, header.day) != (self._instrument, day):
            raise DataError(
                f"{where} is of {header.instrument} on {header.day}, must be of {self._instrument} on {day}: "
                "push the day again with --replace"
            )

    def _pointer(self, day: str) -> str:
        return f"{self._instrument}/{day}.json"

    def _object(self, day: str, pointer: Pointer) -> str:
        return f"{self._instrument}/{day}/{pointer.digest}{SUFFIX}"
