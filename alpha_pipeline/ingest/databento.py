"""The vendor's DBN files as a source: what their names and headers tell, and how they are opened."""

import re
from collections.abc import Sequence
from pathlib import Path

from alpha_core.errors import InputError
from alpha_pipeline.ingest.dbn_file import KINDS, MBO, DbnFile
from alpha_pipeline.ingest.raw import FileName, iso_day
from alpha_pipeline.instrument import InstrumentSpec, symbol_of


class DbnSource:
    """DBN files, one UTC day each.

    Two forms of names: `<symbol>-<date>[.<schema>].dbn[.zst]`, and the vendor's
    `[<note>-]<dataset>-<date>[.<schema>][.<symbol>].dbn[.zst]` with a lower-case dataset such as `glbx-mdp3`,
    where the symbol may lie in the content only. Dates are 2023-12-25 or 20231225.
    """

    NAME = re.compile(
        r"(?P<lead>.+?)-(?P<date>\d{4}-\d{2}-\d{2}|\d{8})(?:-(?P<until>\d{4}-\d{2}-\d{2}|\d{8}))?"
        r"(?P<rest>(?:\..+)?)\.(?i:dbn(?:\.zst)?)",
        re.DOTALL,
    )
    DATASET = re.compile(r"(?:.+-)?[a-z]{4,5}-[a-z0-9]+(?:-[a-z0-9]+)?")
    SCHEMAS = re.compile(
        r"mbo|mbp-\d+|tbbo|tcbbo|trades|(?:c|)bbo-\d+[sm]|cmbp-1|ohlcv-\d+[smhd]|definition|statistics|status|imbalance"
    )

    def recognises(self, name: str) -> bool:
        """Whether a file of this name is of this family; what it really is, its first bytes tell."""
        return ".dbn" in name.lower() or name.lower().endswith(".dbz")

    def parse(self, name: str) -> FileName | None:
        """What a file's name says, None when it is no DBN file of one day."""
        match = self.NAME.fullmatch(name)
        if match is None:
            return None
        parts = [part for part in match["rest"].split(".") if part]
        schema = next((part for part in parts if self.SCHEMAS.fullmatch(part.lower())), None)
        inside = ".".join(part for part in parts if part != schema)
        symbol = inside if self.DATASET.fullmatch(match["lead"]) else match["lead"]
        told = symbol and not symbol.isdigit()  # a number there is a part of a split file
        return FileName(
            day=iso_day(match["date"]),
            until=match["until"],
            symbol=symbol_of(symbol) if told else None,
            usable=schema is None or schema.lower() in {kind.schema for kind in KINDS},
            orders=schema is not None and schema.lower() == MBO.schema,
        )

    def belongs(self, path: Path, spec: InstrumentSpec) -> bool:
        """Whether the header lists or requests the instrument, or leaves its symbols to the body.

        An unreadable file counts as belonging: its day must fail with the reason rather than look absent.
        """
        try:
            with DbnFile(path) as file:
                named = [listing.symbol for listing in file.listings] + file.requested
        except InputError:
            return True
        return not named or any(spec.matches(symbol) for symbol in named)

    def stands_alone(self, path: Path) -> bool:  # noqa: ARG002  no file needs another
        """Always."""
        return True

    def open(
        self,
        path: Path,
        spec: InstrumentSpec,  # noqa: ARG002  a file tells all by itself
        beside: Sequence[Path] = (),  # noqa: ARG002
    ) -> DbnFile:
        """Begin to read a file."""
        return DbnFile(path)
