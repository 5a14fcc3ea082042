"""Why the last attempt at an artifact failed, kept beside the partition until one succeeds.

    <store>/<stage>/<partition>/failure.json   the stamp that was tried, and the sentence

The stamp says whether the sentence still holds: with other inputs, code or configuration it is nobody's answer.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alpha_core.durable import write_atomic
from alpha_core.errors import AlphaError
from alpha_pipeline.provenance import Stamp

_NAME = "failure.json"


@contextmanager
def failure_kept(partition: Path, stamp: Stamp) -> Iterator[None]:
    """Keep why the block failed; once it succeeds, forget. Whoever enters holds the partition's lock.

    What the machine refused (a full disk, a folder's rights) is not the input's fault and is not kept.

    Args:
        partition: folder of the stage's partition.
        stamp: what the attempt is made from.
    """
    record = partition / _NAME
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        with suppress(OSError):
            write_atomic(record, json.dumps({"stamp": stamp.to_dict(), "reason": _sentence(error)}).encode())
        raise
    record.unlink(missing_ok=True)


def has_failed(partition: Path) -> bool:
    """Whether the last attempt at a partition failed, with whatever inputs it had."""
    return (partition / _NAME).is_file()


def kept_failure(partition: Path, stamp: Stamp) -> str | None:
    """Why the last attempt failed, None when it did not or was made from anything else than `stamp`."""
    try:
        record = json.loads((partition / _NAME).read_bytes())
        return str(record["reason"]) if Stamp.from_dict(record["stamp"]) == stamp else None
    except (OSError, ValueError, KeyError, TypeError):  # none was kept, or a crash or a hand spoilt it
        return None


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, AlphaError) else f"unexpected {type(error).__name__}: {text}"
