"""Compiled passes over the first words of records: what may be used, in what order they come, where breaks lie.

Argument that all share: `records` int64 [n, 46], records as the words of 8 bytes that they take in memory.
"""

import numba
import numpy as np

from alpha_pipeline.ingest.records import (
    ACTION_BIT,
    BYTE,
    EVENT_WORD,
    FLAGS_BIT,
    ID_WORD,
    RECV_WORD,
    SEQUENCE_WORD,
    SIDE_BIT,
    UPPER_BIT,
    WHAT_WORD,
)

USABLE, OTHER_INSTRUMENT, UNDEFINED_TIMESTAMP, OUTSIDE_MAPPING, UNKNOWN_ACTION = range(5)
"""What `judge` says of a record."""

EARLIEST_NS = 946_684_800 * 10**9
LATEST_NS = 4_102_444_800 * 10**9
"""Years 2000 to 2100: times outside of them, the undefined one included, are no times of a market."""

(
    BAD_TS_RECV,
    MAYBE_BAD_BOOK,
    SNAPSHOT_RECORDS,
    DUPLICATES,
    TS_RECV_BACKWARD,
    LARGEST_BACKWARD_NS,
    TS_EVENT_BACKWARD,
    SEQUENCE_GAPS,
    LARGEST_SEQUENCE_GAP,
    SEQUENCE_RESETS,
) = range(10)
"""Counters of `tally`, see IngestReport."""

SESSION, ROLL, CLEARED, GAP, BAD_BOOK, EPOCH, INTERVAL, OUTSIDE, LARGEST_GAP_NS, LARGEST_GAP_AT = range(10)
"""State of `divide`: epochs started by reason, the current epoch and interval, and what Segmenter counts."""

BAD_TS_FLAG, BAD_BOOK_FLAG, SNAPSHOT_FLAG = 0x08, 0x04, 0x20
CLEAR = ord("R")


@numba.njit(cache=True, nogil=True)
def judge(records: np.ndarray, listings: np.ndarray, known: np.ndarray, verdicts: np.ndarray) -> bool:
    """Say of each record whether it may be used, and if not why.

    Args:
        records: see above.
        listings: uint64 [L, 3], instrument id and the receive times [start, end) in which it is the instrument's.
        known: bool [2, 256], letters that are actions, and sides.
        verdicts: uint8 [n], filled.

    Returns:
        Whether all records have the instrument id of the first.
    """
    same = True
    for i in range(len(records)):
        number, what = np.uint64(records[i, ID_WORD]) >> np.uint64(UPPER_BIT), records[i, WHAT_WORD]
        same &= records[i, ID_WORD] >> UPPER_BIT == records[0, ID_WORD] >> UPPER_BIT
        recv, event = records[i, RECV_WORD], records[i, EVENT_WORD]
        listed = mapped = False
        for k in range(len(listings)):
            mine = listings[k, 0] == number
            listed |= mine
            mapped |= mine and listings[k, 1] <= np.uint64(recv) < listings[k, 2]
        if not listed:
            verdicts[i] = OTHER_INSTRUMENT
        elif not (EARLIEST_NS <= recv < LATEST_NS and EARLIEST_NS <= event < LATEST_NS):
            verdicts[i] = UNDEFINED_TIMESTAMP
        elif not mapped:
            verdicts[i] = OUTSIDE_MAPPING
        elif not (known[0, (what >> ACTION_BIT) & BYTE] and known[1, (what >> SIDE_BIT) & BYTE]):
            verdicts[i] = UNKNOWN_ACTION
        else:
            verdicts[i] = USABLE
    return same


@numba.njit(cache=True, nogil=True)
def tally(records: np.ndarray, last: np.ndarray, counts: np.ndarray) -> None:
    """Count flags, and steps of times and sequence numbers from each record to the next.

    Args:
        records: see above.
        last: int64 [1, 46] or [0, 46], the record before the first.
        counts: int64 [10], changed.
    """
    bad_ts = bad_book = snapshot = 0
    for i in range(len(records)):
        flags = (records[i, WHAT_WORD] >> FLAGS_BIT) & BYTE
        bad_ts += flags & BAD_TS_FLAG != 0
        bad_book += flags & BAD_BOOK_FLAG != 0
        snapshot += flags & SNAPSHOT_FLAG != 0
    counts[BAD_TS_RECV] += bad_ts
    counts[MAYBE_BAD_BOOK] += bad_book
    counts[SNAPSHOT_RECORDS] += snapshot
    if len(last):
        _tally_steps(last, records, 0, 1, counts)
    _tally_steps(records, records, 1, len(records), counts)


@numba.njit(cache=True, nogil=True)
def _tally_steps(before: np.ndarray, records: np.ndarray, start: int, stop: int, counts: np.ndarray) -> None:
    """Count the steps to records[start:stop], each from the record one place earlier; `before` has the first one."""
    duplicates = recv_back = event_back = gaps = resets = 0
    largest_back, largest_gap = counts[LARGEST_BACKWARD_NS], counts[LARGEST_SEQUENCE_GAP]
    for i in range(start, stop):
        j = max(i - 1, 0)
        recv = records[i, RECV_WORD] - before[j, RECV_WORD]
        event = records[i, EVENT_WORD] - before[j, EVENT_WORD]
        # signed: a restart of the 32-bit counter is a step back, never a gap of 2**32
        sequence = _sequence(records, i) - _sequence(before, j)
        recv_back += recv < 0
        event_back += event < 0
        gaps += sequence > 1
        resets += sequence < 0
        largest_back = -recv if -recv > largest_back else largest_back
        largest_gap = sequence if sequence > largest_gap else largest_gap
        if recv == 0 and event == 0 and sequence == 0 and _equal(before, j, records, i):
            duplicates += 1
    counts[DUPLICATES] += duplicates
    counts[TS_RECV_BACKWARD] += recv_back
    counts[TS_EVENT_BACKWARD] += event_back
    counts[SEQUENCE_GAPS] += gaps
    counts[SEQUENCE_RESETS] += resets
    counts[LARGEST_BACKWARD_NS], counts[LARGEST_SEQUENCE_GAP] = largest_back, largest_gap


@numba.njit(cache=True, nogil=True, inline="always")
def _sequence(records: np.ndarray, i: int) -> int:
    return (records[i, SEQUENCE_WORD] >> UPPER_BIT) & 0xFFFFFFFF


@numba.njit(cache=True, nogil=True)
def _equal(before: np.ndarray, j: int, records: np.ndarray, i: int) -> bool:
    different = 0
    for word in range(records.shape[1]):
        different |= records[i, word] ^ before[j, word]
    return different == 0


@numba.njit(cache=True, nogil=True)
def divide(
    records: np.ndarray,
    last: np.ndarray,
    edges: np.ndarray,
    gap_ns: int,
    state: np.ndarray,
    epochs: np.ndarray,
    closed: np.ndarray,
) -> None:
    """Number the epochs of records whose receive times do not decrease, see Segmenter.

    Args:
        records: see above.
        last: int64 [1, 46] or [0, 46], the record before the first.
        edges: int64 [2 S], openings and closings; none for a market that never closes.
        gap_ns: longest silence inside an epoch.
        state: int64 [10], changed.
        epochs: int64 [n], filled.
        closed: bool [n], filled: outside of any session.
    """
    before = last if len(last) else records
    ts, number, bad = before[0, RECV_WORD], before[0, ID_WORD] >> UPPER_BIT, _is_bad(before, 0)
    interval, begun = state[INTERVAL], len(last) > 0
    for i in range(len(records)):
        silence = records[i, RECV_WORD] - ts
        ts += silence
        at = interval
        while at < len(edges) and edges[at] <= ts:
            at += 1
        closed[i] = len(edges) > 0 and at % 2 == 0
        state[OUTSIDE] += closed[i]
        moved = begun and at != interval
        if not (closed[i] or moved) and silence > state[LARGEST_GAP_NS]:
            state[LARGEST_GAP_NS], state[LARGEST_GAP_AT] = silence, ts - silence
        if begun:
            reasons = (
                moved,
                records[i, ID_WORD] >> UPPER_BIT != number,
                (records[i, WHAT_WORD] >> ACTION_BIT) & BYTE == CLEAR,
                silence > gap_ns and not moved,
                _is_bad(records, i) and not bad,
            )
            starts = False
            for reason in range(len(reasons)):
                state[reason] += reasons[reason]
                starts |= reasons[reason]
            state[EPOCH] += starts
        epochs[i] = state[EPOCH]
        interval, begun = at, True
        number, bad = records[i, ID_WORD] >> UPPER_BIT, _is_bad(records, i)
    state[INTERVAL] = interval


@numba.njit(cache=True, nogil=True, inline="always")
def _is_bad(records: np.ndarray, i: int) -> bool:
    return (records[i, WHAT_WORD] >> FLAGS_BIT) & BAD_BOOK_FLAG != 0
