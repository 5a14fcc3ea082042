"""The tape of hand-worked intervals.

Columns: 0-7 bought by offset, 8 highest, 9 count; 10-19 the same of sells; 20, 21 cancelled at bid, ask.
"""

import pytest
from fx_tables import START, book, event, ladder, tables

from alpha_core.market.data import TAPE_WIDTH
from alpha_core.shapes import UNDEFINED_TICKS
from alpha_pipeline.features.columns import TAPE_COLUMNS
from alpha_pipeline.features.config import FeatureConfig, SamplerConfig
from alpha_pipeline.features.stream import compute_day

BIDS = [(100 - k, 50, 5) for k in range(10)]
ASKS = [(101 + k, 40, 5) for k in range(10)]
BASE = book(BIDS, ASKS)


def shape(bid_1=50, ask_1=40):
    return book([(100, bid_1, 5), *BIDS[1:]], [(101, ask_1, 5), *ASKS[1:]])


def tapes(steps, n=1):
    """Tapes of a segment of (book, trades) steps."""
    events = [event(b, START + k, trades=trades) for k, (b, trades) in enumerate(steps)]
    day = compute_day(*tables(events), FeatureConfig(sampler=SamplerConfig(n=n)))
    return day.columns["tape"].tolist()


def test_width_is_the_one_of_the_market():
    assert TAPE_COLUMNS == TAPE_WIDTH


def test_trades_by_offset_from_the_touch():
    buys = [(101, 3, 1), (102, 4, 1), (108, 5, 1), (120, 6, 1), (100, 2, 1)]
    sells = [(100, 7, -1), (94, 8, -1), (93, 9, -1), (101, 1, -1)]
    tape, last = tapes([(BASE, []), (BASE, buys + sells + [(101, 99, 0)])])
    assert tape[:10] == [3, 4, 0, 0, 0, 0, 0, 11, 120, 5]
    assert tape[10:20] == [7, 0, 0, 0, 0, 0, 8, 9, 93, 4]
    assert last == [0] * 8 + [UNDEFINED_TICKS] + [0] * 9 + [UNDEFINED_TICKS] + [0] * 3


@pytest.mark.parametrize(
    ("steps", "cancelled"),
    [
        ([(shape(50), []), (shape(38), [])], 12),
        ([(shape(50), []), (shape(38), [(100, 12, -1)])], 0),
        ([(shape(50), []), (shape(38), [(100, 5, -1)])], 7),
        ([(shape(50), []), (shape(38), [(100, 5, 0)])], 7),
        ([(shape(50), []), (shape(38), [(99, 12, -1)])], 12),
        ([(shape(50), []), (shape(60), []), (shape(45), [])], 15),
        ([(shape(50), []), (shape(50), [(100, 12, -1)]), (shape(38), [])], 0),
        ([(shape(50), []), (shape(50), [(100, 12, -1)]), (shape(60), []), (shape(55), [])], 5),
        ([(shape(50), []), (shape(30), [(100, 25, -1)]), (shape(25), [])], 5),
        ([(shape(50), []), (book(BIDS[1:], ASKS), [])], 50),
    ],
    ids=[
        "cancel",
        "all traded",
        "part traded",
        "unknown aggressor explains",
        "trade elsewhere does not",
        "added then cancelled",
        "trade sent before its book change",
        "a change of size settles earlier trades",
        "hidden volume does not linger",
        "level gone",
    ],
)
def test_cancelled_size_at_the_bid(steps, cancelled):
    first, *_ = tapes([*steps, (BASE, [])], n=len(steps) - 1)
    assert first[20] == cancelled and first[21] == 0


def test_cancelled_size_at_the_ask():
    steps = [(shape(ask_1=40), []), (shape(ask_1=30), [(101, 4, 1)]), (shape(ask_1=30), [])]
    assert [row[20:] for row in tapes(steps)] == [[0, 6], [0, 0], [0, 0]]


def test_prices_overtaken_but_visible_still_count():
    overtaken = book([(105, 9, 1), (100, 20, 1)], [(106, 9, 1)])
    assert tapes([(shape(50, 40), []), (overtaken, [])])[0][20:] == [30, 40]


def test_a_price_out_of_sight_counts_nothing():
    above = ladder(120, sizes=(5,) * 10)
    assert tapes([(shape(50), []), (above, []), (shape(30), [])], n=2)[0][20] == 0


def test_an_unmatched_trade_outlives_the_row_while_the_touch_stays():
    steps = [(shape(50), []), (shape(50), [(100, 12, -1)]), (shape(38), []), (shape(30), [])]
    assert [row[20] for row in tapes(steps)] == [0, 0, 8, 0]


def test_events_after_the_last_row_of_a_segment_leave_its_tape_empty():
    steps = [(shape(50), []), (shape(50), []), (shape(50), []), (shape(10), [(100, 3, -1)])]
    assert [row[19:] for row in tapes(steps, n=2)] == [[0, 0, 0], [0, 0, 0]]
