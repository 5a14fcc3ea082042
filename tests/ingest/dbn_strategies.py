"""Random genuine DBN files: hypothesis chooses what kind of file, a seeded generator its records, and the
official encoder writes it. (Hundreds of numbers a record are more than hypothesis would draw one by one.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import databento_dbn as dbn
import numpy as np
from dbn_builder import ACTIONS, SIDES, T0, TICK, foreign, frames, header, skippable
from hypothesis import strategies as st

from alpha_pipeline.ingest.records import UNDEF_PRICE

SECOND = 10**9
IDS = {"TEST": 1, "OTHER": 2}
STRANGE_PRICES = (
    UNDEF_PRICE,
    UNDEF_PRICE,
    0,
    -TICK,
    -37_630_000_000,
    TICK + 1,
    -1,
    2**62,
    -(2**63),
    UNDEF_PRICE - 1,
)
STRANGE_TIMES = (T0 + 700 * SECOND, T0 + 86_400 * SECOND, 0, 2**64 - 1, T0 - 1)
FLAGS = (0x80, 0x80, 0x80, 0, 0xA0, 0x88, 0x84, 0x28, 0xC0)


@dataclass(frozen=True)
class Traits:
    """How often records are out of the ordinary, each a probability.

    Attributes:
        odd_price: a price is undefined, negative, off the grid or extreme.
        odd_time: a time is undefined, before the others, or minutes later.
        odd_flags: flags are any byte.
        other: a record is of another instrument.
        foreign: another type of record lies before it.
    """

    odd_price: float
    odd_time: float
    odd_flags: float
    other: float
    foreign: float


RARE = st.sampled_from([0.0, 0.0, 0.01, 0.1, 0.5])
TRAITS = st.builds(Traits, odd_price=RARE, odd_time=RARE, odd_flags=RARE, other=RARE, foreign=RARE)


class Generator:
    """Draws records with the given traits."""

    def __init__(self, traits: Traits, seed: int) -> None:
        self.traits, self.rng, self.clock = traits, np.random.default_rng(seed), T0

    def records(self, count: int) -> list[object]:
        found: list[object] = []
        for _ in range(count):
            if self.rng.random() < self.traits.foreign:
                found.append(foreign()[self.rng.integers(3)])
            found.append(self.record())
            if self.rng.random() < 0.03:
                found.append(found[-1])
        return found

    def record(self) -> dbn.MBP10Msg:
        rng = self.rng
        self.clock += int(rng.integers(0, 3) * SECOND // 7)
        return dbn.MBP10Msg(
            publisher_id=int(rng.integers(2**16)),
            instrument_id=int(rng.choice([2, 3])) if rng.random() < self.traits.other else 1,
            ts_event=self.time(),
            price=self.price(int(rng.integers(19_990, 20_010)) * TICK),
            size=self.size(),
            action=_one_of(rng, list(ACTIONS.values())),
            side=_one_of(rng, list(SIDES.values())),
            depth=int(rng.integers(2**8)),
            ts_recv=self.time(),
            flags=int(rng.integers(2**8)) if rng.random() < self.traits.odd_flags else int(rng.choice(FLAGS)),
            ts_in_delta=int(rng.integers(-(2**31), 2**31)),
            sequence=int(rng.integers(2**32)),
            levels=self.levels(),
        )

    def time(self) -> int:
        odd = self.rng.random() < self.traits.odd_time
        return int(_one_of(self.rng, STRANGE_TIMES)) if odd else self.clock

    def price(self, usual: int) -> int:
        odd = self.rng.random() < self.traits.odd_price / 5
        return int(_one_of(self.rng, STRANGE_PRICES)) if odd else usual

    def size(self) -> int:
        return int(self.rng.integers(2**32)) if self.rng.random() < 0.05 else int(self.rng.integers(10))

    def levels(self) -> list[dbn.BidAskPair]:
        best, spread = int(self.rng.integers(19_990, 20_010)), int(self.rng.integers(-1, 4))
        shown = int(self.rng.integers(0, 21))
        return [self.level((best - k) * TICK, (best + spread + k) * TICK, k < shown) for k in range(10)]

    def level(self, bid: int, ask: int, shown: bool) -> dbn.BidAskPair:
        if not shown:
            return dbn.BidAskPair(
                bid_px=UNDEF_PRICE, ask_px=UNDEF_PRICE, bid_sz=0, ask_sz=0, bid_ct=0, ask_ct=0
            )
        sizes = {name: self.size() for name in ("bid_sz", "ask_sz", "bid_ct", "ask_ct")}
        return dbn.BidAskPair(bid_px=self.price(bid), ask_px=self.price(ask), **sizes)


def _one_of(rng: np.random.Generator, values: object) -> object:
    return values[int(rng.integers(len(values)))]


@dataclass(frozen=True)
class File:
    """A file's bytes, and what they were before compression.

    Attributes:
        content: as on disk.
        body: the decompressed bytes that a reader can get out of it.
        cut: bytes missing at the end of `body`, 0 where the file is whole.
    """

    content: bytes = field(repr=False)
    body: bytes = field(repr=False)
    cut: int


@st.composite
def files(draw: st.DrawFn, most: int = 60) -> File:
    """DBN files of every version and container, with foreign records between and sometimes without their end."""
    records = Generator(draw(TRAITS), draw(st.integers(0, 2**32))).records(draw(st.integers(0, most)))
    return contained(draw, header(IDS, version=draw(st.sampled_from([1, 2, 3]))), records)


def contained(draw: st.DrawFn, head: bytes, records: Sequence[object]) -> File:
    """A file of a header and records in some container, sometimes cut."""
    whole = head + b"".join(bytes(record) for record in records)
    cut = draw(st.integers(0, min(400, len(whole) - len(head)))) if draw(st.booleans()) else 0
    body = whole[: len(whole) - cut]
    if draw(st.booleans()):
        return File(content=body, body=body, cut=cut)
    places = sorted(draw(st.lists(st.integers(1, len(body) - 1), max_size=4, unique=True)))
    parts = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]
    pad = skippable(b"between") if draw(st.booleans()) else b""
    return File(content=b"".join(pad + frames(part) for part in parts), body=body, cut=cut)
