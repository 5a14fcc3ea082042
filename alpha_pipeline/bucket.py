"""Folders that several machines share, by URL: list, read, write whole objects, and write on a condition.

Everything goes through obstore; this is the only module that imports it. `s3://bucket/prefix` speaks to any
S3-compatible server, `file:///folder` to a folder that is mounted. Where the server is and who asks comes from the
environment alone (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, ...), never from the URL.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from alpha_core.errors import ConfigError, DataError, InputError
from alpha_pipeline.paths import writable_folder

SCHEMES = ("s3", "file")
CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
    "AWS_SKIP_SIGNATURE",
)
"""Any of them says how to sign requests. Without one the client would look for the metadata service of a cloud
machine and wait for it where there is none."""

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
CLIENT = {"connect_timeout": "5s", "read_timeout": "60s", "timeout": "24h"}
RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
PIECE = 8 << 20


class UnreachedError(DataError):
    """The server did not answer; asking it for the next object would only wait again."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One object as a listing tells it.

    Attributes:
        name: path below the folder, parts separated by "/".
        size: bytes.
        version: what changes whenever the content is written anew: the e-tag, else the time of the last write.
    """

    name: str
    size: int
    version: str


def is_url(location: str) -> bool:
    """Whether a location is written as a URL rather than as a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", location) is not None


def local_path(location: str) -> Path | None:
    """The folder of a path or a file:// URL, None for what lies elsewhere.

    Raises:
        ConfigError: the URL has another scheme than s3 and file, or names a host to read files from.
    """
    if not is_url(location):
        return Path(location)
    parts = _checked(location)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


class Bucket:
    """A shared folder.

    Attributes:
        url: as given, without a slash at its end.
    """

    def __init__(self, url: str, *, make: bool = True) -> None:
        """Nothing is asked yet of what lies elsewhere.

        Args:
            url: URL or path.
            make: whether a folder of this machine that does not exist is made.

        Raises:
            ConfigError: the URL or the environment cannot serve, or the folder is none or cannot be made.
        """
        self.url = url.rstrip("/") or "/"
        self._folder = local_path(url)
        self._store = _remote(self.url) if self._folder is None else _mounted(self._folder, make)

    def list(self) -> list[Stored]:
        """All objects, by name."""
        import obstore

        with self._told(""):
            found = [meta for page in obstore.list(self._store, chunk_size=1000) for meta in page]
        return sorted((_stored(meta) for meta in found), key=lambda one: one.name)

    def find(self, name: str) -> Stored | None:
        """One object, None when it is not there."""
        import obstore

        try:
            with self._told(name):
                return _stored(obstore.head(self._store, name))
        except FileNotFoundError:
            return None

    def read(self, name: str, first: int | None = None) -> tuple[bytes, str] | None:
        """A small object and its version, None when it is not there.

        Args:
            name: which.
            first: only that many bytes from its start, at most.
        """
        import obstore

        options: Any = None if first is None else {"range": (0, first)}
        try:
            with self._told(name):
                answer = obstore.get(self._store, name, options=options)
                return bytes(answer.bytes()), _stored(answer.meta).version
        except FileNotFoundError:
            return None

    def fetch(self, stored: Stored, target: Path) -> None:
        """Write an object's bytes into a new file, flushed to disk; it must still be what the listing told.

        Raises:
            DataError: the object changed or vanished since, came short, or the server did not answer.
        """
        import obstore

        try:
            with self._told(stored.name), target.open("wb") as file:
                answer = obstore.get(self._store, stored.name)
                if _stored(answer.meta) == stored:
                    for piece in answer.stream(min_chunk_size=PIECE):
                        file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        except FileNotFoundError as error:
            raise DataError(f"{self.url}/{stored.name} vanished after it was listed: run again") from error
        if _stored(answer.meta) != stored:
            raise DataError(f"{self.url}/{stored.name} changed after it was listed: run again")
        if target.stat().st_size != stored.size:
            raise DataError(
                f"{self.url}/{stored.name} came with {target.stat().st_size} bytes, must have {stored.size}: "
                "run again"
            )

    def pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece. Raises FileNotFoundError when it is not there."""
        import obstore

        with self._told(name):
            for piece in obstore.get(self._store, name).stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def put_file(self, name: str, file: Path) -> None:
        """Write a file of any size as an object; others see it whole or not at all."""
        import obstore

        with self._told(name):
            obstore.put(self._store, name, file, chunk_size=PIECE, max_concurrency=4)

    def put_if(self, name: str, data: bytes, version: str | None) -> bool:
        """Write a small object only if it is still what was read; of several writers one succeeds.

        Args:
            name: which.
            data: its new content.
            version: what `read` gave, None for "must not be there yet".

        Returns:
            Whether it was written.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        if self._folder is not None and version is not None:
            return self._replace_mounted(name, data, version)
        try:
            with self._told(name):
                mode: Any = "create" if version is None else {"e_tag": version}
                obstore.put(self._store, name, data, mode=mode)
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def _replace_mounted(self, name: str, data: bytes, version: str) -> bool:
        """A file system has no conditional write: writers take turns instead."""
        import obstore

        assert self._folder is not None, "called for mounted folders"
        path = self._folder / name
        with FileLock(path.with_name(f".{path.name}.lock")):
            found = self.find(name)
            if found is None or found.version != version:
                return False
            with self._told(name):
                obstore.put(self._store, name, data)
        return True

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Failures as one sentence; an absent object and an unmet condition stay what they are."""
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except FileNotFoundError as error:
            if _code(error) == "NoSuchBucket":
                raise self._refused(error, name) from None
            raise
        except (BaseError, PermissionError) as error:
            # a reason, not a chain: the library's text runs over many lines and repeats the request
            raise self._refused(error, name) from None

    def _refused(self, error: BaseException, name: str) -> InputError | DataError:
        where, code = f"{self.url}/{name}" if name else self.url, _code(error)
        if code == "NoSuchBucket":
            return InputError(f"{self.url} names a bucket that does not exist: make it or mend the name")
        if code in ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"):
            return InputError(
                f"{where} may not be used ({code}): mend AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or the "
                "bucket's rights"
            )
        if "error sending request" in str(error) or "HTTP error" in str(error):
            return UnreachedError(
                f"{where} was not reached at {_endpoint() or 'the default S3 endpoint'}: mend "
                "AWS_ENDPOINT_URL or start the server"
            )
        return DataError(f"{where} failed ({code or _first_line(error)}): try again")


def _stored(meta: Mapping[str, Any]) -> Stored:
    version = meta["e_tag"] or meta["last_modified"].isoformat()
    return Stored(name=meta["path"], size=meta["size"], version=version)


def _remote(url: str) -> Any:
    from obstore.store import S3Store

    parts = urlsplit(url)
    if not any(os.environ.get(name) for name in CREDENTIALS):
        raise ConfigError(
            f"{url} needs credentials and the environment has none: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
        )
    plain: Any = {"allow_http": True} if _endpoint().startswith("http://") else {}
    options: Any = CLIENT | plain
    retries: Any = RETRIES
    return S3Store(
        parts.netloc,
        prefix=unquote(parts.path).strip("/") or None,
        client_options=options,
        retry_config=retries,
    )


def _mounted(folder: Path, make: bool) -> Any:
    from obstore.store import LocalStore

    if not make and not folder.exists():
        raise ConfigError(f"{folder} does not exist, must be a folder that days were pushed to")
    return LocalStore(writable_folder(folder).resolve())


def _checked(url: str) -> Any:
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    if parts.username or parts.password:
        raise ConfigError(f"{shown} was given with credentials in it: take them from the environment instead")
    if parts.scheme not in SCHEMES:
        raise ConfigError(
            f"{shown} has the scheme {parts.scheme!r}, must be s3:// or file://, or a path without a scheme"
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"{shown} was given with '?' or '#', must be a folder alone")
    if parts.scheme == "s3" and not parts.netloc:
        raise ConfigError(f"{shown} names no bucket, must read s3://bucket/prefix")
    if parts.scheme == "file" and parts.netloc not in ("", "localhost"):
        raise ConfigError(f"{shown} names the host {parts.netloc!r}, must read file:///folder")
    return parts


def _endpoint() -> str:
    return next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")


def _code(error: BaseException) -> str:
    found = re.search(r"<Code>(\w+)</Code>", str(error))
    return found[1] if found else ""


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200]
