"""Which instrument ids are ours, and since when: listings of a file, and the choice among several of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alpha_core.errors import InputError
from alpha_pipeline.instrument import InstrumentSpec

SHOWN_SYMBOLS = 5


@dataclass(frozen=True, kw_only=True)
class Listing:
    """`symbol` is `instrument_id` for receive times in [start_ns, end_ns)."""

    symbol: str
    instrument_id: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What one symbol did in a day: size traded and number of records."""

    volume: int = 0
    records: int = 0

    def __add__(self, other: "Activity") -> "Activity":
        return Activity(volume=self.volume + other.volume, records=self.records + other.records)


def ours(listings: Iterable[Listing], spec: InstrumentSpec) -> list[Listing]:
    """The listings of the instrument, without repetitions, in order."""
    return list(dict.fromkeys(listing for listing in listings if spec.matches(listing.symbol)))


def select(records: np.ndarray, listings: Sequence[Listing]) -> np.ndarray:
    """Mask [n] of the records that belong to any of the listings.

    Args:
        records: [n] MBP10_DTYPE.
        listings: intervals to accept.
    """
    ids, times = records["instrument_id"], records["ts_recv"]
    keep = np.zeros(len(records), dtype=bool)
    for listing in listings:
        # compared as unsigned: an undefined time (2**64 - 1) lies in no interval
        start, end = np.uint64(listing.start_ns), np.uint64(listing.end_ns)
        keep |= (ids == listing.instrument_id) & (times >= start) & (times < end)
    return keep


def front_symbol(activity: dict[str, Activity]) -> str:
    """The symbol with the largest traded size; then the most records; then the first by name.

    Args:
        activity: what each candidate did, at least one entry.
    """
    return min(activity, key=lambda symbol: (-activity[symbol].volume, -activity[symbol].records, symbol))


def refuse_strangers(path: object, listings: Sequence[Listing], spec: InstrumentSpec) -> None:
    """Raise the error for a file whose mappings do not name the instrument."""
    symbols = sorted({listing.symbol for listing in listings})
    shown = ", ".join(symbols[:SHOWN_SYMBOLS])
    more = f" and {len(symbols) - SHOWN_SYMBOLS} more" if len(symbols) > SHOWN_SYMBOLS else ""
    raise InputError(
        f"{path} has the symbols {shown or 'none'}{more}, instrument {spec.name} wants "
        f"{' or '.join(spec.symbols)}: give its own file or mend `symbols`"
    )
