"""A stand-in for the vendor's historical API: it speaks the protocol of the official client (HTTPS, basic
authentication, form-encoded requests, streamed DBN) on loopback, and misbehaves as told. The real one cannot be asked
from a test.
"""

import base64
import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import zstandard
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from dbn_builder import Msg, header

KEY = "db-" + "k" * 29


@dataclass(frozen=True)
class Refusal:
    """An answer with an error status."""

    status: int
    case: str = "some_case"
    message: str = "some message"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Break:
    """A stream that ends after so many compressed bytes, by a closed connection or as if nothing were wrong."""

    after: int
    politely: bool = False


@dataclass(frozen=True)
class Warned:
    """A proper answer with warnings in its header."""

    texts: tuple[str, ...]


class StandIn:
    """The server's state.

    Attributes:
        records: what it has, in receive-time order.
        script: what it does with the next requests for data; then it answers properly.
        requests: parameters of all requests, in order.
        available_until: end of its dataset.
    """

    def __init__(self, records: list[Msg], day: date) -> None:
        self.records, self.day = records, day
        self.script: deque[Refusal | Break | Warned] = deque()
        self.requests: list[dict[str, str]] = []
        self.available_until = f"{day + timedelta(days=3)}T00:00:00.000000000Z"
        self.gateway = ""

    def body(self, start: str, end: str) -> bytes:
        """DBN of the records received in [start, end), compressed into frames of a few records."""
        first, last = (_nanoseconds(text) for text in (start, end))
        chosen = [record for record in self.records if first <= record.ts < last]
        compressor = zstandard.ZstdCompressor(level=1)
        parts = [header(version=3, day=self.day)]
        parts += [b"".join(bytes(r) for r in chosen[k : k + 7]) for k in range(0, len(chosen), 7)]
        return b"".join(compressor.compress(part) for part in parts)


def _nanoseconds(text: str) -> int:
    if text.isdigit():
        return int(text)
    seconds, _, fraction = text.replace("Z", "").partition(".")
    whole = int(datetime.fromisoformat(seconds).replace(tzinfo=UTC).timestamp())
    return whole * 10**9 + int(fraction.ljust(9, "0") or 0)


class Handler(BaseHTTPRequestHandler):
    """Answers requests as the state says."""

    protocol_version = "HTTP/1.1"

    def __init__(self, state: StandIn, *connection: Any) -> None:
        self.state = state
        super().__init__(*connection)  # which answers the requests

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.answer({k: v[0] for k, v in parse_qs(urlparse(self.path).query).items()})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer({k: v[0] for k, v in parse_qs(raw).items()})

    def answer(self, asked: dict[str, str]) -> None:
        call = urlparse(self.path).path.rsplit("/", 1)[-1]
        self.state.requests.append(asked | {"call": call})
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(f"{KEY}:".encode()).decode():
            self.tell(
                401, {"detail": {"case": "auth_failed", "message": "Authentication failed.", "docs": ""}}
            )
        elif call == "metadata.get_dataset_range":
            self.tell(200, {"start": "2020-01-01T00:00:00Z", "end": self.state.available_until})
        elif call == "metadata.get_cost":
            self.tell(200, 1.25)
        else:
            self.stream(asked, self.state.script.popleft() if self.state.script else None)

    def tell(self, status: int, content: Any, more: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def stream(self, asked: dict[str, str], act: "Refusal | Break | Warned | None") -> None:
        if isinstance(act, Refusal):
            detail = {"case": act.case, "message": act.message, "docs": ""}
            self.tell(act.status, {"detail": detail}, act.headers)
            return
        body = self.state.body(asked["start"], asked["end"])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        if isinstance(act, Warned):
            self.send_header("X-Warning", json.dumps(act.texts))
        self.end_headers()
        self.send_pieces(body[: act.after] if isinstance(act, Break) else body)
        if not isinstance(act, Break) or act.politely:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def send_pieces(self, content: bytes) -> None:
        for k in range(0, len(content), 200):
            piece = content[k : k + 200]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


@contextmanager
def serving(state: StandIn, folder: Path, trust: Callable[[Path], None]) -> Iterator[StandIn]:
    """Run the server; `trust` is told the certificate to believe in."""
    certificate, key = make_certificate(folder)
    trust(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, state))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.gateway = f"https://localhost:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return paths
