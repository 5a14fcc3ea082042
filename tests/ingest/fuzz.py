"""Mutates small files and reads them: whatever the bytes are, a reader gives a result or one sentence.

python fuzz.py SECONDS SEED      prints what was tried and what came, as JSON
"""

import gzip
import json
import random
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import databento_dbn as dbn
import pyarrow as pa
import zstandard
from dbn_builder import T0, TICK, Msg, frames, header, skippable

from alpha_core.errors import AlphaError
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.ingest import IngestConfig, ingest_day
from alpha_pipeline.ingest.source import open_raw
from alpha_pipeline.instrument import InstrumentSpec

SPEC = InstrumentSpec(name="test", symbols=("TEST",), tick_size="0.25")
SMALL = IngestConfig(chunk_records=16)
SLOW_SECONDS = 5.0
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)
TOKEN = re.compile(rb'"[^"]*"|-?\d+(?:\.\d+)?|true|false')
ODD_TOKENS = (
    *(
        b"null",
        b"true",
        b"NaN",
        b"1e999",
        b"-1",
        b"0",
        b"0.1",
        b"1.5e3",
        b'""',
        b'"-"',
        b'"x"',
        b'"1e5"',
        b"[]",
        b"{}",
    ),
    *(
        b'"0.0000000001"',
        b"9999999999",
        b"-9999999999",
        b"18446744073709551616",
        b"9" * 40,
        b"9" * 5000,
        b"-1.-1",
    ),
    *(
        b"[[1,2]]",
        b'[["1"]]',
        b"[" * 50,
        b"[" * 100_000,
        "\u0663".encode(),
        b'"\xc2\xb2"',
        b"\xff",
        b" ",
        b",",
        b"\n",
    ),
)


def mbo(k: int, action: dbn.Action, **more: int) -> dbn.MBOMsg:
    fields = {"price": 20_000 * TICK, "size": 3, "order_id": k % 5, "flags": 0x80} | more
    return dbn.MBOMsg(
        publisher_id=1,
        instrument_id=1,
        ts_event=T0 + k,
        ts_recv=T0 + k,
        ts_in_delta=0,
        sequence=k,
        channel_id=0,
        action=action,
        side=dbn.Side.BID if k % 2 else dbn.Side.ASK,
        **fields,
    )


def corpus(cache: bytes) -> dict[str, list[bytes]]:
    """Small valid files by kind; DBN ones before compression."""
    books = b"".join(
        bytes(Msg(ts=T0 + k, sequence=k, action="MTAC"[k % 4], side="B", price=20_001 * TICK, size=1))
        for k in range(8)
    )
    system = bytes(dbn.SystemMsg(ts_event=T0, msg="Heartbeat"))
    actions = [
        dbn.Action.ADD,
        dbn.Action.ADD,
        dbn.Action.MODIFY,
        dbn.Action.TRADE,
        dbn.Action.CANCEL,
        dbn.Action.CLEAR,
    ]
    orders = b"".join(bytes(mbo(k, actions[k % 6])) for k in range(18))
    dbn_files = [header(version=v) + books + system + books for v in (1, 2, 3)]
    dbn_files.append(header({f"S{k}": k for k in range(20)} | {"TEST": 1}) + books)
    dbn_files += [header(schema=dbn.Schema.MBO, version=v) + orders for v in (1, 3)]
    messages, books = lobster_pair()
    return {
        "dbn": dbn_files,
        "fxcache": [cache],
        "log": [depth_log()],
        "lobster message": [messages],
        "lobster orderbook": [books],
    }


def lobster_pair() -> tuple[bytes, bytes]:
    """A few messages of every type, and the books after them."""
    messages = [
        f"{34200 + k}.{k},{1 + k % 6},{k},5,{50_000_000 + 2500 * (k % 3)},{1 - 2 * (k % 2)}"
        for k in range(12)
    ]
    messages += [f"{34220 + k}.5,7,0,0,{price},-1" for k, price in enumerate((-1, 0, 1))]
    book = "50002500,{},50000000,3,9999999999,0,-9999999999,0"
    return "\n".join([*messages, ""]).encode(), "".join(f"{book.format(k + 1)}\n" for k in range(15)).encode()


def depth_log() -> bytes:
    """A short recording of depth and trades."""
    sent = {"E": T0 // 10**6, "T": T0 // 10**6}
    start = {"lastUpdateId": 1, "bids": [["5000.00", "3"], ["4999.75", "2"]], "asks": [["5000.25", "4"]]}
    messages: list[object] = [start]
    for k in range(2, 9):
        change = sent | {
            "U": k,
            "u": k,
            "b": [["5000.00", str(k)]],
            "a": [["5000.25", "0" if k == 5 else "1"]],
        }
        messages.append({"stream": "test@depth", "data": change})
        messages.append({"stream": "test@trade", "data": sent | {"p": "5000.25", "q": "1", "m": k % 2 == 0}})
    return "".join(f"{T0 + k} {json.dumps(message)}\n" for k, message in enumerate(messages)).encode()


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to four changes of bytes, words, lengths or order; headers get more than their share."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not out:
            break
        head = rng.random() < 0.4
        at = rng.randrange(min(len(out), 300) if head else len(out))
        kind = rng.randrange(7)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice(INTERESTING)
        elif kind == 2:
            width = rng.choice((2, 4, 8))
            value = rng.choice(
                (0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), rng.randrange(2 ** (8 * width)))
            )
            out[at : at + width] = value.to_bytes(width, "little")
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            del out[at : at + rng.randint(1, 64)]
        elif kind == 5:
            out[at:at] = out[at : at + rng.randint(1, 64)]
        else:
            out[at:at] = rng.randbytes(rng.randint(1, 32))
    return bytes(out)


def retold(rng: random.Random, data: bytes) -> bytes:
    """Text with one to three of its numbers and strings replaced by what nobody expects there."""
    for _ in range(rng.randint(1, 3)):
        found = list(TOKEN.finditer(data))
        if found:
            start, end = rng.choice(found).span()
            data = data[:start] + rng.choice(ODD_TOKENS) + data[end:]
    return data


def packed(rng: random.Random, data: bytes) -> bytes:
    """Plain, compressed, in several frames, or compressed and then mutated."""
    kind = rng.randrange(6)
    if kind == 5:
        return mutated(rng, gzip.compress(data, 1))
    if kind == 0:
        return data
    if kind == 1:
        return frames(data)
    if kind == 2:
        cut = rng.randrange(len(data) + 1)
        return frames(data[:cut]) + skippable(b"between") + frames(data[cut:])
    options = zstandard.ZstdCompressor(
        write_checksum=rng.random() < 0.5, write_content_size=rng.random() < 0.5
    )
    return mutated(rng, options.compress(data))


def changed(rng: random.Random, kind: str, data: bytes) -> bytes:
    """A file of that kind with its bytes, its words or its compression damaged."""
    text = kind not in ("dbn", "fxcache")
    data = retold(rng, data) if text and rng.random() < 0.6 else mutated(rng, data)
    return data if kind == "fxcache" or (text and rng.random() < 0.7) else packed(rng, data)


def read_dbn(path: Path) -> None:
    """All records, and now and then the whole way to tables."""
    with open_raw(path, SPEC) as file:
        for _ in file.chunks(16):
            pass
    if zlib.crc32(path.read_bytes()) % 8 == 0:
        ingest_day([path], SPEC, path.parent / "day", config=SMALL)


def read_cache(path: Path) -> None:
    """Every column."""
    day = open_day(path, verify="full" if zlib.crc32(path.read_bytes()) % 2 else "fast")
    for name in ("features", "book", "tape", "labels", "label_valid", "last_trade", "high", "warm"):
        getattr(day, name)


def read_day(path: Path) -> None:
    """The whole way to tables, of a pair by both its files."""
    names = {path.name, path.name.replace("orderbook", "message"), path.name.replace("message", "orderbook")}
    ingest_day([path.with_name(name) for name in sorted(names)], SPEC, path.parent / "day", config=SMALL)


READERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "dbn": ("x.dbn.zst", read_dbn),
    "fxcache": ("x.fxcache", read_cache),
    "log": ("test_20240306.gz", read_day),
    "lobster message": ("TEST_2024-03-06_34200000_57600000_message_2.csv", read_day),
    "lobster orderbook": ("TEST_2024-03-06_34200000_57600000_orderbook_2.csv", read_day),
}
SHARES = {"dbn": 0.6, "fxcache": 0.12, "log": 0.16, "lobster message": 0.06, "lobster orderbook": 0.06}


def fuzz(folder: Path, cache: bytes, seconds: float, seed: int) -> dict[str, object]:
    """Read mutated files for so many seconds of processor time.

    Returns:
        Counts of inputs and of answers, and the slowest input's seconds.

    Raises:
        AssertionError: an answer other than a result or an AlphaError, or one that took too long; the input lies in
            `folder`, and its repr is told when it is short.
    """
    rng, seen, slowest = random.Random(seed), Counter[str](), 0.0
    files = corpus(cache)
    for kind, whole in files.items():
        (folder / READERS[kind][0]).write_bytes(whole[-1])
    for kind, whole in files.items():  # compiles what is compiled on first use
        for content in whole:
            (folder / READERS[kind][0]).write_bytes(content)
            READERS[kind][1](folder / READERS[kind][0])
    began = time.process_time()
    while time.process_time() - began < seconds:
        kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
        content = changed(rng, kind, rng.choice(files[kind]))
        name, read = READERS[kind]
        path = folder / name
        path.write_bytes(content)
        started = time.process_time()
        try:
            read(path)
            answer = "read"
        except AlphaError as error:
            assert "\n" not in str(error), content[:400]
            answer = "refused"
        except BaseException as error:
            keep = folder / f"found-{kind}-{seed}"
            keep.write_bytes(content)
            raise AssertionError(
                f"{type(error).__name__}: {error} for {keep}, {len(content)} bytes"
            ) from error
        took = time.process_time() - started
        assert took < SLOW_SECONDS, f"{took:.1f} s for {len(content)} bytes"
        slowest = max(slowest, took)
        if kind.startswith("lobster"):
            path.write_bytes(files[kind][0])  # the other file of the pair is tried beside a whole one
        seen[f"{kind} {answer}"] += 1
    return {"inputs": seen.total(), "seen": dict(seen), "slowest_s": round(slowest, 3)}


def sample_cache(folder: Path) -> bytes:
    """A small cache file with every kind of column filled."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "features"))
    from fx_tables import random_market, tables

    from alpha_pipeline.features.config import FeatureConfig
    from alpha_pipeline.fxcache.build import build_day

    snapshots, trades = tables(random_market(5, 60))
    out = folder / "2024-01-02.fxcache"
    build_day(
        snapshots,
        trades,
        day="2024-01-02",
        instrument="test",
        features=FeatureConfig(),
        source_digests={},
        out=out,
    )
    return out.read_bytes()


if __name__ == "__main__":
    import resource

    with TemporaryDirectory() as name:
        cached = sample_cache(Path(name))
        pa.set_cpu_count(1)
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        print(json.dumps(fuzz(Path(name), cached, float(sys.argv[1]), int(sys.argv[2]))))
