"""The vendor's API through its official client: requests that are repeated while there is hope, and plain errors."""

import os
import re
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

from alpha_core.errors import ConfigError, DataError
from alpha_pipeline.download.config import KEY_VARIABLE, DownloadConfig

Answer = TypeVar("Answer")
NOT_YET = "data_end_after_available_end"
"""Case of the vendor's answer to a request for data that it does not have yet."""

CONDITION = re.compile(r"\d{4}-\d{2}-\d{2} \((\w+)\)")
"""How the vendor's warnings name a day that is not as it should be: "2024-03-06 (degraded)"."""

INCOMPLETE = ("pending", "missing")
"""Conditions of a day that is not all there; a degraded one is, and is told."""


class NotYetAvailableError(DataError):
    """The vendor does not have the whole day yet."""


class BrokenStreamError(DataError):
    """The connection ended before the data did; what came lies in the file."""


class Vendor:
    """One account at the vendor. The key comes from the environment and goes nowhere else."""

    def __init__(
        self,
        config: DownloadConfig,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Raises ConfigError when the environment holds no key, or none that could be one."""
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key:
            raise ConfigError(
                f"{KEY_VARIABLE} is not set: set it to the vendor's key, or put the files into the folder by hand"
            )
        if not re.fullmatch(r"[!-~]+", key):
            raise ConfigError(f"{KEY_VARIABLE} holds blanks or letters that no key has: set it again")
        import databento

        self._config, self._key, self._sleep, self._now, self._say = config, key, sleep, now, say
        self._client = databento.Historical(key, **({"gateway": config.gateway} if config.gateway else {}))

    def available_end(self) -> str:
        """Until when the vendor has the dataset, ISO 8601."""
        found = self._asked(lambda: self._client.metadata.get_dataset_range(self._config.dataset))
        return str(found["end"])

    def cost(self, start: str, end: str) -> float:
        """What a request would cost, in US dollars."""
        return float(self._asked(lambda: self._client.metadata.get_cost(**self._request(start, end))))

    def stream(self, start: str | int, end: str, target: Path) -> Sequence[str]:
        """Stream [start, end) into a new file; returns what the vendor warns of.

        Raises:
            BrokenStreamError: the connection ended early; the file holds what came.
            NotYetAvailableError: the vendor does not have all of it, or warns so.
            DataError: any other refusal, or no answer after all attempts.
            ConfigError: the key is refused.
        """

        def once() -> None:
            target.unlink(missing_ok=True)
            try:
                self._client.timeseries.get_range(**self._request(start, end), path=target)
            except (ValueError, RuntimeError) as error:  # what came is too little to be opened
                raise BrokenStreamError(self._plain(error)) from None

        from databento.common.error import BentoWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._asked(once)
        texts = (self._plain(one.message) for one in caught if issubclass(one.category, BentoWarning))
        told = list(dict.fromkeys(texts))
        if any(condition in INCOMPLETE for text in told for condition in CONDITION.findall(text)):
            raise NotYetAvailableError("; ".join(told))
        return told

    def pause(self, count: int) -> None:
        """Wait before the next request after so many failures in a row."""
        config = self._config
        self._sleep(min(config.first_wait_seconds * 2 ** (count - 1), config.longest_wait_seconds))

    def _request(self, start: str | int, end: str) -> dict[str, Any]:
        config = self._config
        return {
            "dataset": config.dataset,
            "symbols": list(config.symbols),
            "stype_in": config.stype_in,
            "schema": config.schema,
            "start": start,
            "end": end,
        }

    def _asked(self, request: Callable[[], Answer]) -> Answer:
        """The answer, after as many pauses as it takes and the configuration allows."""
        import requests
        from databento.common.error import BentoError, BentoHttpError

        reason = ""
        for attempt in range(1, self._config.attempts + 1):
            try:
                return request()
            except BentoHttpError as error:
                self._refuse(error)
                reason, named = f"the vendor answered {error.http_status}", self._retry_after(error)
            except BentoError as error:
                raise BrokenStreamError(self._plain(error)) from None
            except requests.RequestException as error:
                reason, named = f"the vendor was not reached ({self._plain(error)})", None
            if attempt < self._config.attempts:
                self._say(f"{reason}, attempt {attempt} of {self._config.attempts}")
                self.pause(attempt) if named is None else self._sleep(named)
        raise DataError(f"{reason} to each of {self._config.attempts} attempts: try again later")

    def _refuse(self, error: Any) -> None:
        """Raise for an answer that another attempt would not change."""
        status = error.http_status
        if status == 401:
            raise ConfigError(
                f"the vendor refuses the key in {KEY_VARIABLE} (401): set a valid one"
            ) from None
        if status == 422 and NOT_YET in str(error.message):
            raise NotYetAvailableError(self._plain(error)) from None
        if 400 <= status < 500 and status not in (408, 429):
            raise DataError(
                f"the vendor refuses the request ({self._plain(error)}): mend [download]"
            ) from None

    def _plain(self, error: object) -> str:
        """The text of an error on one line, without the key whatever happens."""
        return " ".join(str(error).split()).replace(self._key, "***")[:300]

    def _retry_after(self, error: Any) -> float | None:
        """Seconds that the vendor asks to wait, as a number or until a date; None when it does not say.

        Raises:
            DataError: it asks for more than the configuration allows.
        """
        text = str(error.headers.get("Retry-After", "")).strip()
        try:
            until = None if re.fullmatch(r"\d+(\.\d+)?", text) else parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = float(text) if until is None else (until - self._now()).total_seconds()
        longest = self._config.longest_wait_seconds
        if seconds > longest:
            raise DataError(
                f"the vendor answered {error.http_status} and asks to wait {seconds:.0f} s, more than "
                f"longest_wait_seconds = {longest:g}: try again later"
            ) from None
        return max(0.0, seconds)
