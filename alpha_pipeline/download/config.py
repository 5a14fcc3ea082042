"""What to ask the vendor for, and how patiently."""

import re
from dataclasses import dataclass
from typing import ClassVar

from alpha_core.errors import ConfigError

KEY_VARIABLE = "DATABENTO_API_KEY"
SCHEMAS = ("mbp-10", "mbo")


@dataclass(frozen=True, kw_only=True)
class DownloadConfig:
    """The section `[download]` of an instrument's file.

    Attributes:
        dataset: the vendor's code, such as "GLBX.MDP3".
        symbols: what to ask for, in the vendor's symbology; their answers must match `instrument.symbols`.
        stype_in: kind of these symbols: "raw_symbol", "continuous" or "parent".
        schema: "mbp-10", or "mbo" whose books are then built here.
        attempts: tries of one request, and broken streams in a row that bring nothing new, before a day is given up.
        first_wait_seconds: pause before the second try; doubles from there, unless the vendor names a time.
        longest_wait_seconds: bound on any pause; a day is given up when the vendor asks for a longer one.
        gateway: another address of the API, such as "https://host:port"; the vendor's own when empty.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    dataset: str
    symbols: tuple[str, ...]
    stype_in: str = "raw_symbol"
    schema: str = "mbp-10"
    attempts: int = 6
    first_wait_seconds: float = 2.0
    longest_wait_seconds: float = 300.0
    gateway: str = ""

    def __post_init__(self) -> None:
        problems = []
        if not re.fullmatch(r"[A-Z]{4}\.[A-Z0-9]+(\.[A-Z0-9]+)?", self.dataset):
            problems.append(f"dataset was {self.dataset!r}, must be a code like 'GLBX.MDP3'")
        if not self.symbols or not all(self.symbols):
            problems.append(f"symbols was {self.symbols!r}, must list at least one symbol")
        if self.stype_in not in ("raw_symbol", "continuous", "parent"):
            problems.append(f"stype_in was {self.stype_in!r}, must be raw_symbol, continuous or parent")
        if self.schema not in SCHEMAS:
            problems.append(f"schema was {self.schema!r}, must be one of {', '.join(SCHEMAS)}")
        if not 1 <= self.attempts <= 100:
            problems.append(f"attempts was {self.attempts}, must be in [1, 100]")
        problems += [
            f"{name} was {getattr(self, name)}, must be in (0, 86400]"
            for name in ("first_wait_seconds", "longest_wait_seconds")
            if not 0 < getattr(self, name) <= 86_400
        ]
        if problems:
            raise ConfigError("download: " + "; ".join(problems))
