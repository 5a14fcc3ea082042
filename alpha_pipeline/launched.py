"""What bringing a graph up to date did, in plain words for people and machines."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Launched:
    """What a launch did.

    Attributes:
        built: stage and partition of everything that ran and succeeded.
        fresh: stage and partition of everything that was up to date.
        failed: partition to the one sentence that says why it failed or was rejected, now or before.
        seconds: wall time.
    """

    built: list[tuple[str, str]] = field(default_factory=list)
    fresh: list[tuple[str, str]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def note(self, partition: str, fresh: Sequence[str], rejection: str | None) -> None:
        """Enter what held of a partition before anything ran: a day once rejected stays told until it is mended."""
        self.fresh += [(name, partition) for name in fresh]
        if rejection is not None:
            self.failed[partition] = rejection

    def add(self, other: "Launched") -> None:
        """Enter what another process did with partitions of its own."""
        self.built += other.built
        self.fresh += other.fresh
        self.failed |= other.failed
