"""`alpha download`: an instrument's name and two dates in, whole files in its raw folder out."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from alpha_core.errors import ConfigError
from alpha_pipeline.config import PipelineConfig, load
from alpha_pipeline.download import DayResult, DownloadConfig, Vendor, fetch_days
from alpha_pipeline.download.days import day_after, days_between, missing_days
from alpha_pipeline.paths import Workspace


def fetch_market(
    instrument: str,
    workspace: Workspace,
    first: str,
    last: str,
    *,
    raw: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[DayResult]:
    """Fetch the missing days between two dates, both included.

    Raises:
        ConfigError: no [download] section, no key, wrong dates, or a key that the vendor refuses.
    """
    config = load(instrument, workspace)
    section, days = _section(config), days_between(first, last)
    folder = raw or workspace.raw(instrument)
    yield from fetch_days(Vendor(section, say=say), section, config.instrument.calendar, folder, days, say)


def price_of(
    instrument: str, workspace: Workspace, first: str, last: str, *, raw: Path | None = None
) -> dict[str, Any]:
    """What fetching the missing days would cost: their number, and US dollars as the vendor says."""
    config = load(instrument, workspace)
    section, vendor = _section(config), Vendor(_section(config))
    days = missing_days(
        raw or workspace.raw(instrument), section, config.instrument.calendar, days_between(first, last)
    )
    dollars = sum(vendor.cost(day, day_after(day)) for day in days) if days else 0.0
    return {"days": len(days), "dollars": dollars}


def _section(config: PipelineConfig) -> DownloadConfig:
    if config.download is None:
        raise ConfigError(
            f"{config.name} has no [download] section, so nothing to ask the vendor for: add dataset and symbols"
        )
    return config.download
